import re
from pathlib import Path

import attrs

from memspine_sqlite.config import SQLiteConfig
from memspine_sqlite.plugin import memspine_memory_backends

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def shown(value):
    """A default as TOML would have it."""
    return "none" if value is None else repr(value)


def options_table():
    """The options as the README has to show them."""
    lines = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    for field in attrs.fields(SQLiteConfig):
        kind = str(field.type).removesuffix(" | None")
        lines.append(f"| `{field.name}` | {kind} | {shown(field.default)} | {field.metadata['help']} |")
    return "\n".join(lines)


def test_the_options_are_those_of_the_configuration():
    """The table of options is what the configuration class says."""
    (table,) = re.findall(r"<!-- options: begin -->\n(.*?)\n<!-- options: end -->", README, re.DOTALL)
    assert table == options_table()


def test_the_claims_are_those_of_the_provider():
    """The README names exactly the capabilities that the provider declares."""
    (provider,) = memspine_memory_backends()
    line = next(line for line in README.splitlines() if line.startswith("`put`"))
    claimed = line.partition(";")[0]
    assert set(re.findall(r"`(\w+)`", claimed)) == set(provider.capabilities)
