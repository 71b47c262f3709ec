"""basic-memory and OpenClaw: folders of Markdown."""

import shutil

import pytest

from memspine_importers.notes import blocks

from .tools import FILES, found_in, recognised_by


def test_observations_relations_and_texts():
    """Observations have the title before them, relations are sentences, other blocks are what they are."""
    found = found_in("basic-memory", FILES / "basic-memory")
    assert [(memory.type, memory.content) for memory in found.memories] == [
        ("factual", "A paragraph about\ntwo lines of coffee."),
        ("factual", "Coffee Brewing: Pour over is clearer #brewing (tried on Sunday)"),
        ("factual", "[ ] buy filters"),
        ("factual", "[a link](https://example.org) that is no observation"),
        ("factual", "Coffee Brewing: Water at 94 °C\n- [detail] measured with the old kettle"),
        ("semantic", "Coffee Brewing relates to Coffee Beans"),
        ("semantic", "Coffee Brewing relates to Tea"),
        ("semantic", "Coffee Brewing contrasts with Tea Brewing"),
        ("factual", "Open questions"),
        ("factual", "Still a text."),
        ("factual", "Juno: Duck and potato"),
        ("factual", "Juno: Duck and potato"),
    ]


def test_fields_of_an_observation():
    """An observation has its category, tags and context, its note as session, and a time by the note's."""
    memory = found_in("basic-memory", FILES / "basic-memory").memories[1]
    assert memory.session == "basic-memory/coffee-brewing"
    assert memory.created_at.isoformat() == "2025-01-05T09:00:00.001000+00:00"
    assert memory.metadata == {
        "source": "basic-memory/coffee-brewing", "title": "Coffee Brewing", "note_type": "note",
        "tags": ["coffee", "brewing"], "heading": "Coffee Brewing / Observations", "entity": "Coffee Brewing",
        "category": "method", "context": "tried on Sunday",
    }  # fmt: skip


def test_notes_that_are_broken(tmp_path):
    """Properties that cannot be read cost nothing but themselves; a note that is no UTF-8 is told with its line."""
    shutil.copytree(FILES / "basic-memory", tmp_path / "vault")
    (tmp_path / "vault" / "latin.md").write_bytes(b"---\ntitle: L\n---\nna\xefve\n")
    found = found_in("basic-memory", tmp_path / "vault")
    assert found.bad == [
        "broken.md: properties that cannot be read: while parsing a flow sequence",
        "latin.md, line 4: byte 0xef is not UTF-8; convert the file",
    ]
    assert len(found.memories) == 12


def test_links_are_not_followed(tmp_path):
    """A link inside of a folder is noted and not read, whatever it leads to."""
    (tmp_path / "secret.md").write_text("not of this folder")
    shutil.copytree(FILES / "openclaw", tmp_path / "space")
    (tmp_path / "space" / "memory" / "link.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "space" / "memory" / "linked").symlink_to(tmp_path, target_is_directory=True)
    found = found_in("openclaw", tmp_path / "space")
    assert "memory/link.md: a link was not followed" in found.notes
    assert "not of this folder" not in found.contents


def test_a_note_that_is_too_large(tmp_path, monkeypatch):
    """A note that is too large to be parsed is told, and the others are read."""
    shutil.copytree(FILES / "openclaw", tmp_path / "space")
    monkeypatch.setattr("memspine_importers.notes.FILE_BYTES_MAX", 100)
    found = found_in("openclaw", tmp_path / "space")
    assert [line.partition(":")[0] for line in found.bad] == ["memory/2026-01-03-bicycle.md"]
    assert "Fixed the bicycle." in found.contents


def test_entries_of_a_workspace():
    """Each entry of the files of memories is a memory; daily files are from their day, instructions are left out."""
    found = found_in("openclaw", FILES / "openclaw")
    assert [(memory.type, memory.content) for memory in found.memories] == [
        ("factual", "Ada drinks tea."),
        ("factual", "Meetings before ten are bad."),
        ("factual", "The office is in Brno."),
        ("factual", "Name: Ada"),
        ("episodic", "Fixed the bicycle."),
        ("episodic", "Juno ate early."),
        ("episodic", "The tyre is flat again."),
        ("episodic", "Then take the tram.\nIt leaves at nine."),
        ("episodic", "Fine."),
        ("factual", "Beans go to bed one."),
    ]
    assert found.memories[5].created_at.isoformat() == "2026-01-02T00:00:00.001000+00:00"
    assert found.notes == [
        "AGENTS.md was left out: instructions", "README.md was left out: no file of memories",
        "SOUL.md was left out: instructions",
    ]  # fmt: skip


def test_a_kept_conversation():
    """A conversation that was kept is a session of its own, with who spoke."""
    memories = found_in("openclaw", FILES / "openclaw").memories[6:9]
    assert {memory.session for memory in memories} == {"openclaw/5f0c"}
    assert [memory.metadata["speaker"] for memory in memories] == ["user", "assistant", "user"]


@pytest.mark.parametrize("name", ["basic-memory", "openclaw"])
def test_folders_are_told_apart(name, tmp_path):
    """Each kind of folder is recognised by what is in it, and a folder of other notes is not."""
    assert recognised_by(FILES / name) == [name]
    (tmp_path / "a.md").write_text("---\ntitle: a\n---\nText.\n")
    (tmp_path / "MEMORY.md").write_text("- x\n")
    assert recognised_by(tmp_path) == []


def test_blocks_of_a_text():
    """Paragraphs, items, code and quotes are blocks, with the headings above them; a bare heading is one itself."""
    text = "# A\n\nx\ny\n\n## B\n\n1. one\n   more\n2. two\n\n```\n# code\n\nz\n```\n\n---\n\n## C\n\n> quote\n\n# D\n"
    assert [(block.line, block.text, block.headings, block.is_item) for block in blocks(text, offset=10)] == [
        (13, "x\ny", ("A",), False),
        (18, "one\nmore", ("A", "B"), True),
        (20, "two", ("A", "B"), True),
        (22, "```\n# code\n\nz\n```", ("A", "B"), False),
        (32, "> quote", ("A", "C"), False),
        (34, "D", (), False),
    ]
