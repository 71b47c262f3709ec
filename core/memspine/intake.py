"""The door: what a caller hands over becomes a value that a store can take, or a clear error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import attrs

from memspine import times
from memspine.errors import InvalidMemoryError
from memspine.model import (
    CONTENT_LENGTH_MAX,
    ID_LENGTH_MAX,
    KEY_LENGTH_MAX,
    LIMIT_MAX,
    METADATA_BYTES_MAX,
    METADATA_DEPTH_MAX,
    OWNER_LENGTH_MAX,
    SESSION_LENGTH_MAX,
    Memory,
    MemoryChanges,
    MemoryFilter,
    MemoryType,
    NewMemory,
    Tombstone,
)
from memspine.text import clean

L = TypeVar("L", bound=str)

COUNT_MAX = 2**53 - 1
"""The largest revision or count: what every JSON reader keeps exact, and with room to go on counting."""

_ID = re.compile(rf"[A-Za-z0-9._:-]{{1,{ID_LENGTH_MAX}}}")


# So much metadata cannot reach the limit, whatever is escaped in it: measuring it would cost more than all else here.
_SMALL_ENTRIES = 16
_SMALL_LENGTH = METADATA_BYTES_MAX // _SMALL_ENTRIES // 2 // len("\\u0000") - len('"":"",')


def _is_small(key: str, value: object) -> bool:
    return isinstance(value, str) and len(value) <= _SMALL_LENGTH and len(key) <= _SMALL_LENGTH


class Intake:
    """Checks and normalises the fields of one call, and collects notes on what it had to change."""

    def __init__(self, *, index: int | None = None) -> None:
        self.notes: list[str] = []
        self._index = index

    def memory(self, memory: NewMemory, *, now: datetime) -> NewMemory:
        """The memory with clean text and canonical times. Raises InvalidMemoryError, also when it would be expired at
        once: with a key it would take the place of one that lives."""
        if not isinstance(memory, NewMemory):
            raise self._error("memory", memory, "a memspine.model.NewMemory")
        return NewMemory(
            content=self.text("content", memory.content, length_max=CONTENT_LENGTH_MAX, length_min=1),
            type=self.type(memory.type),
            session=self.text("session", memory.session, length_max=SESSION_LENGTH_MAX),
            key=self.text("key", memory.key, length_max=KEY_LENGTH_MAX),
            metadata=self.metadata(memory.metadata) if memory.metadata else {},
            expires_at=self.expiry(memory.expires_at, now=now),
            created_at=self.time("created_at", memory.created_at),
        )

    def record(self, record: Memory | Tombstone) -> Memory | Tombstone:
        """A whole record within all limits, its text clean and its times canonical. Raises InvalidMemoryError."""
        if isinstance(record, Tombstone):
            return self.tombstone(record)
        if isinstance(record, Memory):
            return self.state(record)
        raise self._error("record", record, "a memspine.model.Memory or Tombstone")

    def tombstone(self, tombstone: Tombstone) -> Tombstone:
        """As `record`."""
        return Tombstone(
            id=self.id(tombstone.id),
            owner=self.owner(tombstone.owner),
            revision=self.count("revision", tombstone.revision, least=1),
            deleted_at=self.required_time("deleted_at", tombstone.deleted_at),
        )

    def state(self, memory: Memory) -> Memory:
        """As `record`."""
        return Memory(
            id=self.id(memory.id),
            owner=self.owner(memory.owner),
            content=self.text("content", memory.content, length_max=CONTENT_LENGTH_MAX, length_min=1),
            type=self.type(memory.type),
            session=self.session(memory.session),
            key=self.text("key", memory.key, length_max=KEY_LENGTH_MAX),
            metadata=self.metadata(memory.metadata) if memory.metadata else {},
            created_at=self.required_time("created_at", memory.created_at),
            updated_at=self.required_time("updated_at", memory.updated_at),
            expires_at=self.time("expires_at", memory.expires_at),
            revision=self.count("revision", memory.revision, least=1),
            access_count=self.count("access_count", memory.access_count, least=0),
            last_accessed_at=self.time("last_accessed_at", memory.last_accessed_at),
        )

    def changes(self, changes: MemoryChanges, *, now: datetime) -> MemoryChanges:
        """The changes with clean text and canonical times. Raises InvalidMemoryError."""
        checks: dict[str, Any] = {
            "content": lambda v: self.text("content", v, length_max=CONTENT_LENGTH_MAX, length_min=1),
            "type": self.type,
            "session": lambda v: self.text("session", v, length_max=SESSION_LENGTH_MAX),
            "key": lambda v: self.text("key", v, length_max=KEY_LENGTH_MAX),
            "metadata": self.metadata,
            "expires_at": lambda v: self.expiry(v, now=now),
        }
        named = changes.named()
        if not named:
            raise self._error("changes", named, f"at least one of {', '.join(checks)}")
        return attrs.evolve(changes, **{name: checks[name](value) for name, value in named.items()})

    def filter(self, filter: MemoryFilter) -> MemoryFilter:
        """The filter with clean text and canonical times. Raises InvalidMemoryError."""
        if not isinstance(filter, MemoryFilter):
            raise self._error("filter", filter, "a memspine.model.MemoryFilter")

        def text(name: str, *, length_min: int = 0) -> str | None:
            value = getattr(filter, name)
            return (
                None if value is None else self.text(name, value, length_max=CONTENT_LENGTH_MAX, length_min=length_min)
            )

        return MemoryFilter(
            types=tuple(map(self.type, filter.types)),
            key=text("key"),
            category=text("category"),
            text=text("text", length_min=1),
            created_from=self.time("created_from", filter.created_from),
            created_before=self.time("created_before", filter.created_before),
            updated_before=self.time("updated_before", filter.updated_before),
        )

    def text(self, field: str, value: object, *, length_max: int, length_min: int = 0) -> str:
        """Clean text of the given length in characters."""
        if not isinstance(value, str):
            raise self._error(field, value, "text")
        if value.isascii() and "\0" not in value and length_min <= len(value) <= length_max:
            return value  # what most text is, and clean as it stands
        cleaned = clean(value)
        self.notes.extend(f"{field}: {note}" for note in cleaned.notes)
        if len(cleaned.text) < length_min:
            raise self._error(field, value, "text that is not empty")
        if len(cleaned.text) > length_max:
            raise self._error(field, value, f"at most {length_max} characters (this has {len(cleaned.text)})")
        return cleaned.text

    def id(self, value: object) -> str:
        """An id as it is."""
        if not isinstance(value, str) or not _ID.fullmatch(value):
            raise self._error("id", value, f"1 to {ID_LENGTH_MAX} of the characters A-Z a-z 0-9 . _ : -")
        return value

    def ids(self, values: object) -> list[str]:
        """Ids as they are; one text is not taken for a list of its characters."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise self._error("ids", values, "a list of ids")
        return [self.id(value) for value in values]

    def request(self, value: object) -> Mapping[str, Any]:
        """A request as a JSON object."""
        if not isinstance(value, Mapping):
            raise self._error("request", value, "a JSON object")
        return value

    def owner(self, value: object) -> str:
        """The name of an owner, which is never empty."""
        return self.text("owner", value, length_max=OWNER_LENGTH_MAX, length_min=1)

    def session(self, value: object) -> str:
        """The name of a session; empty for none."""
        return self.text("session", value, length_max=SESSION_LENGTH_MAX)

    def limit(self, value: object, *, field: str = "limit", maximum: int = LIMIT_MAX) -> int:
        """A count from 0 to `maximum`."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
            raise self._error(field, value, f"a whole number from 0 to {maximum}")
        return value

    def count(self, field: str, value: object, *, least: int) -> int:
        """A whole number from `least` on."""
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= COUNT_MAX:
            raise self._error(field, value, f"a whole number from {least} to {COUNT_MAX}")
        return value

    def numbers(self, values: object) -> list[int]:
        """Numbers of entries; one alone is not taken for a list."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise self._error("numbers", values, "a list of whole numbers")
        return [self.count("number", value, least=1) for value in values]

    def expected_revision(self, value: object) -> int | None:
        """A revision, or None for any; 0 is that of a memory that waited for the primary when it was read."""
        return None if value is None else self.count("expected_revision", value, least=0)

    def cursor(self, value: object) -> str | None:
        """A cursor as text, or None for the beginning."""
        return None if value is None else self.text("cursor", value, length_max=CONTENT_LENGTH_MAX)

    def question(self, value: object) -> str:
        """Text to search for, of any length; what cannot be stored cannot be found either and is replaced."""
        return self.text("query", value, length_max=sys.maxsize)

    def choice(self, field: str, value: object, choices: tuple[L, ...]) -> L:
        """One of a few words."""
        for choice in choices:
            if value == choice:
                return choice
        raise self._error(field, value, f"one of {', '.join(map(str, choices))}")

    def type(self, value: object) -> MemoryType:
        """A memory type, by value or by its name as text."""
        if isinstance(value, MemoryType):
            return value
        try:
            return MemoryType(str(value))
        except ValueError as error:
            raise self._error("type", value, f"one of {', '.join(MemoryType)}") from error

    def time(self, field: str, value: datetime | None) -> datetime | None:
        """The instant in UTC with milliseconds; None stays None."""
        if value is None:
            return None
        try:
            return times.canonical(value, field=field)
        except InvalidMemoryError as error:
            raise self._error(error.field, error.value, error.expected) from error

    def required_time(self, field: str, value: object) -> datetime:
        """The instant in UTC with milliseconds."""
        if not isinstance(value, datetime):
            raise self._error(field, value, "a time")
        return times.canonical(value, field=field)

    def expiry(self, value: datetime | None, *, now: datetime) -> datetime | None:
        """A time to come, or None for never."""
        time = self.time("expires_at", value)
        if time is not None and time <= now:
            raise self._error("expires_at", times.to_text(time), f"a time after now, {times.to_text(now)}")
        return time

    def metadata(self, value: object) -> dict[str, Any]:
        """A copy of a JSON object, its texts clean, within the limits of size and depth."""
        if not isinstance(value, Mapping):
            raise self._error("metadata", value, "a JSON object")
        copy = self._object("metadata", value, depth=1)
        if len(copy) <= _SMALL_ENTRIES and all(map(_is_small, copy, copy.values())):
            return copy
        try:
            size = len(json.dumps(copy, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode())
        except ValueError as error:
            raise self._error("metadata", value, f"JSON ({error})") from error
        if size > METADATA_BYTES_MAX:
            raise self._error("metadata", value, f"at most {METADATA_BYTES_MAX} bytes of JSON (this has {size})")
        return copy

    def _json(self, path: str, value: object, *, depth: int) -> object:
        if isinstance(value, str):
            return self.text(path, value, length_max=METADATA_BYTES_MAX)
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth > METADATA_DEPTH_MAX:
            raise self._error(path, value, f"at most {METADATA_DEPTH_MAX} levels")
        if isinstance(value, Mapping):
            return self._object(path, value, depth=depth)
        if isinstance(value, list | tuple):
            return [self._json(f"{path}[{n}]", item, depth=depth + 1) for n, item in enumerate(value)]
        raise self._error(path, value, "JSON: object, array, text, number, true, false or null")

    def _object(self, path: str, value: Mapping[Any, Any], *, depth: int) -> dict[str, Any]:
        copy = {
            self._json_key(path, key): self._json(f"{path}.{key}", item, depth=depth + 1) for key, item in value.items()
        }
        if len(copy) < len(value):
            raise self._error(path, value, "keys that stay apart when their text is normalised (NFC)")
        return copy

    def _json_key(self, path: str, key: object) -> str:
        return self.text(f"a key of {path}", key, length_max=METADATA_BYTES_MAX)

    def _error(self, field: str, value: object, expected: str) -> InvalidMemoryError:
        return InvalidMemoryError(field, value, expected, index=self._index)
