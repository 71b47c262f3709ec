"""Scope and filter as SQL: fixed fragments, every value bound."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw
import attrs

from memspine.model import MemoryFilter
from memspine.times import to_milliseconds
from memspine_sqlite.rows import LIVE

CONTAINS = "memspine_contains"
"""The SQL function behind `MemoryFilter.text`."""


@attrs.frozen
class Where:
    """Conditions that all have to hold, and the values they are bound to."""

    conditions: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()

    def also(self, condition: str, *values: Any) -> Where:
        """These conditions and one more."""
        return Where((*self.conditions, condition), (*self.values, *values))

    def join(self, other: Where) -> Where:
        """These conditions and those of another."""
        return Where(self.conditions + other.conditions, self.values + other.values)

    @property
    def sql(self) -> str:
        """The conditions as one expression."""
        return " AND ".join(self.conditions) or "TRUE"


def live(now: int) -> Where:
    """Memories that have not expired."""
    return Where((LIVE,), (now,))


def of_owner(number: int, *, session: str | None = None) -> Where:
    """The memories of one owner, in one session when it is given."""
    where = Where(("memories.owner = ?",), (number,))
    return where if session is None else where.also("session = ?", session)


def indexed(filter: MemoryFilter) -> Where:
    """The fields of a filter that the indexes of an owner's memories hold, in all or in one session."""
    where = Where()
    if filter.created_from is not None:
        where = where.also("created_at >= ?", to_milliseconds(filter.created_from))
    if filter.created_before is not None:
        where = where.also("created_at < ?", to_milliseconds(filter.created_before))
    if filter.types:
        where = where.also(f"type IN ({', '.join('?' * len(filter.types))})", *(kind.value for kind in filter.types))
    return where


def unindexed(filter: MemoryFilter) -> Where:
    """The fields of a filter that only rows hold."""
    where = Where()
    if filter.key is not None:
        # The second condition is what lets SQLite use the index of keys, which leaves out empty ones.
        where = where.also("key = ? AND key != ''" if filter.key else "key = ?", filter.key)
    if filter.category is not None:
        where = where.also(
            "json_type(metadata, '$.category') = 'text' AND json_extract(metadata, '$.category') = ?", filter.category
        )
    if filter.updated_before is not None:
        where = where.also("updated_at < ?", to_milliseconds(filter.updated_before))
    if filter.text:
        where = where.also(f"{CONTAINS}(content, key, ?)", filter.text.casefold())
    return where


def matching(filter: MemoryFilter) -> Where:
    """All fields of a filter."""
    return indexed(filter).join(unindexed(filter))


def register(connection: apsw.Connection) -> None:
    """Make the functions that conditions call known to a connection."""
    connection.create_scalar_function(CONTAINS, _contains, 3, deterministic=True)


def listed(values: Sequence[Any]) -> str:
    """Any number of values as one that is bound: `IN (SELECT value FROM json_each(?))`."""
    return json.dumps(values)


def _contains(*values: Any) -> bool:
    # SQLite folds only ASCII letters, and its LIKE has wildcards.
    content, key, text = values
    return text in content.casefold() or text in key.casefold()
