"""What is wrong with a configuration, as it is printed."""

import re
from pathlib import Path

import pytest

from memspine.config import config_from_mapping, load_config
from memspine.errors import ConfigError

# Each case: a name, a document, what is printed.
CASES = dict(
    re.findall(
        r"^### (.+)\n((?:.*\n)*?--> .+)$",
        Path(__file__).with_name("problems.txt").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)


@pytest.mark.parametrize("name", CASES)
def test_each_problem_is_printed_with_its_place(name, tmp_path, plugins):
    """A problem names file, line, key, what was found and what is expected."""
    document, expected = CASES[name].split("--> ")
    file = tmp_path / "memspine.toml"
    file.write_text(document, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_config("memspine.toml", plugins=plugins, working_folder=tmp_path)
    assert str(error.value) == expected
    assert "sk-12345" not in str(error.value)
    assert error.value.problems[0].source == "memspine.toml"


def test_syntax_error_at_the_end(tmp_path, plugins):
    """A document that ends too early has its problem on its last line; the words are Python's."""
    (tmp_path / "memspine.toml").write_text("[memory]\nowner =\n\n", encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_config("memspine.toml", plugins=plugins, working_folder=tmp_path)
    assert str(error.value).startswith("memspine.toml:2: not TOML: ")


def test_everything_is_reported_at_once(tmp_path, plugins):
    """All problems of all tables come in one error, sorted by line, those of no line last."""
    document = (
        "[retrieval]\nlimit = 0\nlimt = 1\n[memory]\nowner = 1\nfallbacks = ['z', 1]\n[backends.b]\nplugin = 'full'\n"
        "size = 0\nurl = 1\n[backends.a]\nplugin = 'needs'\n[other]\n"
    )
    (tmp_path / "memspine.toml").write_text(document, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_config("memspine.toml", plugins=plugins, working_folder=tmp_path)
    assert [(problem.line, problem.key) for problem in error.value.problems] == [
        (2, "retrieval.limit"),
        (3, "retrieval.limt"),
        (4, "memory.primary"),
        (5, "memory.owner"),
        (6, "memory.fallbacks[1]"),
        (6, "memory.fallbacks[0]"),
        (9, "backends.b.size"),
        (10, "backends.b.url"),
        (11, "backends.a"),
        (11, "backends.a"),
        (13, "other"),
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\xef\xbb\xbf[memory]\n", "c.toml:1: starts with a byte order mark; save it as UTF-8 without one"),
        ("[memory]\n".encode("utf-16"), "c.toml:1: starts with a byte order mark; save it as UTF-8 without one"),
        (b"[memory]\nowner = '\xe9'\n", "c.toml:2: byte 0xe9 is not UTF-8; save it as UTF-8"),
        (b"#" * (1024 * 1024 + 1), "c.toml: is larger than 1048576 bytes"),
        (b"a = " + b"[" * 100_000, "c.toml: is nested too deeply"),
    ],
    ids=["bom", "utf-16", "latin-1", "large", "deep"],
)
def test_files_that_are_no_text(content, text, tmp_path, plugins):
    """A file that cannot be read as TOML says what to do about it."""
    (tmp_path / "c.toml").write_bytes(content)
    with pytest.raises(ConfigError) as error:
        load_config("c.toml", plugins=plugins, working_folder=tmp_path)
    assert str(error.value).startswith(text[:40])


def test_huge_numbers(tmp_path, plugins):
    """A number that Python refuses to read or to convert is a problem, not a crash."""
    for digits in (400, 5000):
        (tmp_path / "c.toml").write_text(f"[memory]\ndeadline_seconds = {'9' * digits}\n", encoding="utf-8")
        with pytest.raises(ConfigError):
            load_config("c.toml", plugins=plugins, working_folder=tmp_path)


def test_mapping_is_checked_like_a_file(plugins):
    """A program that passes a mapping gets the same problems, under the name it gives."""
    with pytest.raises(ConfigError) as error:
        config_from_mapping({"memory": {"owner": 1, 2: 3}}, plugins=plugins, folder=Path(), name="my settings")
    assert str(error.value) == (
        "my settings: memory: keys are texts, got int 2\nmy settings: memory.owner: expected str, got int 1"
    )


def test_long_values_are_cut(plugins):
    """A problem stays one short line, however long the value is."""
    with pytest.raises(ConfigError) as error:
        config_from_mapping({"memory": {"read_fallback": "x\n" * 5000}}, plugins=plugins)
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)
