"""The memories around others, in their owner's session: by time of creation, then in the order in which they came.

That order is the one of row numbers. Memories without a session stand beside nothing.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from memspine.model import MemoryRef, Neighbour, Scope
from memspine.times import to_milliseconds
from memspine_sqlite import rows, shelves, spaces, sql
from memspine_sqlite.filters import listed
from memspine_sqlite.rows import LIVE
from memspine_sqlite.storing import IN_RUNS, session_number
from memspine_sqlite.tables import MEMORIES
from memspine_sqlite.transactions import Transaction

if TYPE_CHECKING:
    from memspine_sqlite.engines import Engines

# In the order of the index, which has the number of the row in it; without a look at the row unless one has expired.
# In two steps, because SQLite would walk through everything of the same time to compare both at once.
_STEP = (
    "SELECT * FROM (SELECT n.row FROM {documents} AS n INDEXED BY {documents}_session "
    "WHERE n.owner = m.owner AND n.session = m.session AND {{compared}} AND {live} "
    "ORDER BY n.created_at {order}, n.row {order} LIMIT {limit})"
)
_SAME, _OTHER = "n.created_at = m.created_at AND n.row {sign} m.row", "n.created_at {sign} m.created_at"


class Near(NamedTuple):
    """Rows, side by side with the rows that they are next to and by how many places, negative before these."""

    of: list[int]
    offsets: list[int]
    rows: list[int]


def around(
    connection: apsw.Connection,
    anchors: Sequence[int],
    *,
    before: int,
    after: int,
    at: int | None,
    documents: str = MEMORIES.documents,
) -> Near:
    """The rows of `documents` around rows of it, in the order asked, offsets rising.

    `at` is the time at which the memories count; None when none has expired, which saves looking.
    """
    near = Near([], [], [])
    if not anchors or (before <= 0 and after <= 0):
        return near
    # One text for all: reading one for each row would take longer than finding it.
    text = sql.value(
        connection,
        statement_around(has_before=before > 0, has_after=after > 0, has_expired=at is not None, documents=documents),
        {"anchors": listed(anchors), "before": before, "after": after, "at": at},
    )
    for row, earlier, later in json.loads(text):
        earlier.reverse()
        near.of.extend([row] * (len(earlier) + len(later)))
        near.offsets.extend([*range(-len(earlier), 0), *range(1, len(later) + 1)])
        near.rows.extend(earlier)
        near.rows.extend(later)
    return near


@functools.cache
def statement_around(
    *, has_before: bool, has_after: bool, has_expired: bool, documents: str = MEMORIES.documents
) -> str:
    """The statement behind `around`, for either side or both."""
    live = "(n.expires_at IS NULL OR n.expires_at > :at)" if has_expired else "TRUE"
    sides = []
    for sign, order, limit, is_wanted in (("<", "DESC", ":before", has_before), (">", "ASC", ":after", has_after)):
        step = _STEP.format(documents=documents, live=live, order=order, limit=limit)
        steps = " UNION ALL ".join(step.format(compared=compared.format(sign=sign)) for compared in (_SAME, _OTHER))
        side = f"(SELECT json_group_array(row) FROM ({steps} LIMIT {limit}))"
        sides.append(f"json({side})" if is_wanted else "json('[]')")
    return (
        f"SELECT json_group_array(json_array(m.row, {', '.join(sides)})) "
        f"FROM json_each(:anchors) AS j CROSS JOIN {documents} AS m WHERE m.row = j.value AND m.session != ''"
    )


def neighbours(
    transaction: Transaction,
    refs: Sequence[MemoryRef],
    *,
    scope: Scope,
    now: datetime,
    before: int,
    after: int,
    engines: Engines,
) -> tuple[Neighbour, ...]:
    """The memories around each one, of those that have vectors."""
    connection = transaction.connection
    at = to_milliseconds(now)
    found: dict[MemoryRef, list[Neighbour]] = {}
    asked = rows.by_owner(refs)
    for name in scope.require_readable("neighbours"):
        owner = rows.owner_number(connection, name)
        if owner is None or name not in asked:
            continue
        held = _held(connection, owner, asked[name], session=scope.session, at=at)
        lines = _lines(connection, owner, set(held.values()), at=at, engines=engines)
        for id, near in _of_vectors(held, lines, before=before, after=after).items():
            of = MemoryRef(name, id)
            found[of] = [Neighbour(of=of, id=other, offset=offset) for offset, other in near]
    return tuple(one for ref in dict.fromkeys(refs) for one in found.get(MemoryRef(*ref), ()))


Nearby = dict[str, list[tuple[int, str]]]
"""The offsets and ids around a memory, by its id."""


def live_rows(
    connection: apsw.Connection,
    owner: int,
    ids: Iterable[str],
    *,
    session: str | None,
    at: int | None,
    documents: str = MEMORIES.documents,
) -> list[tuple[int, str]]:
    """The rows of those ids that have not expired and lie in the session, with the ids, in their order.

    `at` is None when nothing has expired.
    """
    inside = ""
    values: list[Any] = []
    if session is not None:
        inside, values = " AND m.session = ?", [session]
    if at is not None:
        inside, values = f"{inside} AND {LIVE}", [*values, at]
    found = sql.rows(
        connection,
        f"SELECT m.row, m.id FROM json_each(?) AS j CROSS JOIN {documents} AS m "
        f"WHERE m.owner = ? AND m.id = j.value{inside}",
        (listed(list(ids)), owner, *values),
    )
    return [(row, id) for row, id in found]


def _held(
    connection: apsw.Connection, owner: int, ids: Sequence[str], *, session: str | None, at: int
) -> dict[str, int]:
    """The sessions of those ids that have vectors, have not expired and lie in the session."""
    sessions: dict[str, int] = {}
    for shelf in shelves.of_owner(connection, owner):
        for id, chunks in shelves.held_rows(connection, shelf, ids).items():
            first = chunks[0]
            if first.expires_at is None or first.expires_at > at:
                sessions[id] = first.session
    if session is None:
        return sessions
    number = session_number(connection, owner, session)
    return {id: held for id, held in sessions.items() if held == number}


def _of_vectors(held: Mapping[str, int], lines: Mapping[int, Sequence[str]], *, before: int, after: int) -> Nearby:
    places = {(number, id): place for number, line in lines.items() for place, id in enumerate(line)}
    found: Nearby = {}
    for id, number in held.items():
        found[id] = []
        if (number, id) in places:
            here, line = places[number, id], lines[number]
            low, high = max(here - max(before, 0), 0), min(here + max(after, 0), len(line) - 1)
            found[id] = [(place - here, line[place]) for place in range(low, high + 1) if place != here]
    return found


def _lines(
    connection: apsw.Connection, owner: int, sessions: Collection[int], *, at: int, engines: Engines
) -> dict[int, list[str]]:
    """The ids of each session in their order, of all spaces together; by the first vector where several have one."""
    named = set(sessions) - {session_number(connection, owner, "")}
    layouts = {layout.number: layout for layout in spaces.layouts(connection)}
    found: dict[int, dict[str, tuple[int, int]]] = {number: {} for number in named}
    for space, shelf in shelves.with_spaces(connection, owner):
        kept = engines.line(connection, shelf, layouts[space], sessions=named, at=at)
        for number, created, row, id in _read_line(connection, shelf.number, named, at=at) if kept is None else kept:
            line = found[number]
            line[id] = min(line.get(id, (created, row)), (created, row))
    return {number: sorted(line, key=line.__getitem__) for number, line in found.items()}


def _read_line(
    connection: apsw.Connection, shelf: int, sessions: Collection[int], *, at: int
) -> Iterable[tuple[Any, ...]]:
    return connection.execute(
        f"SELECT v.session, v.created_at, v.row, v.id FROM {IN_RUNS} AND v.first IS NULL AND {LIVE} "
        "AND v.session IN (SELECT value FROM json_each(?))",
        (shelf, at, listed(list(sessions))),
    )
