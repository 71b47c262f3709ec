"""What takes long and needs more than one transaction: purges and backups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import apsw

from memspine.model import PurgedPlace, PurgeReceipt, Scope
from memspine_sqlite import backups, erasing, spaces
from memspine_sqlite.database import Database
from memspine_sqlite.failures import translated
from memspine_sqlite.rows import owner_number
from memspine_sqlite.transactions import Transaction

_PLACES = ("rows", "history", "keyword index", "write-ahead log")
_VECTOR_PLACES = ("vectors", "vector queue", "names of sessions", "kept keyword index", "write-ahead log")
_OWNER = PurgedPlace(
    place="owner's name",
    status="kept",
    detail="the name stays beside tombstones and feed, which refer to it",
)


def purge(database: Database, ids: Sequence[str] | None, *, scope: Scope, now: datetime, backend: str) -> PurgeReceipt:
    """Erase memories from the store and from the backups it remembers."""
    store = database.store(backend)
    work = partial(erasing.purge_rows, ids=ids, scope=scope, now=now)
    memories = database.write_and_wait(work, backend=backend)
    erased = _erase_bytes(database)
    places = [PurgedPlace(place=place, status=erased.status, detail=erased.pending) for place in _PLACES]
    if database.write_and_wait(_has_spaces, backend=backend):
        places.append(PurgedPlace(place="vectors", status=erased.status, detail=erased.pending))
    known = database.write_and_wait(
        lambda transaction: backups.known(transaction.connection, database.path), backend=backend
    )
    places += [erasing.purge_backup(backup, work, settings=database.settings, store=store.id) for backup in known]
    is_whole = ids is None and scope.session is None
    if is_whole and database.write_and_wait(partial(_is_named, owner=scope.owner), backend=backend):
        places.append(_OWNER)
    places.append(PurgedPlace(place="change feed", status="kept", detail="ids, revisions and times, no content"))
    places.append(PurgedPlace(place="tombstones", status="kept", detail="ids, revisions and times, no content"))
    return PurgeReceipt(memories, tuple(places))


def purge_vectors(database: Database, ids: Sequence[str] | None, *, scope: Scope, backend: str) -> PurgeReceipt:
    """Erase the vectors of memories from the store and from the backups it remembers."""
    store = database.store(backend)
    work = partial(erasing.purge_vectors, ids=ids, scope=scope)
    memories = database.write_and_wait(work, backend=backend)
    erased = _erase_bytes(database)
    places = [PurgedPlace(place=place, status=erased.status, detail=erased.pending) for place in _VECTOR_PLACES]
    known = database.write_and_wait(
        lambda transaction: backups.known(transaction.connection, database.path), backend=backend
    )
    places += [erasing.purge_backup(backup, work, settings=database.settings, store=store.id) for backup in known]
    is_whole = ids is None and scope.session is None
    if is_whole and database.write_and_wait(partial(_is_named, owner=scope.owner), backend=backend):
        places.append(_OWNER)
    return PurgeReceipt(memories, tuple(places))


def _is_named(transaction: Transaction, *, owner: str) -> bool:
    return owner_number(transaction.connection, owner) is not None


def _has_spaces(transaction: Transaction) -> bool:
    return bool(spaces.layouts(transaction.connection))


def _erase_bytes(database: Database) -> erasing.Erased:
    try:
        return erasing.erase_bytes(database.path, database.settings)
    except (apsw.Error, OSError) as error:
        # The rows are gone, which the receipt has to say as well as what is left to do.
        return erasing.Erased(f"{error}; repeat the purge")


def backup(database: Database, target: Path, *, backend: str) -> None:
    """Write a copy to a new file that purges will reach."""
    target = target.absolute()
    partial_path = backups.partial_name(target)
    with translated(backend, target):
        if target.exists():
            raise FileExistsError(None, "it is there already, and a backup never overwrites a file", str(target))
        # Noted first, so that no purge can miss the copy. An earlier one with this name may have been moved.
        was_known = database.write_and_wait(
            partial(_remember, target=target, partial_path=partial_path), backend=backend
        )
        complete = False
        try:
            backups.copy(database.path, target, database.settings, partial=partial_path)
            complete = True
        finally:
            if complete or was_known:
                database.write_and_wait(partial(_remember, target=target, partial_path=None), backend=backend)
            elif not target.exists():
                database.write_and_wait(partial(_forget, target=target), backend=backend)


def _remember(transaction: Transaction, *, target: Path, partial_path: Path | None) -> bool:
    return backups.remember(transaction.connection, target, partial=partial_path)


def _forget(transaction: Transaction, *, target: Path) -> None:
    backups.forget(transaction.connection, target)
