"""Memories as rows: columns in one order, times as milliseconds, metadata as JSON text."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import apsw
import attrs

from memspine.model import Memory, MemoryRef, MemoryType
from memspine.times import from_milliseconds, to_milliseconds

STATE = (
    "id, session, type, key, created_at, updated_at, expires_at, revision, access_count, last_accessed_at, "
    "metadata, content"
)
"""The columns of a state of a memory, as `memories` and `history` have them."""

STORED = f"row, owner, terms, checksum, asks, speaker, {STATE}"
"""The columns of `memories`."""

STORED_WITHOUT_SPEAKER = f"row, owner, terms, checksum, 0, '', {STATE}"
"""The same in a backup that knows nothing of speakers."""

STATE_COUNT = len(STATE.split(","))

LIVE = "(expires_at IS NULL OR expires_at > ?)"
"""Holds for rows that have not expired at the time given."""

_TYPES = {member.value: member for member in MemoryType}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class State(NamedTuple):
    """A state of a memory as its columns, in the order of `STATE`: a tuple, because it is bound as one."""

    id: str
    session: str
    type: str
    key: str
    created_at: int
    updated_at: int
    expires_at: int | None
    revision: int
    access_count: int
    last_accessed_at: int | None
    metadata: str
    content: str


@attrs.frozen
class Stored:
    """A row of `memories`: where it is, what the keyword index holds of it, who said it, and its state."""

    row: int
    owner: int
    terms: int
    checksum: int
    asks: int
    speaker: str
    state: State

    @classmethod
    def of(cls, values: Sequence[Any]) -> Stored:
        """From the columns `STORED`."""
        row, owner, terms, checksum, asks, speaker, *state = values
        return cls(row, owner, terms, checksum, asks, speaker, State(*state))

    def is_expired(self, at: int) -> bool:
        """Whether the memory counts as absent."""
        return self.state.expires_at is not None and self.state.expires_at <= at


def memory_of(values: Sequence[Any], owner: str) -> Memory:
    """The memory that the columns `STATE` describe."""
    id, session, type, key, created, updated, expires, revision, accesses, accessed, metadata, content = values
    return Memory(
        id=id,
        owner=owner,
        content=content,
        type=_TYPES[type],
        session=session,
        key=key,
        metadata=json_object(metadata),
        created_at=from_milliseconds(created),
        updated_at=from_milliseconds(updated),
        expires_at=None if expires is None else from_milliseconds(expires),
        revision=revision,
        access_count=accesses,
        last_accessed_at=None if accessed is None else from_milliseconds(accessed),
    )


def state_of(memory: Memory) -> State:
    """The columns of a whole memory."""
    return State(
        memory.id,
        memory.session,
        memory.type.value,
        memory.key,
        to_milliseconds(memory.created_at),
        to_milliseconds(memory.updated_at),
        optional_milliseconds(memory.expires_at),
        memory.revision,
        memory.access_count,
        optional_milliseconds(memory.last_accessed_at),
        json_text(memory.metadata),
        memory.content,
    )


def optional_milliseconds(value: datetime | None) -> int | None:
    """Milliseconds of a time that may be missing."""
    return None if value is None else to_milliseconds(value)


time_of = functools.lru_cache(maxsize=1 << 13)(from_milliseconds)
"""The time of milliseconds. A question asks for the same few hundred of them several times."""


def json_text(value: Mapping[str, Any]) -> str:
    """Metadata as it is stored."""
    return _ENCODER.encode(value) if value else "{}"


def json_object(text: str) -> dict[str, Any]:
    """Stored metadata, a new object each time."""
    if text == "{}":
        return {}
    value: dict[str, Any] = json.loads(text)
    return value


def owner_number(connection: apsw.Connection, name: str) -> int | None:
    """The number of an owner, None when it never had a memory here."""
    found = connection.execute("SELECT number FROM owners WHERE name = ?", (name,)).fetchone()
    return None if found is None else int(found[0])


def owner_numbers(connection: apsw.Connection, names: Sequence[str]) -> dict[int, str]:
    """The owners of a scope that the store knows, by number, in the order of the names."""
    numbers = {name: owner_number(connection, name) for name in names}
    return {number: name for name, number in numbers.items() if number is not None}


def owner_made(connection: apsw.Connection, name: str) -> int:
    """The number of an owner, who is made known if need be."""
    number = owner_number(connection, name)
    if number is None:
        connection.execute("INSERT INTO owners (name) VALUES (?)", (name,))
        number = connection.last_insert_rowid()
    return number


def by_owner(refs: Collection[MemoryRef]) -> dict[str, list[str]]:
    """Ids by owner, each once."""
    found: dict[str, dict[str, None]] = {owner: {} for owner in {owner for owner, _ in refs}}
    for owner, id in refs:
        found[owner][id] = None
    return {owner: list(ids) for owner, ids in found.items()}
