import re
from pathlib import Path

import attrs

from memspine_sqlite.config import SQLiteConfig, SQLiteVectorsConfig
from memspine_sqlite.plugin import memspine_memory_backends

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def shown(value):
    """A default as TOML would have it."""
    return "none" if value is None else repr(value)


def options_table(fields):
    """Options as the README has to show them."""
    lines = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    for field in fields:
        kind = str(field.type).removesuffix(" | None")
        lines.append(f"| `{field.name}` | {kind} | {shown(field.default)} | {field.metadata['help']} |")
    return "\n".join(lines)


def table(name):
    """A table of options that the README has."""
    (found,) = re.findall(rf"<!-- {name}: begin -->\n(.*?)\n<!-- {name}: end -->", README, re.DOTALL)
    return found


def test_the_options_are_those_of_the_configuration():
    """The table of options is what the configuration class says."""
    assert table("options") == options_table(attrs.fields(SQLiteConfig))


def test_the_options_of_the_vector_store_are_those_of_its_configuration():
    """The second table has what the vector store's configuration adds to the first."""
    shared = {field.name for field in attrs.fields(SQLiteConfig)}
    assert table("vector options") == options_table(
        [field for field in attrs.fields(SQLiteVectorsConfig) if field.name not in shared]
    )


def test_the_claims_are_those_of_the_provider():
    """The README names exactly the capabilities that the provider declares."""
    (provider,) = memspine_memory_backends()
    line = next(line for line in README.splitlines() if line.startswith("`put`"))
    claimed = line.partition(";")[0]
    assert set(re.findall(r"`(\w+)`", claimed)) == set(provider.capabilities)
