"""mem0, the MCP server `memory` and OmniRoute."""

import json
import shutil

import pytest

from .samples import OMNIROUTE_ROWS, make_omniroute
from .tools import FILES, found_in, recognised_by


def told(found):
    """What is bad, without what was expected instead."""
    return [line.partition("; expected")[0] for line in found.bad]


def test_mcp_observations_and_relations():
    """Each observation has its entity before it, a relation is a sentence, an entity without any is one itself."""
    found = found_in("mcp-memory", FILES / "mcp-memory.jsonl")
    assert found.contents == [
        "Ada_Novak: Speaks Czech", "Ada_Novak: Works on Tuesdays", "Ada_Novak: Speaks Czech", "Garden (place)",
        "Ada_Novak looks after Garden", "Half: fine", "Garden lies in Prague",
    ]  # fmt: skip
    assert found.memories[4].metadata == {
        "source": "mcp-memory/Ada_Novak", "entity": "Ada_Novak", "relation": "looks_after", "to": "Garden"
    }  # fmt: skip
    assert found.sources[0].identity == found.sources[2].identity


def test_mcp_broken_lines():
    """Each line that is broken is told, that it may be cut off where the file ends in it, and the rest goes in."""
    found = found_in("mcp-memory", FILES / "mcp-memory.jsonl")
    assert [(item.line, item.reason.partition(";")[0]) for item in found.items if hasattr(item, "reason")] == [
        (5, "the line is no JSON object"),
        (6, "an observation of 'Half' is no text"),
        (6, "an observation of 'Half' is no text"),
        (7, "the line has name, type"),
        (8, "the line is no JSON object"),
        (10, "the line is no JSON object"),
    ]
    assert found.bad[-1].endswith("the file ends in this line: it may be cut off")


def test_mcp_a_line_that_is_too_long(monkeypatch):
    """A line that is too long to be held is told, and the next one is read."""
    monkeypatch.setattr("memspine_importers.mcp_memory.LINE_BYTES_MAX", 200)
    good = json.dumps({"type": "entity", "name": "A", "entityType": "b", "observations": ["c"]}).encode()
    found = found_in("mcp-memory", b"x" * 1000 + b"\n" + good)
    assert (found.contents, len(found.bad)) == (["A: c"], 1)


def test_mem0_with_and_without_its_envelope():
    """An array and the envelope `results` give the same."""
    enveloped, plain = found_in("mem0", FILES / "mem0.json"), found_in("mem0", FILES / "mem0-array.json")
    assert enveloped.items[:2] == plain.items
    assert plain.contents == ["Likes long walks", "Has a dog called Juno"]


def test_mem0_fields():
    """Owner, run, speaker and times are kept, and the product's own metadata beside ours."""
    first, second = found_in("mem0", FILES / "mem0-array.json").sources
    assert (first.owner, first.identity) == ("ada", ("id", "0a1b"))
    assert first.memory.metadata == {"category": "habits", "mem0_source": "chat", "source": "mem0/0a1b"}
    assert first.memory.created_at.isoformat() == "2024-07-26T15:23:39.012000+00:00"
    assert (second.memory.session, second.memory.metadata["speaker"]) == ("trip-1", "Ada")


def test_mem0_what_does_not_go_in():
    """What has expired is noted, what has no text is told, and a relation of several users belongs to none."""
    found = found_in("mem0", FILES / "mem0.json")
    assert found.contents == ["Likes long walks", "Has a dog called Juno", "Wants to see Brno", "Bob keeps bees"]
    assert found.notes == [
        "a memory that has expired was left out", "a time `created_at` that cannot be read was left out"
    ]  # fmt: skip
    several = "whose it is cannot be told, as the memories are of several users"
    assert told(found) == [
        "memory 0a1f: cannot be used", "memory 6: cannot be used", f"relation 8: {several}", f"relation 9: {several}",
        'relation 10: has ["source"]',
    ]  # fmt: skip


def test_mem0_relations():
    """Relations of one user become that user's sentences."""
    memory = {"id": "1", "memory": "m", "user_id": "ada"}
    relations = [{"source": "ada", "relationship": "lives_in", "destination": "brno"}]
    found = found_in("mem0", json.dumps({"results": [memory, "broken"], "relations": relations}).encode())
    assert [(item.memory.content, item.owner) for item in found.sources] == [("m", "ada"), ("ada lives in brno", "ada")]


