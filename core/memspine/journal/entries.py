"""What waits, numbered: writes for the primary, and memories that a replica does not take."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import attrs

from memspine import times
from memspine.model import MemoryRef

if TYPE_CHECKING:
    from sqlite3 import Connection

    from memspine.status import EntryState, JournalEntry

ATTEMPTS_MAX: Final = 8
"""After so many failures of its own an entry is dead."""
PAUSE_MILLISECONDS: Final = 1_000
PAUSE_MILLISECONDS_MAX: Final = 300_000
RENAMED_MILLISECONDS: Final = 30 * 86_400_000
"""So long it is told that an acknowledged memory has another id."""

_WAITING: Final = "number, operation, owner, id, body, is_tried, next_attempt_at, unit"

Operation = Literal["create", "update", "delete"]


@attrs.frozen(kw_only=True)
class Waiting:
    """A write that waits, as it was entered: `body` is what `memspine.chain` made of it. One that `is_tried` may have
    been executed. Those of one `unit` are done together or not at all; a write that stands alone is one by itself."""

    number: int
    operation: Operation
    owner: str
    id: str
    body: str
    unit: int
    is_tried: bool = False
    next_attempt_at: int | None = None


def pause(attempts: int) -> int:
    """How long to wait after so many failures: doubled each time up to five minutes, half of it at random
    (milliseconds)."""
    longest = min(PAUSE_MILLISECONDS * 2 ** min(attempts, 20), PAUSE_MILLISECONDS_MAX)
    return int(longest * random.uniform(0.5, 1.0))  # noqa: S311 - it keeps processes apart, and nothing secret


def is_put_off(next_attempt_at: int | None, now: int) -> bool:
    """Whether the turn of what failed has not come again. A time further away than any pause is that of a clock which
    was put back since, and nothing to wait for."""
    return next_attempt_at is not None and now < next_attempt_at <= now + PAUSE_MILLISECONDS_MAX


# ── writes for the primary ──


def append(
    connection: Connection,
    writes: Iterable[tuple[Operation, str, str, str]],
    now: int,
    *,
    is_tried: bool = False,
    is_unit: bool = False,
    error: str = "",
) -> list[int]:
    """Enter writes: operation, owner, id, body; with `is_tried` they may have been executed, with `is_unit` all of them
    are done or none. `error` is why they could not be done at once. Returns their numbers."""
    numbers = []
    for operation, owner, id, body in writes:
        row = connection.execute(
            "INSERT INTO entries (kind, state, operation, replica, owner, id, body, noted_at, is_tried, error) "
            "VALUES ('write', 'pending', ?, '', ?, ?, ?, ?, ?, ?)",
            (operation, owner, id, body, now, is_tried, error),
        )
        numbers.append(int(row.lastrowid or 0))
    if is_unit:
        connection.executemany("UPDATE entries SET unit = ? WHERE number = ?", ((numbers[0], n) for n in numbers))
    return numbers


def has_any_waiting(connection: Connection) -> bool:
    """Whether writes of anybody wait."""
    found = connection.execute("SELECT 1 FROM entries WHERE kind = 'write' AND state = 'pending' LIMIT 1")
    return found.fetchone() is not None


def has_waiting(connection: Connection, owner: str) -> bool:
    """Whether writes of an owner wait."""
    found = connection.execute(
        "SELECT 1 FROM entries WHERE kind = 'write' AND state = 'pending' AND owner = ? LIMIT 1", (owner,)
    )
    return found.fetchone() is not None


def waiting(connection: Connection, after: int, limit: int) -> list[Waiting]:
    """The writes that wait behind a number, in order; more than `limit` where the last one is of a unit, which is never
    cut."""
    select = f"SELECT {_WAITING} FROM entries WHERE kind = 'write' AND state = 'pending' AND number > ?"  # noqa: S608
    rows = connection.execute(f"{select} ORDER BY number LIMIT ?", (after, limit)).fetchall()
    found = [_waiting(row) for row in rows]
    if len(found) == limit and found[-1].unit != found[-1].number:
        rest = connection.execute(f"{select} AND unit = ? ORDER BY number", (found[-1].number, found[-1].unit))
        found += map(_waiting, rest)
    return found


def named(connection: Connection, owners: Sequence[str] | None) -> list[tuple[str, str, Operation]]:
    """Owner, id and operation of each write that waits for these owners (None: for everyone), in order: their bodies
    may be large, and are not read."""
    select = "SELECT owner, id, operation FROM entries WHERE kind = 'write' AND state = 'pending'"
    if owners is None:
        return connection.execute(f"{select} ORDER BY number").fetchall()
    return [row for one in owners for row in connection.execute(f"{select} AND owner = ? ORDER BY number", (one,))]


def waiting_of(connection: Connection, owners: Sequence[str], ids: Sequence[str]) -> list[Waiting]:
    """The writes that wait for these memories of these owners, in order."""
    rows = [
        row
        for owner in owners
        for id in ids
        for row in connection.execute(
            f"SELECT {_WAITING} FROM entries WHERE kind = 'write' AND state = 'pending' "  # noqa: S608 - columns
            "AND owner = ? AND id = ?",
            (owner, id),
        )
    ]
    return sorted(map(_waiting, rows), key=lambda entry: entry.number)


def note_tried(connection: Connection, numbers: Iterable[int], *, is_tried: bool = True) -> None:
    """Note that these are about to be executed, so that whoever comes after a crash looks first; or that they were not
    executed after all."""
    connection.executemany("UPDATE entries SET is_tried = ? WHERE number = ?", ((is_tried, n) for n in numbers))


def fail(connection: Connection, number: int, error: str, now: int) -> bool:
    """Put an entry off, or make it dead if it was tried often enough; returns whether it is dead."""
    row = connection.execute(
        "UPDATE entries SET attempts = attempts + 1 WHERE number = ? RETURNING attempts", (number,)
    ).fetchone()
    if row is None:
        return False
    is_dead = bool(row[0] >= ATTEMPTS_MAX)
    connection.execute(
        "UPDATE entries SET state = ?, next_attempt_at = ?, error = ? WHERE number = ?",
        ("dead" if is_dead else "pending", None if is_dead else now + pause(row[0]), error, number),
    )
    return is_dead


def note_outage(connection: Connection, number: int, error: str) -> None:
    """Note why an entry has to wait. It was no attempt: what is down says nothing about the entry."""
    connection.execute("UPDATE entries SET error = ? WHERE number = ?", (error, number))


def bury(connection: Connection, number: int, error: str) -> None:
    """Make an entry a dead letter: it will never go by itself."""
    connection.execute(
        "UPDATE entries SET state = 'dead', next_attempt_at = NULL, error = ? WHERE number = ?", (error, number)
    )


def rename(connection: Connection, entry: Waiting, id: str, became: str, *, reason: str, now: int) -> None:
    """Note that a create that was acknowledged as `id` became another memory, where the reason stays to be read. What
    was entered behind it goes to that one, up to its deletion."""
    connection.execute(
        "UPDATE entries SET state = 'renamed', noted_at = ?, next_attempt_at = NULL, body = '', error = ? "
        "WHERE number = ?",
        (now, reason, entry.number),
    )
    behind = "kind = 'write' AND state != 'renamed' AND owner = ? AND id = ? AND number > ?"
    place = (entry.owner, id, entry.number)
    last = connection.execute(
        f"SELECT min(number) FROM entries WHERE {behind} AND operation = 'delete'",  # noqa: S608
        place,
    ).fetchone()[0]
    up_to = "" if last is None else f" AND number <= {int(last)}"
    connection.execute(f"UPDATE entries SET id = ? WHERE {behind}{up_to}", (became, *place))  # noqa: S608


def has_old_renamed(connection: Connection, now: int) -> bool:
    """Whether there is anything for `forget_renamed`."""
    found = connection.execute(
        "SELECT 1 FROM entries WHERE kind = 'write' AND state = 'renamed' AND noted_at < ? LIMIT 1",
        (now - RENAMED_MILLISECONDS,),
    )
    return found.fetchone() is not None


def forget_renamed(connection: Connection, now: int) -> None:
    """Drop what was told for long enough."""
    connection.execute(
        "DELETE FROM entries WHERE kind = 'write' AND state = 'renamed' AND noted_at < ?", (now - RENAMED_MILLISECONDS,)
    )


def next_of(connection: Connection, owner: str, id: str, after: int) -> Waiting | None:
    """The write of a memory that follows a number, dead or not."""
    row = connection.execute(
        f"SELECT {_WAITING} FROM entries WHERE kind = 'write' AND state != 'renamed' "  # noqa: S608 - columns
        "AND owner = ? AND id = ? AND number > ? ORDER BY number LIMIT 1",
        (owner, id, after),
    ).fetchone()
    return None if row is None else _waiting(row)


def change(connection: Connection, number: int, body: str) -> None:
    """Give a write another body."""
    connection.execute("UPDATE entries SET body = ? WHERE number = ?", (body, number))


def remove(connection: Connection, numbers: Iterable[int]) -> int:
    """Remove entries that are done or given up; returns how many there were."""
    return connection.executemany("DELETE FROM entries WHERE number = ?", ((n,) for n in numbers)).rowcount


# ── memories that a replica does not take ──


def set_aside(connection: Connection, replica: str, ref: MemoryRef, *, state: EntryState, error: str, now: int) -> None:
    """Note that a replica does not take a memory. A pending one is put off, longer each time, and dead in the end."""
    connection.execute(
        "INSERT INTO entries (kind, state, operation, replica, owner, id, body, noted_at, attempts) "
        "VALUES ('delivery', ?, 'put', ?, ?, ?, '', ?, 0) "
        "ON CONFLICT (replica, owner, id, operation) WHERE kind = 'delivery' DO UPDATE SET state = excluded.state",
        (state, replica, *ref, now),
    )
    number = connection.execute(
        "UPDATE entries SET error = ?, next_attempt_at = NULL "
        "WHERE kind = 'delivery' AND operation = 'put' AND replica = ? AND owner = ? AND id = ? RETURNING number",
        (error, replica, *ref),
    ).fetchone()[0]
    if state == "pending":
        fail(connection, number, error, now)


def aside(connection: Connection, replica: str) -> dict[MemoryRef, EntryState]:
    """The state of each memory, by owner and id, that was set aside for a replica."""
    rows = connection.execute(
        "SELECT owner, id, state FROM entries WHERE kind = 'delivery' AND operation = 'put' AND replica = ?", (replica,)
    )
    return {MemoryRef(owner, id): state for owner, id, state in rows}


def clear_aside(connection: Connection, replica: str) -> None:
    """Forget all that was set aside for a replica, which is another store now; what is to be erased in it still is."""
    connection.execute("DELETE FROM entries WHERE kind = 'delivery' AND operation = 'put' AND replica = ?", (replica,))
    connection.execute("UPDATE entries SET state = 'pending' WHERE kind = 'delivery' AND replica = ?", (replica,))


def ask_purge(connection: Connection, replica: str, owner: str, ids: Sequence[str] | None, now: int) -> None:
    """Note that memories (None: all of an owner) have to be erased in a replica before anything else reaches it."""
    connection.executemany(
        "INSERT INTO entries (kind, state, operation, replica, owner, id, body, noted_at) "
        "VALUES ('delivery', 'pending', 'purge', ?, ?, ?, '', ?) "
        "ON CONFLICT (replica, owner, id, operation) WHERE kind = 'delivery' DO UPDATE "
        "SET state = excluded.state",
        ((replica, owner, id, now) for id in (("",) if ids is None else ids)),
    )


def purges(connection: Connection, replica: str) -> list[tuple[str, str]]:
    """Owner and id (empty: all of the owner) of what has to be erased in a replica."""
    return connection.execute(
        "SELECT owner, id FROM entries "
        "WHERE kind = 'delivery' AND operation = 'purge' AND state = 'pending' AND replica = ? ORDER BY number",
        (replica,),
    ).fetchall()


def give_up_purges(connection: Connection, replica: str, error: str) -> None:
    """Note that a replica cannot erase anything: what it was to erase is dead, and holds nothing up."""
    connection.execute(
        "UPDATE entries SET state = 'dead', error = ? WHERE kind = 'delivery' AND operation = 'purge' AND replica = ?",
        (error, replica),
    )


def forget_purge(connection: Connection, replica: str, owner: str, ids: Sequence[str] | None) -> None:
    """Note that what was to be erased in a replica is, or cannot be."""
    clear(connection, replica, ((owner, id) for id in (("",) if ids is None else ids)), "purge")


def due(connection: Connection, replica: str, now: int, limit: int) -> list[MemoryRef]:
    """The memories whose turn has come again."""
    rows = connection.execute(
        "SELECT owner, id FROM entries "
        "WHERE kind = 'delivery' AND operation = 'put' AND state = 'pending' AND replica = ? "
        "AND NOT coalesce(next_attempt_at, 0) BETWEEN ? AND ? ORDER BY number LIMIT ?",  # see `is_put_off`
        (replica, now + 1, now + PAUSE_MILLISECONDS_MAX, limit),
    )
    return [MemoryRef(owner, id) for owner, id in rows]


def clear(
    connection: Connection, replica: str, refs: Iterable[tuple[str, str]], operation: Literal["put", "purge"] = "put"
) -> None:
    """Forget what was set aside: the replica has these memories now, or has erased them."""
    connection.executemany(
        "DELETE FROM entries WHERE kind = 'delivery' AND operation = ? AND replica = ? AND owner = ? AND id = ?",
        ((operation, replica, owner, id) for owner, id in refs),
    )


# ── what people see and do ──


def listed(connection: Connection, limit: int) -> tuple[JournalEntry, ...]:
    """The first entries, by number."""
    from memspine.status import JournalEntry

    rows = connection.execute(
        "SELECT number, kind, state, operation, replica, owner, id, noted_at, attempts, next_attempt_at, error "
        "FROM entries ORDER BY number LIMIT ?",
        (limit,),
    )
    return tuple(
        JournalEntry(
            number=number,
            kind=kind,
            state=state,
            operation=operation,
            replica=replica,
            owner=owner,
            id=id,
            noted_at=times.from_milliseconds(noted_at),
            attempts=attempts,
            next_attempt_at=None if next_attempt_at is None else times.from_milliseconds(next_attempt_at),
            error=error,
        )
        for number, kind, state, operation, replica, owner, id, noted_at, attempts, next_attempt_at, error in rows
    )


def known(connection: Connection, numbers: Iterable[int]) -> dict[int, EntryState]:
    """The state of those of the numbers that there are."""
    found = (connection.execute("SELECT number, state FROM entries WHERE number = ?", (n,)).fetchone() for n in numbers)
    return dict(row for row in found if row is not None)


def revive(connection: Connection, numbers: Sequence[int] | None) -> list[int]:
    """Have entries tried at once, dead ones too (None: all that are not in conflict), each with its unit; returns
    which."""
    some = "state != 'conflict'"
    if numbers is not None:
        listed = ",".join(str(int(n)) for n in numbers)
        units = f"SELECT unit FROM entries WHERE unit != 0 AND number IN ({listed})"  # noqa: S608 - numbers
        some = f"(number IN ({listed}) OR unit IN ({units}))"
    rows = connection.execute(
        "UPDATE entries SET state = 'pending', next_attempt_at = NULL, "  # noqa: S608 - numbers
        f"attempts = 0 WHERE {some} AND state != 'renamed' RETURNING number"
    )
    return sorted(row[0] for row in rows.fetchall())


def counts(connection: Connection) -> dict[tuple[str, str, str], int]:
    """How many entries there are by kind, replica and state."""
    rows = connection.execute("SELECT kind, replica, state, count(*) FROM entries GROUP BY kind, replica, state")
    return {(kind, replica, state): number for kind, replica, state, number in rows}


def oldest(connection: Connection) -> int | None:
    """When the write was entered that has waited longest."""
    row = connection.execute("SELECT min(noted_at) FROM entries WHERE kind = 'write' AND state = 'pending'").fetchone()
    return None if row[0] is None else int(row[0])


def first_reason(connection: Connection) -> str:
    """Why the first write that waits could not be done; empty where nobody knows, or none waits."""
    row = connection.execute(
        "SELECT error FROM entries WHERE kind = 'write' AND state = 'pending' ORDER BY number LIMIT 1"
    ).fetchone()
    return "" if row is None else str(row[0])


def erase(connection: Connection, owner: str, ids: Sequence[str] | None, *, until: int | None = None) -> None:
    """Erase what the journal holds of memories (None: of all of an owner); tombstones stay, and what was entered after
    `until` (milliseconds; None: whenever it was)."""
    for statement in (
        "DELETE FROM entries WHERE owner = :owner AND noted_at <= coalesce(:until, noted_at)",
        "DELETE FROM sent WHERE owner = :owner",
    ):
        if ids is None:
            connection.execute(statement, {"owner": owner, "until": until})
        else:
            connection.executemany(
                f"{statement} AND id = :id", ({"owner": owner, "until": until, "id": id} for id in ids)
            )


def _waiting(row: tuple[int, Operation, str, str, str, int, int | None, int]) -> Waiting:
    number, operation, owner, id, body, is_tried, next_attempt_at, unit = row
    return Waiting(
        number=number,
        operation=operation,
        owner=owner,
        id=id,
        body=body,
        unit=unit or number,
        is_tried=bool(is_tried),
        next_attempt_at=next_attempt_at,
    )
