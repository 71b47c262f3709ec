"""Whole records: one line of an export as the states that a memory has had."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import attrs

from memspine import times
from memspine.errors import InvalidMemoryError
from memspine.intake import Intake
from memspine.model import Memory, Tombstone
from memspine.transfer.items import ImportedRecord, Item, Note
from memspine.wire import memory_from_wire

STATE_FIELDS: Final = frozenset(
    {
        "id", "apiKeyId", "sessionId", "type", "key", "content", "metadata", "createdAt", "updatedAt", "expiresAt",
        "revision", "contentHash", "accessCount", "lastAccessedAt",
    }
)  # fmt: skip
"""The wire names of a memory."""

_COUNT_MAX: Final = 2**53 - 1
_LINE_FIELDS: Final = ("memory", "tombstone", "history")
_REVISION_FIELDS: Final = ("memory", "replacedAt", "deleted")
_TOMBSTONE_FIELDS: Final = ("id", "apiKeyId", "revision", "deletedAt")


def read_state(line: int, data: Mapping[str, Any]) -> Iterator[Item]:
    """A memory alone, without its history. Raises InvalidMemoryError."""
    intake = Intake()
    yield from _record(line, [_state(data, intake)], intake)


def read_record(line: int, data: Mapping[str, Any]) -> Iterator[Item]:
    """A memory or a tombstone, with the states before it. Raises InvalidMemoryError."""
    refuse_unknown(data, _LINE_FIELDS)
    if ("memory" in data) == ("tombstone" in data):
        raise InvalidMemoryError("line", data, 'either a "memory" or a "tombstone"')
    intake = Intake()
    steps = _history(data.get("history"), intake)
    if "memory" in data:
        steps.append(_state(data["memory"], intake))
    else:
        steps.append(_tombstone(data["tombstone"], intake))
    yield from _record(line, steps, intake)


def refuse_unknown(data: Mapping[str, Any], known: Collection[str], *, advice: str = "") -> None:
    """Raises InvalidMemoryError for a field that would get lost."""
    for name, value in data.items():
        if name not in known:
            raise InvalidMemoryError(name, value, f"only the fields {', '.join(sorted(known))}{advice}")


def _record(line: int, steps: list[Memory | Tombstone], intake: Intake) -> Iterator[Item]:
    last = steps[-1]
    for earlier, later in itertools.pairwise(steps):
        if (earlier.id, earlier.owner) != (last.id, last.owner):
            raise InvalidMemoryError("history", earlier.id, f"states of {last.id!r} of {last.owner!r} alone")
        if earlier.revision >= later.revision:
            raise InvalidMemoryError("history", earlier.revision, "revisions that rise from state to state")
    yield from (Note(line, text) for text in intake.notes)
    yield ImportedRecord(line=line, steps=_with_fitting_telemetry(steps))


def _history(data: object, intake: Intake) -> list[Memory | Tombstone]:
    steps: list[Memory | Tombstone] = []
    if not isinstance(data, list | None):
        raise InvalidMemoryError("history", data, "a JSON array of states")
    for entry in data or ():
        fields = _object("history", entry, _REVISION_FIELDS)
        state = _state(fields.get("memory"), intake)
        steps.append(state)
        if fields.get("deleted", False) is True:
            # Deleted here and created again: what is stored step by step has to be deleted in between as well.
            deleted_at = times.from_text(fields.get("replacedAt", ""), field="replacedAt")
            steps.append(Tombstone(id=state.id, owner=state.owner, revision=state.revision + 1, deleted_at=deleted_at))
    return steps


def _state(data: object, intake: Intake) -> Memory:
    """A memory within the limits that hold for what callers hand over."""
    fields = _object("memory", data, STATE_FIELDS)
    given = {name: value for name, value in fields.items() if value is not None}
    stated = given.pop("contentHash", None)
    memory = memory_from_wire(given)
    for name, count in (("revision", memory.revision), ("accessCount", memory.access_count)):
        if count > _COUNT_MAX:
            raise InvalidMemoryError(name, count, f"at most {_COUNT_MAX}")
    if stated is not None and not _fits(memory, stated):
        raise InvalidMemoryError("contentHash", stated, "the hash of what the line holds: it was changed or damaged")
    return intake.state(memory)


def _fits(memory: Memory, content_hash: object) -> bool:
    try:
        return memory.content_hash == content_hash
    except UnicodeEncodeError:
        return True  # a lone surrogate, of which no hash can be taken: the note on it says that something changed


def _tombstone(data: object, intake: Intake) -> Tombstone:
    fields = _object("tombstone", data, _TOMBSTONE_FIELDS)
    revision = fields.get("revision")
    if not isinstance(revision, int) or isinstance(revision, bool) or not 1 <= revision <= _COUNT_MAX:
        raise InvalidMemoryError("revision", revision, f"a whole number from 1 to {_COUNT_MAX}")
    return Tombstone(
        id=intake.id(fields.get("id")),
        owner=intake.owner(fields.get("apiKeyId")),
        revision=revision,
        deleted_at=times.from_text(fields.get("deletedAt", ""), field="deletedAt"),
    )


def _object(field: str, data: object, known: Collection[str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InvalidMemoryError(field, data, "a JSON object")
    refuse_unknown(data, known)
    return data


def _fitted(step: Memory | Tombstone, later: Memory | Tombstone | None) -> Memory | Tombstone:
    if not isinstance(step, Memory) or not isinstance(later, Memory):
        return step
    # After an expiry a memory starts afresh, and a store takes its count as it is.
    if step.is_expired(later.updated_at) or step.access_count <= later.access_count:
        return step
    return attrs.evolve(step, access_count=later.access_count, last_accessed_at=later.last_accessed_at)


def _with_fitting_telemetry(steps: list[Memory | Tombstone]) -> tuple[Memory | Tombstone, ...]:
    """The steps, none of which counts more accesses than the state it leads to.

    A store keeps the higher count when it takes a newer state, so an earlier life of the memory would raise it.
    """
    fitting: list[Memory | Tombstone] = []
    later: Memory | Tombstone | None = None
    for step in reversed(steps):
        later = _fitted(step, later)
        fitting.append(later)
    return tuple(reversed(fitting))
