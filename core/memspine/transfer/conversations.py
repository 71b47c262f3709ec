"""Conversations as one JSON document: `{"conversations": [{"id", "memories": [{"id", "session", "speaker", "time",
"text"}]}]}`. Every message becomes an episodic memory; questions are passed over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from memspine import times
from memspine.errors import InvalidMemoryError
from memspine.model import MemoryType, NewMemory
from memspine.transfer.items import BadLine, Item, Note, checked_memory, content_id

DOCUMENT_BYTES_MAX: Final = 512 * 1024 * 1024
"""A document is read as a whole, so there is a limit; lines of JSON have none."""

_NO_OFFSET: Final = "time has no offset and was read as UTC"
# What becomes a field of the memory, or is put together anew; everything else stays as metadata.
_TAKEN: Final = frozenset({"id", "session", "speaker", "time", "text", "source"})


def read_conversations(chunks: Iterable[bytes]) -> Iterator[Item]:
    """The messages in their order, numbered through the whole document."""
    try:
        conversations = _conversations(_document(chunks))
    except InvalidMemoryError as error:
        yield BadLine(1, str(error))
        return
    several = len(conversations) > 1
    number = 0
    for position, conversation in enumerate(conversations, 1):
        messages = conversation.get("memories") if isinstance(conversation, dict) else None
        if not isinstance(messages, list):
            yield BadLine(number + 1, f'conversation {position} cannot be used; expected an object with "memories"')
            continue
        name = _name(conversation.get("id"), position)
        # Ids such as "1" are in many files: the first message tells their conversations apart.
        id = content_id("conversation", name, json.dumps(messages[:1], sort_keys=True))
        for place, message in enumerate(messages, 1):
            number += 1
            where = f"conversation {name}, message {place}: "
            try:
                memory, notes = _memory(message, conversation=name, place=place, several=several)
            except InvalidMemoryError as error:
                yield BadLine(number, f"{where}{error}")
                continue
            yield from (Note(number, note) for note in notes)
            # Messages of one time are listed by id, so the id ends in the place that each has in its conversation.
            yield from checked_memory(number, memory, id=f"{id}:{place:06}", where=where)


def _document(chunks: Iterable[bytes]) -> Any:
    held = bytearray()
    for chunk in chunks:
        held += chunk
        if len(held) > DOCUMENT_BYTES_MAX:
            limit = f"at most {DOCUMENT_BYTES_MAX // (1024 * 1024)} MiB in one document; use lines of JSON"
            raise InvalidMemoryError("document", None, limit)
    try:
        return json.loads(held.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidMemoryError("document", bytes(held[:200]), f"JSON in UTF-8 ({error})") from error


def _conversations(document: object) -> list[Any]:
    found = document.get("conversations") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise InvalidMemoryError("document", document, 'an object with an array "conversations"')
    return found


def _name(id: object, position: int) -> str:
    return str(id) if isinstance(id, str | int) and str(id) else str(position)


def _memory(message: object, *, conversation: str, place: int, several: bool) -> tuple[NewMemory, tuple[str, ...]]:
    if not isinstance(message, dict):
        raise InvalidMemoryError("message", message, "a JSON object")
    session, speaker = _text(message, "session"), _text(message, "speaker")
    if several:
        session = f"{conversation}/{session}" if session else conversation
    metadata = {name: value for name, value in message.items() if name not in _TAKEN}
    if speaker:
        metadata["speaker"] = speaker
    metadata["source"] = f"{conversation}/{_name(message.get('id'), place)}"
    created_at, notes = _time(message.get("time"))
    memory = NewMemory(
        content=message.get("text", ""),
        type=MemoryType.EPISODIC,
        session=session,
        metadata=metadata,
        created_at=created_at,
    )
    return memory, notes


def _text(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str | None):
        raise InvalidMemoryError(name, value, "text")
    return value or ""


def _time(value: object) -> tuple[datetime | None, tuple[str, ...]]:
    if value is None or value == "":
        return None, ()
    try:
        time = datetime.fromisoformat(value)  # type: ignore[arg-type] # what is no text is the TypeError below
    except (ValueError, TypeError) as error:
        raise InvalidMemoryError("time", value, "a date and time such as 2026-01-02T03:04:05Z, or null") from error
    if time.utcoffset() is None:
        # The format says nothing about offsets, so a time without one is no mistake of the file.
        return times.canonical(time.replace(tzinfo=UTC)), (_NO_OFFSET,)
    return times.canonical(time), ()