def test_omniroute_rows(tmp_path):
    """Each row is a memory of its owner, the newest first, with type, key, session, times and metadata."""
    make_omniroute(tmp_path / "storage.sqlite").close()
    found = found_in("omniroute", tmp_path / "storage.sqlite")
    assert [(item.owner, item.memory.content, item.memory.key) for item in found.sources] == [
        ("", "Nobody's", ""),
        ("key-2", "The other one's", "k"),
        ("key-1", "Chose SQLite", ""),
        ("key-1", "Python", "preference:python"),
        ("key-1", "older Python", "preference:python"),
    ]
    python = found.memories[3]
    assert (python.type, python.session) == ("factual", "s1")
    assert python.metadata == {
        "category": "preference", "omniroute_source": "llm_response", "source": "omniroute/r1"
    }  # fmt: skip
    assert found.memories[2].created_at.isoformat() == "2026-01-02T11:00:00+00:00"


def test_omniroute_what_does_not_go_in(tmp_path):
    """A row that cannot be used is told with its id, what has expired and metadata that are broken are noted."""
    make_omniroute(tmp_path / "storage.sqlite").close()
    found = found_in("omniroute", tmp_path / "storage.sqlite")
    assert found.bad == ["row 1, r8: has no content", "row 2: content is not UTF-8"]
    assert found.notes == [
        "a memory that has expired was left out, as OmniRoute recalls none",
        "metadata that are no JSON object were left out",
    ]


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_omniroute_a_database_that_nobody_has_open(tmp_path, mode):
    """The database stays as it is, and nothing comes to lie beside it."""
    make_omniroute(tmp_path / "storage.sqlite", mode=mode).close()
    before = everything(tmp_path)
    assert list(before) == ["storage.sqlite"]
    assert recognised_by(tmp_path / "storage.sqlite") == ["omniroute"]
    assert len(found_in("omniroute", tmp_path / "storage.sqlite").memories) == 5
    assert {path.name for path in tmp_path.iterdir()} == {"storage.sqlite"}
    assert everything(tmp_path) == before


def test_omniroute_a_database_in_use(tmp_path):
    """What a running product has written but not yet moved into its database is read, and database and log stay."""
    database = make_omniroute(tmp_path / "storage.sqlite", mode="wal")
    before = everything(tmp_path)
    assert len(found_in("omniroute", tmp_path / "storage.sqlite").memories) == 5
    assert everything(tmp_path) == before
    database.close()


def test_omniroute_a_copy_with_its_log(tmp_path):
    """A database that was copied with its log is read whole, and nothing is written beside it."""
    (tmp_path / "copy").mkdir()
    database = make_omniroute(tmp_path / "storage.sqlite", mode="wal")
    for name in ("storage.sqlite", "storage.sqlite-wal"):
        shutil.copy(tmp_path / name, tmp_path / "copy")
    database.close()
    before = everything(tmp_path / "copy")
    assert len(found_in("omniroute", tmp_path / "copy" / "storage.sqlite").memories) == 5
    assert {path.name for path in (tmp_path / "copy").iterdir()} == set(before)
    assert everything(tmp_path / "copy") == before


def test_omniroute_a_damaged_database(tmp_path):
    """A database that is cut off is told in one line, behind what could be read of it."""
    rows = [(f"{n}", "key", "", "factual", "", "x" * 3000, None, "2026-01-01T00:00:00Z", None) for n in range(200)]
    make_omniroute(tmp_path / "storage.sqlite", rows=rows).close()
    data = (tmp_path / "storage.sqlite").read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(data[: len(data) // 2])
    found = found_in("omniroute", tmp_path / "cut.sqlite")
    assert len(found.bad) == 1
    assert "the database cannot be read: " in found.bad[0]


def test_omniroute_the_earlier_table(tmp_path):
    """The table that earlier versions had is read as well."""
    database = make_omniroute(tmp_path / "storage.sqlite", rows=())
    database.executescript("""
        DROP TABLE memories;
        CREATE TABLE memory (id TEXT PRIMARY KEY, apiKeyId TEXT, sessionId TEXT, type TEXT, key TEXT, content TEXT,
          metadata TEXT, createdAt TEXT, updatedAt TEXT, expiresAt TEXT);
        INSERT INTO memory VALUES ('a', 'key', 's', 'factual', 'k', 'old', '{}', '2025-01-01T00:00:00Z', NULL, NULL);
    """)
    database.close()
    assert found_in("omniroute", tmp_path / "storage.sqlite").contents == ["old"]


def test_omniroute_another_database(tmp_path):
    """A SQLite database without such a table is not recognised, and is told in one line when it is read."""
    database = make_omniroute(tmp_path / "other.sqlite", rows=OMNIROUTE_ROWS[:1])
    database.executescript("DROP TABLE memories; CREATE TABLE memories (id TEXT, text TEXT)")
    database.close()
    assert recognised_by(tmp_path / "other.sqlite") == []
    assert told(found_in("omniroute", tmp_path / "other.sqlite")) == ["there is no table of memories in the database"]
