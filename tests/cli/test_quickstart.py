"""The first command that anyone runs."""

import asyncio
from pathlib import Path

import pytest

from memspine.cli import story
from memspine.cli.codes import Exit
from memspine.cli.output import Output
from memspine.plugins import Plugins

DATA = ["imported", "questions", "before", "after", "off", "next", "config"]


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_it_tells_the_whole_story(bare):
    """It says what went in, answers questions with reasons, explains one, injects, says what is off and where to go."""
    answer = bare.ok("quickstart", "--source", "none")
    assert answer.err == ""
    assert "206 turns of 20 sessions" in answer.out
    for question in story.QUESTIONS:
        assert f"  {question}" in answer.lines
    assert story.BY_MEANING not in answer.out
    assert "because of workshop, quoted, new, hanger; score 1." in answer.out
    assert "keyword leg: " in answer.out
    assert "A chat request before" in answer.out
    assert "<memory-context tag=" in answer.out
    assert '  vector leg off: the configuration says source = "none"' in answer.lines
    assert sum(line.startswith("  memspine ") for line in answer.lines) == 3
    assert max(map(len, answer.lines[:30])) <= 110


def test_it_finds_by_meaning(bare, toy_source):
    """With an embedding source it also recalls what has no word in common with the question, and says so."""
    bare.ok("quickstart", "--folder", "play", "--source", "none")
    path = Path("play", "memspine.toml")
    settings = path.read_text().replace('"none"', f'"toy"\n[embedding.toy]\nfolder = "{toy_source.folder}"')
    told = asyncio.run(retell(settings, path))
    assert told.indexed.report.embedded == 206
    assert told.off == ()
    question, result = told.answers[-1]
    assert question == story.BY_MEANING
    assert {hit.matched for hit in result.hits} == {()}
    assert {hit.tier for hit in result.hits} == {"vector"}


async def retell(settings, path):
    """The story with other settings, in a store of its own."""
    other = path.with_name("other.toml")
    other.write_text(settings.replace("memories.db", "other.db"))
    return await story.tell(other, Plugins(), Output(quiet=True))


def test_a_source_that_fails_costs_it_nothing(bare, toy_source):
    """With a source that does not work the story is told by words, and a note says why."""
    toy_source.fails()
    config = toy_source.config.read_text().replace("notes.db", "other.db")
    other = toy_source.config.with_name("other.toml")
    other.write_text(config)
    told = asyncio.run(story.tell(other, Plugins(), Output(quiet=True)))
    assert [question for question, _ in told.answers] == list(story.QUESTIONS)
    assert any("is out of order" in reason for reason in told.off)


def test_it_answers_in_json(bare):
    """With --json it prints what went in, questions with results and trace, and the request before and after."""
    data = bare.ok("quickstart", "--source", "none", "--json").data
    assert list(data) == DATA
    imported = data["imported"]
    assert (imported["memories"], imported["sessions"], imported["backend"]) == (206, 20, "sqlite")
    assert imported["embedded"] == 0
    assert len(data["questions"]) == 3
    for asked in data["questions"]:
        assert list(asked) == ["question", "results", "trace"]
        assert 1 <= len(asked["results"]) <= 2
    assert data["before"]["messages"][0]["content"] in data["after"]["messages"][0]["content"]
    assert data["before"]["messages"][1] == data["after"]["messages"][1]


RIGHT = ["s02t03", "s10t07", "s03t09"]


def test_the_first_answers_are_right(bare):
    """The memory that answers each question is the first of its results."""
    data = bare.ok("quickstart", "--source", "none", "--json").data
    assert [asked["results"][0]["id"] for asked in data["questions"]] == RIGHT


def test_the_shipped_model_finds_by_meaning(bare):
    """With the model that is shipped the answers are right, and one of them has no word in common with its question."""
    pytest.importorskip("memspine_static")
    answer = bare.ok("quickstart", "--source", "static")
    assert (
        "    1. Mara on 2026-02-01: Juno has been scratching her ears for ten days, so we saw the vet" in answer.lines
    )
    assert answer.out.count("found by meaning: no word in common; score ") == 2
    assert "206 of them embedded by static (" in answer.out
    data = bare.ok("quickstart", "--source", "static", "--json").data
    assert [asked["results"][0]["id"] for asked in data["questions"]] == [*RIGHT, "s03t01"]


def test_it_touches_nothing_of_the_users(bare, tmp_path, work, monkeypatch):
    """The user's memories, secret and configuration are neither used nor changed, and nothing is left behind."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    mine = bare.add("mine", "--no-maintenance")
    bare.ok("config", "set", "retrieval.limit", "1")
    (work / "memspine.toml").write_text("this is [ no configuration")
    monkeypatch.setenv("MEMSPINE_CONFIG", "/nowhere.toml")
    before = files(tmp_path)
    bare.ok("quickstart")
    assert files(tmp_path) == before
    assert list(temporary.iterdir()) == []
    monkeypatch.delenv("MEMSPINE_CONFIG")
    (work / "memspine.toml").unlink()
    assert [row[0] for row in bare.ok("list").rows] == [mine]


def test_it_can_be_kept(bare, work, tmp_path):
    """--folder keeps everything in one folder, and the commands it prints work."""
    data = bare.ok("quickstart", "--folder", "play", "--json").data
    assert data["config"] == str(Path("play", "memspine.toml"))
    assert bare.ok("list", "--json", config=data["config"]).data["total"] == 206
    assert "memories.db" in {path.name for path in (work / "play").iterdir()}
    assert not (tmp_path / "home" / "data").exists()
    answer = bare("quickstart", "--folder", "play")
    assert answer.code == Exit.INVALID
    assert "is there already; name another folder" in answer.err


def test_it_works_with_any_backend(bare):
    """--plugin tries another store; without the one that is asked for, it says how to install it."""
    assert bare.ok("quickstart", "--plugin", "reference", "--json").data["imported"]["backend"] == "reference"
    answer = bare("quickstart", "--plugin", "acme")
    assert answer.code == Exit.CONFIG
    assert 'pip install "memspine-acme"' in answer.err
    answer = bare("quickstart", "--source", "acme")
    assert answer.code == Exit.CONFIG
    assert "'acme' is neither a table [embedding.NAME] nor an installed embedding source" in answer.err


def test_it_runs_as_a_process(bare):
    """Without a terminal, as a process of its own, it prints the same and no warning."""
    answer = bare.process("quickstart")
    assert (answer.code, answer.err) == (0, "")
    assert "\x1b" not in answer.out
