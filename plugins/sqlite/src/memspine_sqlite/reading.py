"""Reading by id, in lists and as counts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from memspine.model import Counts, Memory, MemoryFilter, MemoryPage, Scope
from memspine.times import to_milliseconds
from memspine_sqlite import cursors, filters, sql
from memspine_sqlite.filters import Where
from memspine_sqlite.rows import STATE, memory_of, owner_numbers
from memspine_sqlite.transactions import Transaction

_GROUPS = {"type": "type", "session": "session", "owner": "memories.owner"}


def get_many(transaction: Transaction, ids: Sequence[str], *, scope: Scope, now: datetime) -> dict[str, Memory]:
    """Memories by id, in the order of the ids' first mention."""
    found: dict[str, Memory] = {}
    for number, name in owner_numbers(transaction.connection, scope.owners or ()).items():
        where = filters.of_owner(number, session=scope.session).join(filters.live(to_milliseconds(now)))
        if len(ids) == 1:
            where = where.also("id = ?", ids[0])
        else:
            where = where.also("id IN (SELECT value FROM json_each(?))", filters.listed(list(dict.fromkeys(ids))))
        for row in transaction.connection.execute(f"SELECT {STATE} FROM memories WHERE {where.sql}", where.values):
            # The caller's own memory comes first, and stays.
            if row[0] not in found:
                found[str(row[0])] = memory_of(row, name)
    return {id: found[id] for id in dict.fromkeys(ids) if id in found}


def list_page(
    transaction: Transaction,
    filter: MemoryFilter,
    *,
    scope: Scope,
    now: datetime,
    limit: int,
    cursor: str | None,
    newest_first: bool,
) -> MemoryPage:
    """A page of memories in (created_at, id) order."""
    behind = None
    if cursor is not None:
        behind = cursors.list_position(cursor, newest_first=newest_first, backend=transaction.backend)
    if limit <= 0:
        return MemoryPage(())
    where = filters.live(to_milliseconds(now)).join(filters.matching(filter))
    parts = _Parts(transaction, where, behind, limit=limit + 1, newest_first=newest_first)
    rows = parts.of_everyone() if scope.owners is None else parts.of_scope(scope)
    page = rows[:limit]
    memories = tuple(memory_of(row[2:], row[1]) for row in page)
    if len(rows) <= limit:
        return MemoryPage(memories)
    last = page[-1]
    position = cursors.ListPosition(last[6], last[2], last[0])
    return MemoryPage(memories, cursors.list_cursor(position, newest_first=newest_first))


class _Parts:
    """The rows of one page: tie, owner's name, then the columns of `STATE`."""

    def __init__(
        self,
        transaction: Transaction,
        where: Where,
        behind: cursors.ListPosition | None,
        *,
        limit: int,
        newest_first: bool,
    ) -> None:
        self._connection = transaction.connection
        self._where = where
        self._behind = behind
        self._limit = limit
        self._newest_first = newest_first
        self._direction = "DESC" if newest_first else "ASC"
        self._operator = "<" if newest_first else ">"

    def of_everyone(self) -> list[tuple[Any, ...]]:
        """In all owners' memories, where the owner's name orders what has the same time and id."""
        where = self._where
        if self._behind is not None:
            position = (self._behind.created_at, self._behind.id)
            where = where.also(f"(created_at, id) {self._operator}= (?, ?)", *position).also(
                f"(created_at != ? OR id != ? OR owners.name {self._operator} ?)", *position, self._behind.tie
            )
        order = ", ".join(f"{column} {self._direction}" for column in ("created_at", "id", "owners.name"))
        # A cross join keeps the order of the tables, and with it the use of the index by time.
        return self._connection.execute(
            f"SELECT owners.name, owners.name, {STATE} FROM memories CROSS JOIN owners ON number = memories.owner "
            f"WHERE {where.sql} ORDER BY {order} LIMIT ?",
            (*where.values, self._limit),
        ).fetchall()

    def of_scope(self, scope: Scope) -> list[tuple[Any, ...]]:
        """In the memories of the scope's owners, the caller's own before the other with the same time and id."""
        rows: list[tuple[Any, ...]] = []
        order = f"created_at {self._direction}, id {self._direction}"
        names = scope.owners or ()
        for number, name in owner_numbers(self._connection, names).items():
            tie = str(names.index(name))
            where = filters.of_owner(number, session=scope.session).join(self._where)
            if self._behind is not None:
                shown = not (tie > self._behind.tie if not self._newest_first else tie < self._behind.tie)
                where = where.also(
                    f"(created_at, id) {self._operator}{'' if shown else '='} (?, ?)",
                    self._behind.created_at,
                    self._behind.id,
                )
            rows += self._connection.execute(
                f"SELECT ?, ?, {STATE} FROM memories WHERE {where.sql} ORDER BY {order} LIMIT ?",
                (tie, name, *where.values, self._limit),
            ).fetchall()
        rows.sort(key=lambda row: (row[6], row[2], row[0]), reverse=self._newest_first)
        return rows


def count(
    transaction: Transaction,
    filter: MemoryFilter,
    *,
    scope: Scope,
    now: datetime,
    by: Literal["type", "session", "owner"] | None,
) -> Counts:
    """How many memories match, in all and by group."""
    at = to_milliseconds(now)
    matching = filters.matching(filter)
    groups: dict[Any, int] = {}
    everyone = scope.owners is None
    for number in (None,) if everyone else owner_numbers(transaction.connection, scope.owners or ()):
        where = matching if number is None else filters.of_owner(number, session=scope.session).join(matching)
        is_counted = where.conditions in {(), ("memories.owner = ?",)} and by in {None, "owner"}
        all_of_them = _statistics(transaction, number) if is_counted else _tally(transaction, where, by)
        # Subtracting the few expired ones lets the rest be counted in an index, without reading a row.
        expired = _tally(transaction, Where(("expires_at <= ?",), (at,)).join(where), by)
        for group, amount in all_of_them.items():
            groups[group] = groups.get(group, 0) + amount - expired.get(group, 0)
    groups = {group: amount for group, amount in groups.items() if amount}
    total = sum(groups.values())
    if by is None:
        return Counts(total)
    if by == "owner":
        numbers = filters.listed(list(groups))
        named = sql.rows(
            transaction.connection,
            "SELECT number, name FROM owners WHERE number IN (SELECT value FROM json_each(?))",
            (numbers,),
        )
        groups = {name: groups[number] for number, name in named}
    return Counts(total, dict(sorted(groups.items())))


def _statistics(transaction: Transaction, owner: int | None) -> dict[Any, int]:
    where = "TRUE" if owner is None else "number = ?"
    values = () if owner is None else (owner,)
    found = transaction.connection.execute(f"SELECT number, documents FROM owners WHERE {where}", values)
    return {number: int(documents) for number, documents in found}


def _tally(transaction: Transaction, where: Where, by: str | None) -> dict[Any, int]:
    group = "memories.owner" if by is None else _GROUPS[by]
    found = transaction.connection.execute(
        f"SELECT {group}, count(*) FROM memories WHERE {where.sql} GROUP BY {group}", where.values
    )
    return {name: int(amount) for name, amount in found}
