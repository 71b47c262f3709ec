"""copy and verify, between any two backends of a configuration."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import time

import pytest

from memspine.cli.codes import Exit
from memspine.cli.idfile import IdFile
from memspine.model import MemoryRef


@pytest.fixture
def two(cli, config):
    """A second backend beside the primary, which holds two memories of two owners."""
    settings = config.read_text().replace("[memory]", '[memory]\nprimary = "notes"')
    config.write_text(f'{settings}\n[backends.other]\nplugin = "sqlite"\npath = "other.db"\n')
    cli.add("Juno eats duck", "--key", "juno")
    cli.add("Heron is a bicycle", "--owner", "you")
    return cli


def test_copy_and_verify(two):
    """A copy takes everything over, another one finds nothing to do, and verify proves it from both sides."""
    assert two("verify", "notes", "other").code == Exit.PARTIAL
    report = two.ok("copy", "--from", "notes", "--to", "other", "--json").data
    assert report["copied"] == 2
    assert [loss["what"] for loss in report["losses"]] == ["vectors"]
    assert report["ids"] == []
    assert two.ok("copy", "--from", "notes", "--to", "other").rows[:2] == [["copied", "0"], ["unchanged", "2"]]
    assert two.ok("verify", "notes", "other", "--json").data == {
        "same": 2,
        "different": 0,
        "withoutRevisions": [],
        "differences": [],
    }


def test_verify_lists_what_differs(two):
    """Each difference is told with the memory's id and owner, and the exit code is 9."""
    two.ok("copy", "--from", "notes", "--to", "other", "--owner", "me")
    answer = two("verify", "notes", "other")
    assert answer.code == Exit.PARTIAL
    assert answer.rows == [["same", "1"], ["different", "1"]]
    assert "of you: only in the first" in answer.err


def test_since(two):
    """With --since only what changed since then is copied."""
    assert two.ok("copy", "--from", "notes", "--to", "other", "--since", "0d", "--json").data["copied"] == 0
    assert two.ok("copy", "--from", "notes", "--to", "other", "--since", "1d", "--json").data["copied"] == 2


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [("notes", "nowhere", "is no backend of the configuration"), ("notes", "notes", "is named as both places")],
)
def test_places_that_cannot_be_copied_between(two, source, target, said):
    """An unknown place, and one place as both, are told before anything is opened."""
    answer = two("copy", "--from", source, "--to", target)
    assert answer.code == Exit.CONFIG
    assert said in answer.err


@pytest.mark.parametrize("path", ["notes.db", "./notes.db", "link.db", "{work}/notes.db"])
@pytest.mark.parametrize("command", [("copy", "--from", "notes", "--to"), ("verify", "notes")])
def test_one_file_under_two_names_is_one_place(two, config, work, path, command):
    """A target that is the source's own file, by whatever path, is refused, and nothing is touched."""
    (work / "link.db").symlink_to(work / "notes.db")
    config.write_text(config.read_text() + f'[backends.alias]\nplugin = "sqlite"\npath = "{path.format(work=work)}"\n')
    answer = two(*command, "alias")
    assert answer.code == Exit.CONFIG
    assert "backends.alias: is the same store as 'notes' under another name" in answer.err


@pytest.mark.parametrize("since", ["2026-01-02T03:04:05", "9000-01-01T00:00:00Z", "tomorrow"])
def test_since_that_is_no_past_time(two, since):
    """A --since without an offset, in the future, or that is no time, is refused."""
    answer = two("copy", "--from", "notes", "--to", "other", "--since", since)
    assert answer.code == Exit.INVALID
    assert "since: " in answer.err


@pytest.mark.parametrize("command", [("copy", "--from", "notes", "--to", "other"), ("verify", "notes", "other")])
def test_an_owner_who_has_nothing(two, command):
    """An owner of whom there is nothing on either side is told, with the exit code of what is not found."""
    answer = two(*command, "--owner", "nobody")
    assert answer.code == Exit.NOT_FOUND
    assert "holds" in answer.err
    assert "'nobody'" in answer.err
    assert two(*command, "--owner", "").code == Exit.INVALID


