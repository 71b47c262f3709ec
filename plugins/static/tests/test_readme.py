import re
from pathlib import Path

import attrs

from memspine_static.config import SHIPPED, StaticConfig, model_folder
from memspine_static.model import load_model

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def shown(value):
    """A default as TOML would have it."""
    return "none" if value is None else repr(value)


def options_table():
    """The options as the README has to show them."""
    lines = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    for field in attrs.fields(StaticConfig):
        kind = str(field.type).removesuffix(" | None")
        lines.append(f"| `{field.name}` | {kind} | {shown(field.default)} | {field.metadata['help']} |")
    return "\n".join(lines)


def test_the_options_are_those_of_the_configuration():
    """The table of options is what the configuration class says."""
    (table,) = re.findall(r"<!-- options: begin -->\n(.*?)\n<!-- options: end -->", README, re.DOTALL)
    assert table == options_table()


def test_the_model_card_is_that_of_the_model():
    """Name, dimension, number of tokens and floor are those of the shipped files."""
    model = load_model(model_folder(StaticConfig(), None)[0])
    assert f"`{SHIPPED}`" in README
    assert f"| vectors | {model.dimension} numbers: {model.matrix.shape[1]} of the model" in README
    assert f"| tokens | {model.tokens.count:,}".replace(",", " ") in README
    assert f"shorter than {model.floor} times" in README
