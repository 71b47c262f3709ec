import json

import pytest

from .tools import FILES, found_in, recognised_by

FILE = FILES / "chatgpt.json"


def conversation(*messages, **fields):
    """A conversation of one branch."""
    names = [f"n{number}" for number in range(len(messages))]
    mapping = {
        name: {"id": name, "message": message, "parent": names[number - 1] if number else None, "children": []}
        for number, (name, message) in enumerate(zip(names, messages, strict=True))
    }
    return {"title": "t", "mapping": mapping, "current_node": names[-1], "conversation_id": "c", **fields}


def message(text, *, role="user", **fields):
    return {"id": text, "author": {"role": role}, "content": {"content_type": "text", "parts": [text]}, **fields}


def read(*conversations):
    return found_in("chatgpt", json.dumps(conversations).encode())


def test_the_messages_that_are_shown_become_memories():
    """Of a tree the way to the current message is taken, in its order, with who spoke and without what is hidden."""
    found = found_in("chatgpt", FILE)
    said = [(memory.metadata["speaker"], memory.content) for memory in found.memories]
    assert said == [
        ("user", "What does Juno eat?"),
        ("assistant", "Duck and potato, says Dr Vetter."),
        ("user", "This is her, after the walk."),
        ("assistant", "She looks well. 🐕"),
        ("user", "Remind me on Friday."),
        ("assistant", "I will."),
        ("user", "The bicycle needs a new tyre."),
        ("assistant", "Size 28?"),
        ("user", "First."),
        ("assistant", "Second."),
    ]


def test_what_was_left_out_is_told():
    """Each kind of what is left out has its note: hidden, other branches, tools, reasoning, images."""
    assert found_in("chatgpt", FILE).notes == [
        "a message of the kind 'user_editable_context' was left out",
        "an image, a sound or another part of a message that is no text was left out",
        "a message of the kind 'thoughts' was left out",
        "what was said to a tool was left out",
        "a message of 'tool', neither of the user nor of the assistant, was left out",
        "a message of files or images alone was left out",
        "an image, a sound or another part of a message that is no text was left out",
        "a message that is not shown, edited or answered again, was left out",
        "the tree of a conversation is damaged: all is taken, in the order of its times",
    ]


def test_fields_of_a_memory():
    """A message has its conversation as session, its time, title, model, attachments and where it is from."""
    memory = found_in("chatgpt", FILE).memories[2]
    id = "11111111-aaaa-4aaa-8aaa-111111111111"
    assert (memory.type, memory.session) == ("episodic", f"chatgpt/{id}")
    assert memory.created_at.isoformat() == "2024-04-05T19:34:47.250000+00:00"
    assert memory.metadata == {
        "source": f"chatgpt/{id}/u2", "speaker": "user", "title": "Juno's food", "attachments": ["juno.jpg"]
    }  # fmt: skip


def test_times_rise():
    """Messages without a time, and those of one moment, stand a millisecond after the one before."""
    found = read(conversation(message("a", create_time=5.0), message("b"), message("c", create_time=4.0)))
    assert [memory.created_at.timestamp() for memory in found.memories] == [5.0, 5.001, 5.002]
    found = read(conversation(message("a"), create_time=7.0))
    assert found.memories[0].created_at.timestamp() == 7.0


@pytest.mark.parametrize("time", ["soon", 1e300, [], -1e15])
def test_a_time_that_cannot_be_read_is_told(time):
    """A time that is none costs the time alone."""
    found = read(conversation(message("a", create_time=time)))
    assert (found.contents, found.memories[0].created_at) == (["a"], None)
    assert found.notes == ["a time that cannot be read was left out"]


@pytest.mark.parametrize(
    ("current", "parents"), [("a", {"a": "b", "b": "a"}), ("b", {"a": "gone", "b": "a"}), (None, {"a": "b", "b": "a"})]
)
def test_a_damaged_tree_loses_nothing(current, parents):
    """Where the way to the root is broken or a circle, all messages are taken, and it is told."""
    mapping = {name: {"message": message(name), "parent": parent} for name, parent in parents.items()}
    found = read({"id": "c", "title": "t", "mapping": mapping, "current_node": current})
    assert sorted(found.contents) == ["a", "b"]
    assert found.notes == ["the tree of a conversation is damaged: all is taken, in the order of its times"]


def test_what_is_no_conversation_is_told():
    """What cannot be used is one line each, with its place, and the rest goes in."""
    found = read(5, {"title": "t"}, conversation(message("kept")), conversation({"id": "x", "content": None}, "text"))
    assert found.contents == ["kept"]
    assert [line.partition(" cannot")[0] for line in found.bad] == [
        "conversation 1", "conversation 2", "conversation 4, message n1:"
    ]  # fmt: skip


def test_a_long_message_is_divided():
    """A message that no memory can hold becomes several, each with an identity of its own."""
    found = read(conversation(message("word " * 40_000)))
    assert [memory.metadata["part"] for memory in found.memories] == ["1/3", "2/3", "3/3"]
    assert " ".join(found.contents) == ("word " * 40_000).strip()
    assert len({item.identity for item in found.sources}) == 3


def test_the_folder_of_an_export(tmp_path):
    """The folder that the export was unpacked to is read, also where it divides the conversations."""
    for number, text in enumerate(["one", "two"]):
        (tmp_path / f"conversations-00{number}.json").write_text(json.dumps([conversation(message(text))]))
    (tmp_path / "user.json").write_text("{}")
    assert recognised_by(tmp_path) == ["chatgpt"]
    assert found_in("chatgpt", tmp_path).contents == ["one", "two"]


def test_marks_of_citations_are_taken_out():
    """Marks of citations go, the name of a thing or a person that is marked stays, and nothing else is touched."""
    cite, other, cut = "\ue200cite\ue202turn0search1\ue202turn0search2\ue201", "\ue200x\ue201", "\ue200entity\ue202[1"
    text = f"a{cite} b{other} 【3:0†file.pdf】【not†one】 {cut}"
    assert read(conversation(message(text))).contents == ["a b 【not†one】 \ue200entity\ue202[1"]
