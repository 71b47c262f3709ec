"""The first command that anyone runs."""

from pathlib import Path

from memspine.cli import story
from memspine.cli.codes import Exit

DATA = ["imported", "questions", "before", "after", "off", "next", "config"]


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_it_tells_the_whole_story(bare):
    """It says what went in, answers questions with reasons, explains one, injects, says what is off and where to go."""
    answer = bare.ok("quickstart")
    assert answer.err == ""
    assert "206 turns of 20 sessions" in answer.out
    for question in story.QUESTIONS:
        assert f"  {question}" in answer.lines
    assert "because of workshop, quoted, new, hanger; score 0." in answer.out
    assert "keyword leg: " in answer.out
    assert "A chat request before" in answer.out
    assert "<memory-context tag=" in answer.out
    assert "  vector leg off: no embedding source is configured" in answer.lines
    assert sum(line.startswith("  memspine ") for line in answer.lines) == 3
    assert max(map(len, answer.lines[:30])) <= 110


def test_it_answers_in_json(bare):
    """With --json it prints what went in, questions with results and trace, and the request before and after."""
    data = bare.ok("quickstart", "--json").data
    assert list(data) == DATA
    imported = data["imported"]
    assert (imported["memories"], imported["sessions"], imported["backend"]) == (206, 20, "sqlite")
    assert len(data["questions"]) == 3
    for asked in data["questions"]:
        assert list(asked) == ["question", "results", "trace"]
        assert 1 <= len(asked["results"]) <= 2
    assert data["before"]["messages"][0]["content"] in data["after"]["messages"][0]["content"]
    assert data["before"]["messages"][1] == data["after"]["messages"][1]


def test_the_first_answers_are_right(bare):
    """The memory that answers each question is the first of its results."""
    first = [asked["results"][0]["id"] for asked in bare.ok("quickstart", "--json").data["questions"]]
    assert first == ["s02t03", "s10t07", "s03t09"]


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


def test_it_runs_as_a_process(bare):
    """Without a terminal, as a process of its own, it prints the same and no warning."""
    answer = bare.process("quickstart")
    assert (answer.code, answer.err) == (0, "")
    assert "\x1b" not in answer.out
