"""Memories, tombstones and the rest of the protocol as JSON, and back, each field checked.

What comes from a service may be anything. Its texts are not quoted in errors, because they are somebody's memories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from memspine import times
from memspine.errors import InvalidMemoryError
from memspine.model import (
    Change,
    ChangePage,
    Memory,
    MemoryType,
    PurgedPlace,
    PurgeReceipt,
    PutOutcome,
    Revision,
    Tombstone,
    canonical_json,
)
from memspine_http.failures import ShapeError

_ID_LENGTH_MAX: Final = 1024
_CURSOR_LENGTH_MAX: Final = 1024
_MISSING: Final = object()


@attrs.frozen
class Received:
    """A memory as a service gave it. `has_revision` is False when it told none, and the 1 in the memory is made up."""

    memory: Memory
    has_revision: bool = True


@attrs.frozen
class Outcome:
    """What became of a record: `revision` is that of what the service has now under this id, 0 where it did not say;
    `memory` is the record as it was stored."""

    outcome: PutOutcome
    revision: int = 0
    memory: Memory | None = None


def plain_fields(memory: Memory) -> dict[str, Any]:
    """What the plain protocol sends to create a memory."""
    return {
        "apiKeyId": memory.owner,
        "sessionId": memory.session,
        "type": memory.type.value,
        "key": memory.key,
        "content": memory.content,
        "metadata": dict(memory.metadata),
        "expiresAt": _optional(memory.expires_at),
    }


def own_fields(memory: Memory) -> dict[str, Any]:
    """What a memory has beyond that, its id excepted."""
    return {
        "createdAt": times.to_text(memory.created_at),
        "updatedAt": times.to_text(memory.updated_at),
        "revision": memory.revision,
        "accessCount": memory.access_count,
        "lastAccessedAt": _optional(memory.last_accessed_at),
    }


def whole(record: Memory | Tombstone) -> dict[str, Any]:
    """A record with all that it is."""
    if isinstance(record, Memory):
        fields = {"id": record.id, **plain_fields(record), **own_fields(record)}
        return {**fields, "contentHash": record.content_hash}
    return {
        "id": record.id,
        "apiKeyId": record.owner,
        "revision": record.revision,
        "deletedAt": times.to_text(record.deleted_at),
    }


def own_copy(memory: Memory) -> Memory:
    """The memory with metadata of its own, as JSON gives them back."""
    return attrs.evolve(memory, metadata=json.loads(canonical_json(dict(memory.metadata))))


def is_memory(data: object) -> bool:
    """Whether an answer looks like a memory, and not like a mere confirmation."""
    return isinstance(data, Mapping) and "content" in data and "id" in data


def bare(data: object) -> object:
    """The memory itself, where a service wraps it as `{"memory": …}`, or as OmniRoute's create does."""
    if isinstance(data, Mapping) and not is_memory(data):
        for name in ("memory", "id"):
            if is_memory(data.get(name)):
                return data[name]
    return data


def received(data: object) -> Received:
    """The memory that a service gave. Raises ShapeError."""
    fields = _object(data, "a memory")
    memory = Memory(
        id=_id(fields),
        owner=_text(fields, "apiKeyId"),
        session=_text(fields, "sessionId", default=""),
        type=_type(fields),
        key=_text(fields, "key", default=""),
        content=_text(fields, "content"),
        metadata=_metadata(fields),
        created_at=_time(fields, "createdAt"),
        updated_at=_time(fields, "createdAt" if fields.get("updatedAt") is None else "updatedAt"),
        expires_at=_time_or_none(fields, "expiresAt"),
        revision=_count(fields, "revision", least=1, default=1),
        access_count=_count(fields, "accessCount", least=0, default=0),
        last_accessed_at=_time_or_none(fields, "lastAccessedAt"),
    )
    return Received(memory, has_revision=fields.get("revision") is not None)


def tombstone(data: object) -> Tombstone:
    """What stays of a deleted memory. Raises ShapeError."""
    fields = _object(data, "a tombstone")
    return Tombstone(
        id=_id(fields),
        owner=_text(fields, "apiKeyId"),
        revision=_count(fields, "revision", least=1),
        deleted_at=_time(fields, "deletedAt"),
    )


def outcome(data: object) -> Outcome:
    """What became of a record. Raises ShapeError."""
    fields = _object(data, "an outcome")
    value = fields.get("outcome")
    if value not in tuple(PutOutcome):
        raise ShapeError(f"an outcome that is none of {', '.join(PutOutcome)}")
    return Outcome(PutOutcome(value), _count(fields, "revision", least=0, default=0))


