"""Journals that stand beside that of a chain and may be an earlier one of it."""

from __future__ import annotations

import contextlib
import urllib.parse
from pathlib import Path
from typing import Final

from memspine.journal.whose import MARK_LENGTH, Whose, read_whose
from memspine.status import StrayJournal

BUSY_SECONDS: Final = 0.2
"""How long looking into the journal of somebody else waits for it."""
_COUNTS: Final = (
    "SELECT count(*) FROM entries WHERE kind = 'write' AND state <> 'renamed'",  # those were done
    "SELECT (SELECT count(*) FROM entries WHERE kind = 'delivery') + (SELECT count(*) FROM outbox)",
)


def strays(folder: Path, whose: Whose, *, path: Path) -> tuple[StrayJournal, ...]:
    """Journals in a folder, other than the one at `path`, whose primary has the same name or is the same store, and in
    which something stands that is not done: it may wait for this store, which was moved or renamed.

    They are only read. One that cannot be is told where its name says that it may be one of them.
    """
    try:
        files = sorted(file for file in folder.glob("*.db") if file.is_file() and not _is_same(file, path))
    except OSError:
        return ()
    return tuple(stray for file in files if (stray := _stray(file, whose)) is not None)


def _stray(file: Path, whose: Whose) -> StrayJournal | None:
    import sqlite3

    uri = f"file:{urllib.parse.quote(str(file.absolute()))}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return None  # it is only being made
            other = read_whose(connection)
            if other.primary != whose.primary and other.store != whose.store:
                return None
            writes, deliveries = (connection.execute(count).fetchone()[0] for count in _COUNTS)
    except sqlite3.Error as error:
        is_of_store = whose.store[:MARK_LENGTH] in file.name
        if not is_of_store and not file.name.startswith(f"{whose.primary}-"):
            return None
        return StrayJournal(path=file, is_of_store=is_of_store, error=str(error))
    if not writes and not deliveries:
        return None
    return StrayJournal(
        path=file,
        owner=other.told_from(whose),
        is_ours=other == whose,
        is_of_store=other.store == whose.store,
        writes=writes,
        deliveries=deliveries,
    )


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
