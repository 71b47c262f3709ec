"""The README says what there is."""

import json
import re
from pathlib import Path

import pytest

from memspine_bench import SETTINGS, evaluate, parse_conversations
from memspine_bench.command import main

README = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")


def test_the_table_of_settings_is_whole():
    """Every setting stands in the README, with the words of the help."""
    table = README[README.index("<!-- settings: begin -->") : README.index("<!-- settings: end -->")]
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*) \|$", table, re.MULTILINE))
    assert rows == {setting.name: setting.help for setting in SETTINGS.values()} | {"all": "each of them"}


def test_the_options_are_those_of_the_command(capsys):
    """Every option in the README is one of the command."""
    with pytest.raises(SystemExit, match="0"):
        main(["retrieval", "--help"])
    options = set(re.findall(r"--[a-z]+", capsys.readouterr().out))
    assert set(re.findall(r"`?(--[a-z]+)", README[: README.index("<!-- settings")])) <= options


def test_the_example_of_a_file_is_one():
    """The file in the README can be measured."""
    (example,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    (row,) = evaluate(parse_conversations(json.loads(example)), settings=["keyword"]).rows
    assert row.scores.percent("any@1") == 100.0
