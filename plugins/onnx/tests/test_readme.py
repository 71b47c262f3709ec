import re
from pathlib import Path

import attrs
import pytest

from memspine_onnx.config import OnnxConfig, OnnxRerankerConfig
from memspine_onnx.models import MODELS

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def shown(value):
    """A default as TOML would have it."""
    return "none" if value is None else repr(value)


def options_table(config):
    """The options as the README has to show them."""
    lines = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    for field in attrs.fields(config):
        kind = str(field.type).removesuffix(" | None")
        lines.append(f"| `{field.name}` | {kind} | {shown(field.default)} | {field.metadata['help']} |")
    return "\n".join(lines)


def models_table():
    """The models as the README has to show them."""
    lines = ["| model | size | licence | what it is |", "| --- | --- | --- | --- |"]
    for model in MODELS:
        size = sum(file.size_bytes for file in model.files) / 1_000_000
        lines.append(f"| `{model.name}` | {size:.0f} MB | {model.licence} | {model.summary} |")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("options", options_table(OnnxConfig)),
        ("reranker options", options_table(OnnxRerankerConfig)),
        ("models", models_table()),
    ],
)
def test_the_tables_are_those_of_the_code(name, table):
    """The options and the models that can be fetched are what the code says."""
    (written,) = re.findall(rf"<!-- {name}: begin -->\n(.*?)\n?<!-- {name}: end -->", README, re.DOTALL)
    assert written == table
