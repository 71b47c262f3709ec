import json
import shutil

from .tools import FILES, found_in, recognised_by

FILE = FILES / "claude.json"


def test_messages_and_attached_texts_become_memories():
    """Blocks of text are taken, attached texts are memories of their own, older messages have their text alone."""
    found = found_in("claude", FILE)
    assert [(memory.metadata["speaker"], memory.content) for memory in found.memories] == [
        ("user", "The bed by the wall is dry."),
        ("user", "Bed 1: beans.\nBed 2: chard."),
        ("assistant", "Plant thyme there.\n\nIt needs no water."),
        ("assistant", "A nice wall."),
        ("user", "An old message, from before there were blocks."),
    ]
    assert {memory.session for memory in found.memories} == {"claude/c-1", "claude/c-2"}
    times = [memory.created_at for memory in found.memories[:4]]
    assert times == sorted(set(times))


def test_what_was_left_out_is_told():
    """Thinking, tools and messages of files alone have their notes."""
    assert found_in("claude", FILE).notes == [
        "a part of a message of the kind 'thinking' was left out",
        "a part of a message of the kind 'tool_use' was left out",
        "a part of a message of the kind 'tool_result' was left out",
        "a message of files or images alone was left out",
    ]


def test_another_account_is_left_out():
    """A conversation of a second account is refused in one line, which holds nothing of it."""
    found = found_in("claude", FILE)
    [line] = found.bad
    assert line.startswith("conversation 4 is of another account than what stands before it, and was left out: ")
    assert "secret" not in repr(found)


def test_fields_of_an_attached_text():
    """An attached text has the name of its file, and where it is from."""
    memory = found_in("claude", FILE).memories[1]
    assert memory.metadata == {
        "source": "claude/c-1/m-1/attachment 1", "speaker": "user", "title": "Garden plan", "file": "beds.txt"
    }  # fmt: skip


def test_what_claude_remembers():
    """The paragraphs of what Claude remembers are memories, with the headings above them and their project."""
    found = found_in("claude", FILES / "claude-memories.json")
    assert [(memory.content, memory.metadata) for memory in found.memories] == [
        ("Ada looks after a shared garden.", {"source": "claude/memory", "heading": "Work context"}),
        ("The greenhouse opens in May.", {"source": "claude/memory/p-1", "project": "p-1"}),
    ]


def test_the_folder_of_an_export(tmp_path):
    """The folder that the export was unpacked to is read, and files of it that are not are named."""
    shutil.copy(FILE, tmp_path / "conversations.json")
    shutil.copy(FILES / "claude-memories.json", tmp_path / "memories.json")
    (tmp_path / "projects.json").write_text("[]")
    assert recognised_by(tmp_path) == ["claude"]
    found = found_in("claude", tmp_path)
    assert len(found.memories) == 7
    assert "projects.json was not read: only conversations and memories are" in found.notes


def test_what_is_no_conversation_is_told():
    """What cannot be used is one line each, and the rest goes in."""
    message = {"uuid": "m", "sender": "human", "text": "kept"}
    messages = [7, {"sender": "robot", "text": "x"}, {**message, "created_at": "soon"}]
    found = found_in("claude", json.dumps([{"uuid": "c"}, "x", {"chat_messages": messages}]).encode())
    assert found.contents == ["kept"]
    assert found.notes == ["a time that cannot be read was left out"]
    assert [line[:28] for line in found.bad] == [
        "conversation 1 cannot be use", "conversation 2 cannot be use", "conversation 3, message 1: c",
        "conversation 3, message 2: s",
    ]  # fmt: skip