def change_page(data: object) -> ChangePage:
    """A page of the feed. Raises ShapeError."""
    fields = _object(data, "a page of changes")
    changes = tuple(_change(item) for item in items(fields, "changes"))
    return ChangePage(changes, _cursor(fields), more=_flag(fields, "more"))


def revision(data: object) -> Revision:
    """One state of a memory. Raises ShapeError."""
    fields = _object(data, "a state of a memory")
    return Revision(
        memory=received(fields.get("memory")).memory,
        replaced_at=_time_or_none(fields, "replacedAt"),
        deleted=_flag(fields, "deleted"),
    )


def receipt(data: object) -> PurgeReceipt:
    """What was purged. Raises ShapeError."""
    fields = _object(data, "a receipt")
    return PurgeReceipt(
        _count(fields, "memories", least=0), tuple(_purged_place(item) for item in items(fields, "places"))
    )


def items(data: object, name: str) -> list[Any]:
    """The list that an object holds under a name. Raises ShapeError."""
    value = _object(data, f"an object with {name!r}").get(name)
    if not isinstance(value, list):
        raise ShapeError(f"an answer whose {name!r} is no list")
    return value


def count(data: object, name: str) -> int:
    """The whole number that an object holds under a name. Raises ShapeError."""
    return _count(_object(data, f"an object with {name!r}"), name, least=0)


# ── fields ──


def _object(data: object, what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ShapeError(f"something other than {what}")
    return data


def _text(fields: Mapping[str, Any], name: str, *, default: object = _MISSING) -> str:
    value = fields.get(name)
    if value is None:
        value = default
    if not isinstance(value, str):
        raise ShapeError(f"an answer whose {name!r} is no text")
    # Half a surrogate pair is JSON, but no text that could be written anywhere.
    return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _id(fields: Mapping[str, Any]) -> str:
    value = _text(fields, "id")
    if not 0 < len(value) <= _ID_LENGTH_MAX:
        raise ShapeError(f"an answer whose 'id' has not 1 to {_ID_LENGTH_MAX} characters")
    return value


def _cursor(fields: Mapping[str, Any]) -> str:
    value = _text(fields, "cursor")
    if not 0 < len(value) <= _CURSOR_LENGTH_MAX:
        raise ShapeError(f"an answer whose 'cursor' has not 1 to {_CURSOR_LENGTH_MAX} characters")
    return value


def _type(fields: Mapping[str, Any]) -> MemoryType:
    value = fields.get("type") or MemoryType.FACTUAL.value
    if value not in tuple(MemoryType):
        raise ShapeError(f"an answer whose 'type' is none of {', '.join(MemoryType)}")
    return MemoryType(value)


def _metadata(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    value = fields.get("metadata")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ShapeError("an answer whose 'metadata' is no object")
    return value


def _count(fields: Mapping[str, Any], name: str, *, least: int, default: int | None = None) -> int:
    value = fields.get(name)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ShapeError(f"an answer whose {name!r} is no whole number from {least}")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if not isinstance(value, bool):
        raise ShapeError(f"an answer whose {name!r} is neither true nor false")
    return value


def _time(fields: Mapping[str, Any], name: str) -> datetime:
    try:
        return times.from_text(_text(fields, name), field=name)
    except InvalidMemoryError:
        raise ShapeError(f"an answer whose {name!r} is no date and time with its offset") from None


def _time_or_none(fields: Mapping[str, Any], name: str) -> datetime | None:
    return None if fields.get(name) is None else _time(fields, name)


def _optional(value: datetime | None) -> str | None:
    return None if value is None else times.to_text(value)


def _change(data: object) -> Change:
    fields = _object(data, "a change")
    return Change(
        cursor=_cursor(fields),
        id=_id(fields),
        owner=_text(fields, "apiKeyId"),
        revision=_count(fields, "revision", least=1),
        deleted=_flag(fields, "deleted"),
        changed_at=_time(fields, "changedAt"),
    )


def _purged_place(data: object) -> PurgedPlace:
    fields = _object(data, "a place that was purged")
    status = fields.get("status")
    if status not in {"erased", "pending", "kept"}:
        raise ShapeError("a receipt whose 'status' is none of erased, pending, kept")
    return PurgedPlace(place=_text(fields, "place"), status=status, detail=_text(fields, "detail", default=""))
