"""Removing memories from every place, down to the bytes of the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

import apsw
import attrs

from memspine.model import PurgedPlace, Scope
from memspine.times import to_milliseconds
from memspine_sqlite import filters, keywords, schema, spaces, sql, storing
from memspine_sqlite.backups import Known
from memspine_sqlite.connections import Settings, connect, immediate
from memspine_sqlite.keywords import Tokens
from memspine_sqlite.ledger import Ledger
from memspine_sqlite.rows import owner_number
from memspine_sqlite.slack import DatabaseFile, TooLargeError
from memspine_sqlite.transactions import Transaction

# Pages that are cleaned while others wait to write: a fraction of a second.
_PAGES_PER_LOCK = 1 << 15
_ATTEMPTS = 50
# How many purges removed rows, and up to which of them the bytes are gone as well.
_PURGES = "purges"
_ERASED = "erased"
# What is not at its path may have been moved, or its medium taken away.
_MOVED = "a copy that was moved still holds the content: delete it, or put it back and repeat the purge"


@attrs.frozen
class Erased:
    """Whether all bytes are gone, and if not, why."""

    pending: str = ""

    @property
    def status(self) -> Literal["erased", "pending"]:
        """The word for it in a receipt."""
        return "pending" if self.pending else "erased"


def purge_rows(transaction: Transaction, ids: Sequence[str] | None, *, scope: Scope, now: datetime) -> int:
    """Remove rows, history and index entries, leave tombstones; returns how many memories that were."""
    connection = transaction.connection
    _begin(connection)
    # The vectors of what goes are in the same file, and their store may not be in use any more.
    if spaces.layouts(connection):
        storing.purge(transaction, ids, scope=scope)
    owner = owner_number(connection, scope.owner)
    if owner is None:
        return 0
    found = _purgeable(connection, owner, ids, scope=scope)
    with Ledger(transaction) as ledger, keywords.removing(connection, len(found)):
        for id in found:
            ledger.erase(owner, id, old=ledger.find(owner, id), at=to_milliseconds(now))
    return len(found)


def purge_vectors(transaction: Transaction, ids: Sequence[str] | None, *, scope: Scope) -> int:
    """Remove the vectors of memories, and the memories from the queues; returns how many memories that were."""
    _begin(transaction.connection)
    return storing.purge(transaction, ids, scope=scope) if spaces.layouts(transaction.connection) else 0


def _begin(connection: apsw.Connection) -> None:
    # Noted in the same transaction, so that whoever opens the store next goes on if this process dies.
    schema.set_meta(connection, _PURGES, str(_number(connection, _PURGES) + 1))


def _purgeable(connection: apsw.Connection, owner: int, ids: Sequence[str] | None, *, scope: Scope) -> list[str]:
    """The ids with a memory or with states of one; in a session, those whose last state lies in it."""
    where = filters.Where(("owner = ?",), (owner,))
    if ids is not None:
        where = where.also("id IN (SELECT value FROM json_each(?))", filters.listed(list(dict.fromkeys(ids))))
    last = where
    if scope.session is not None:
        where = where.also("session = ?", scope.session)
        last = where.also(
            "row = (SELECT max(row) FROM history AS h WHERE h.owner = history.owner AND h.id = history.id) "
            "AND NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.owner = history.owner AND m.id = history.id)"
        )
    statement = f"SELECT id FROM memories WHERE {where.sql} UNION SELECT id FROM history WHERE {last.sql}"
    return [id for (id,) in sql.rows(connection, statement, (*where.values, *last.values))]


def is_unfinished(connection: apsw.Connection) -> bool:
    """Whether a purge removed rows whose bytes may still be in the files."""
    return _number(connection, _ERASED) < _number(connection, _PURGES)


def _number(connection: apsw.Connection, name: str) -> int:
    return int(schema.meta(connection, name) or 0)


def erase_bytes(path: Path, settings: Settings) -> Erased:
    """Empty the log and overwrite all unused bytes of a database. Raises apsw.Error, OSError."""
    file = DatabaseFile(path, vfs=settings.vfs)
    try:
        part: _Part | None = _Part(first=1, purges=None)
        while part is not None and part.first:
            part = _erase_part(file, path, settings, part)
        if part is None:
            return Erased("a reader or a writer still uses the write-ahead log; repeat the purge when it is done")
    except TooLargeError:
        return Erased("the file is too large to tell what in it is unused; copy what is left into a new store")
    finally:
        file.close()
    return Erased()


@attrs.frozen
class _Part:
    """Where to go on (0: all is done), and how many purges there had been when the first page was cleaned."""

    first: int
    purges: int | None


def _erase_part(file: DatabaseFile, path: Path, settings: Settings, part: _Part) -> _Part | None:
    """Clean some pages. Returns what to go on with, None when it is not possible now."""
    # A connection of its own for each part: it remembers no page from before.
    connection = connect(path, settings)
    try:
        for _ in range(_ATTEMPTS):
            if not _checkpoint(connection):
                return None
            with immediate(connection, seconds=settings.busy_timeout_seconds, mode="EXCLUSIVE"):
                # Another process may have written since the checkpoint; then the file is behind the log again.
                if _log_is_empty(path):
                    return _clean(connection, file, part)
        return None
    finally:
        _checkpoint(connection)
        connection.close()


def _clean(connection: apsw.Connection, file: DatabaseFile, part: _Part) -> _Part:
    shape = file.shape()
    last = min(part.first + _PAGES_PER_LOCK - 1, shape.pages)
    file.clean(shape, part.first, last)
    purges = _number(connection, _PURGES) if part.purges is None else part.purges
    is_last = last == shape.pages
    if is_last:
        schema.set_meta(connection, _ERASED, str(max(purges, _number(connection, _ERASED))))
    # A commit that changes something makes every other connection forget the pages it has read, old bytes included.
    schema.set_meta(connection, "cleanings", str(_number(connection, "cleanings") + 1))
    return _Part(0 if is_last else last + 1, purges)


def _checkpoint(connection: apsw.Connection) -> bool:
    """Write the log back and cut it to nothing; False when somebody still uses it."""
    return not sql.value(connection, "PRAGMA wal_checkpoint(TRUNCATE)")


def _log_is_empty(path: Path) -> bool:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size == 0
    except FileNotFoundError:
        return True


def purge_backup(
    backup: Known, work: Callable[[Transaction], object], *, settings: Settings, store: str
) -> PurgedPlace:
    """Purge in a backup as well, and say what became of it."""
    place = f"backup {backup.path}"
    try:
        absent = _absent(place, backup)
        if absent is not None:
            return absent
        return _purge_file(place, backup.path, work, settings=settings, store=store)
    except (apsw.Error, OSError) as error:
        return PurgedPlace(place=place, status="pending", detail=f"{error}; repeat the purge, or delete the file")


def _absent(place: str, backup: Known) -> PurgedPlace | None:
    """What a receipt says of a backup that is not at its path; None when it is there. Raises OSError."""
    # In this order, because a backup that is finished just now has its own name before it loses the other.
    is_partial = backup.partial is not None and backup.partial.exists()
    if backup.path.exists():
        return None
    if is_partial:
        detail = f"{backup.partial} is being written, or was left behind: delete it"
        return PurgedPlace(place=place, status="pending", detail=detail)
    if not backup.path.parent.is_dir():
        return PurgedPlace(place=place, status="pending", detail="its folder cannot be reached; repeat the purge")
    return PurgedPlace(place=place, status="kept", detail=f"no file is there now; {_MOVED}")


def _purge_file(
    place: str, path: Path, work: Callable[[Transaction], object], *, settings: Settings, store: str
) -> PurgedPlace:
    plain = attrs.evolve(settings, vfs=None)
    connection = connect(path, plain)
    try:
        application = sql.value(connection, "PRAGMA application_id")
        if application != schema.APPLICATION_ID or schema.meta(connection, "store") != store:
            return PurgedPlace(place=place, status="kept", detail=f"the file is no backup of this store; {_MOVED}")
        tokens = Tokens(bytes.fromhex(schema.meta(connection, "secret") or ""))
        transaction = Transaction(
            connection=connection, backend=place, tokens=tokens, has_speakers=schema.has_speakers(connection)
        )
        with immediate(connection, seconds=settings.busy_timeout_seconds):
            work(transaction)
    finally:
        connection.close()
    erased = erase_bytes(path, plain)
    return PurgedPlace(place=place, status="pending" if erased.pending else "erased", detail=erased.pending)
