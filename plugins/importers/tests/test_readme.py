import re
from pathlib import Path

from .tools import IMPORTERS

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_changes_are_those_that_the_importers_declare():
    """The README says of each importer what it says itself when it reads."""
    (table,) = re.findall(r"<!-- changes: begin -->\n(.*?)\n<!-- changes: end -->", README, re.DOTALL)
    rows = [f"| `{importer.name}` | {importer.changes} |" for importer in IMPORTERS.values()]
    assert table.splitlines() == ["| format | what changes |", "| --- | --- |", *rows]


def test_every_importer_is_listed():
    """The README has a row for each importer."""
    assert all(f"\n| `{name}` | " in README for name in IMPORTERS)