def test_an_id_map_is_written_for_every_copy(two, work):
    """The file of --id-map is there after a copy, with its header alone where ids are kept, and not after a dry run."""
    file = work / "ids.jsonl"
    copy = ("copy", "--from", "notes", "--to", "other", "--id-map", file)
    two.ok(*copy, "--dry-run")
    assert not file.exists()
    assert "ids" not in two.ok(*copy, "--json").data
    assert file.read_text() == '{"memspine": "id map", "from": "notes", "to": "other"}\n'
    assert file.stat().st_mode & 0o777 == 0o600
    two.ok(*copy)
    back = two("copy", "--from", "other", "--to", "notes", "--id-map", file)
    assert back.code == Exit.INVALID
    assert "is of a copy from 'notes' to 'other'" in back.err


@pytest.mark.parametrize("content", ["precious", "precious\n", "[]\n", '{"memspine": "journal"}\n', "\xff\n", "\n"])
def test_no_other_file_is_taken_for_an_id_map(two, work, content):
    """A file that is no id map is refused and stays as it is, and nothing is copied."""
    file = work / "ids.jsonl"
    file.write_text(content, encoding="latin-1")
    answer = two("copy", "--from", "notes", "--to", "other", "--id-map", file)
    assert answer.code == Exit.INVALID
    assert "id map" in answer.err
    assert file.read_text(encoding="latin-1") == content
    assert two("verify", "notes", "other").rows[0] == ["same", "0"]


def test_a_place_where_no_id_map_can_be(two, work):
    """A path where no file can be written is told before anything is copied."""
    for path in (work, work / "none" / "ids.jsonl"):
        answer = two("copy", "--from", "notes", "--to", "other", "--id-map", path)
        assert answer.code == Exit.INVALID
        assert "cannot be used" in answer.err


def test_half_a_line_of_an_id_map_is_dropped(tmp_path):
    """Whatever a crash left of the last line, all whole lines are read and what is written next is whole."""
    path, ref = tmp_path / "ids.jsonl", MemoryRef("me", "a\n\u2028é")
    ids = IdFile(path, source="here", target="there")
    ids.note(ref, "1")
    asyncio.run(ids.keep())
    whole = path.read_bytes()
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        again = IdFile(path, source="here", target="there")
        assert again.get(ref) == ("1" if end == len(whole) else None)
        again.note(MemoryRef("you", "b"), "2")
        asyncio.run(again.keep())
        assert IdFile(path, source="here", target="there").get(MemoryRef("you", "b")) == "2"


def test_a_copy_that_was_killed_is_done_again(two, work):
    """However often it is killed in the middle, the same command copies the rest, and both places are the same."""
    lines = "".join(f'{{"content": "memory {n}"}}\n' for n in range(6000))
    two.ok("import", "-", "--format", "jsonl", "--no-index", stdin=lines)
    command = [sys.executable, "-m", "memspine", "--config", two.config, "copy", "--from", "notes", "--to", "other"]
    counts = []
    for least in (1, 1500, 3000):
        copying = subprocess.Popen(command, env=two.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while stored(work / "other.db") < least and copying.poll() is None:
            time.sleep(0.01)
        copying.kill()
        copying.wait()
        counts.append(stored(work / "other.db"))
    assert any(0 < count < 6002 for count in counts), counts
    report = two.ok("copy", "--from", "notes", "--to", "other", "--json").data
    assert report["copied"] + report["unchanged"] == 6002
    assert report["unchanged"] >= counts[-1]
    assert two.ok("verify", "notes", "other", "--json").data["same"] == 6002


def stored(file):
    """How many memories a file holds by now."""
    if not file.exists():
        return 0
    try:
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM memories").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
