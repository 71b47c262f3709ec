"""Conversations as one document: every message is an episodic memory."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

from memspine.model import MemoryType, NewMemory
from memspine.transfer import BadLine, ImportedMemory, Note

HELLO = {"id": "0", "session": "S1", "speaker": "Anna", "time": "2026-01-02T03:04:05Z", "text": "Hello!"}


@pytest.fixture
def messages(read):
    """Reads a document with one conversation of these messages for each argument."""

    def messages(*conversations):
        listed = [{"id": f"c{n}", "memories": each, "questions": [{}]} for n, each in enumerate(conversations)]
        return read(json.dumps({"name": "x", "conversations": listed}), name="talk.json")

    return messages


def test_a_message_is_an_episodic_memory(messages):
    """A message keeps its text, session and time, and its speaker and source are metadata."""
    (item,) = messages([HELLO])
    assert item.memory == NewMemory(
        content="Hello!",
        type=MemoryType.EPISODIC,
        session="S1",
        metadata={"speaker": "Anna", "source": "c0/0"},
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )


def test_sessions_of_several_conversations_stay_apart(messages):
    """Where a file has several conversations, their sessions carry the conversation's name."""
    assert [item.memory.session for item in messages([HELLO], [HELLO, {**HELLO, "session": None}])] == [
        "c0/S1",
        "c1/S1",
        "c1",
    ]


def test_ids_are_repeatable_and_in_the_order_of_the_messages(messages):
    """The same document gives the same ids, which rise with the messages, so that equal times keep their order."""
    ids = [item.id for item in messages([HELLO] * 12)]
    assert ids == [item.id for item in messages([HELLO] * 12)] == sorted(set(ids))


def test_conversations_of_one_name_are_told_apart(messages):
    """Two files with a conversation of the same id do not write over each other, a longer version of one does."""
    (first,) = messages([HELLO])
    (other,) = messages([{**HELLO, "text": "Good morning!"}])
    longer = messages([HELLO, HELLO])
    assert first.id != other.id
    assert first.id == longer[0].id


def test_a_time_without_offset_is_utc_with_a_note(messages):
    """The format says nothing about offsets, so a naive time is UTC; null is no time."""
    note, naive, timeless = messages([{**HELLO, "time": "2026-01-02T03:04:05"}, {**HELLO, "time": None}])
    assert note == Note(1, "time has no offset and was read as UTC")
    assert naive.memory.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert timeless.memory.created_at is None


def test_fields_of_its_own_become_metadata(messages):
    """What a message says beyond the known fields is kept in its metadata."""
    (item,) = messages([{**HELLO, "image": {"url": "x"}, "id": 7, "speaker": None}])
    assert item.memory.metadata == {"image": {"url": "x"}, "source": "c0/7"}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("words", "message: 'words' .*object"),
        ({**HELLO, "text": None}, "content: None .*text"),
        ({**HELLO, "text": ""}, "content: '' .*not empty"),
        ({**HELLO, "text": "x" * 100_001}, "content: .*at most 100000 characters"),
        ({**HELLO, "time": "yesterday"}, "time: 'yesterday' .*date and time"),
        ({**HELLO, "time": 5}, "time: 5 "),
        ({**HELLO, "time": "0001-01-01T00:00:00+14:00"}, "time: .*years 1 and 9999"),
        ({**HELLO, "session": ["S"]}, "session: .*text"),
    ],
)
def test_a_bad_message_is_told_by_place(messages, message, reason):
    """A message that cannot go in is told with its number in the file and its place, and the others go in."""
    first, bad, last = messages([HELLO], [message, HELLO])
    assert isinstance(first, ImportedMemory)
    assert isinstance(last, ImportedMemory)
    assert bad.line == 2
    assert re.match(f"conversation c1, message 1: {reason}", bad.reason), bad.reason


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ('{"conversations": [', "JSON in UTF-8"),
        ("[]", '"conversations"'),
        ('{"conversations": {}}', '"conversations"'),
        ("[" * 200_000, "JSON in UTF-8"),
        (b'{"conversations": "\xff"}', "JSON in UTF-8"),
    ],
)
def test_a_bad_document_is_one_bad_line(read, document, reason):
    """A document that is no conversations is told once."""
    (bad,) = read(document, name="talk.json", format="conversations")
    assert isinstance(bad, BadLine)
    assert reason in bad.reason


def test_a_bad_conversation_is_told_and_the_others_go_in(read):
    """A conversation without messages is told, and the next one is read."""
    bad, good = read(json.dumps({"conversations": [{"id": "a"}, {"memories": [HELLO]}]}), name="talk.json")
    assert bad == BadLine(1, 'conversation 1 cannot be used; expected an object with "memories"')
    assert good.memory.metadata["source"] == "2/0"
