"""Copies of a database, written while it is in use, and the list of those that a purge has to reach."""

from __future__ import annotations

import glob
import os
import secrets
from pathlib import Path

import apsw
import attrs

from memspine_sqlite import sql
from memspine_sqlite.connections import READ_ONLY, Settings, connect, retry_busy
from memspine_sqlite.filesystem import sync_folder


@attrs.frozen
class Known:
    """A backup that the store remembers; `partial` is the name it has while it is being written."""

    path: Path
    partial: Path | None


def partial_name(target: Path) -> Path:
    """A name for a backup that is not complete."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")


def copy(source: Path, target: Path, settings: Settings, *, partial: Path | None = None, replace: bool = False) -> None:
    """Write a consistent copy under another name, then give it its own in one step.

    Raises FileExistsError when the target is there and may not be replaced; OSError, apsw.Error.
    """
    if not replace and target.exists():
        raise FileExistsError(None, "it is there already, and a backup never overwrites a file", str(target))
    partial = partial_name(target) if partial is None else partial
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        copy_pages(source, partial, settings)
        if replace:
            partial.replace(target)
        else:
            _link(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(target.parent)


def copy_pages(source: Path, partial: Path, settings: Settings) -> None:
    """Copy a database into an empty file, and see it onto the disk. Raises apsw.Error, OSError."""
    reader = connect(source, settings, flags=READ_ONLY)
    writer = apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        with writer.backup("main", reader, "main") as backup:
            # All pages in one go: step by step, every write of another process would start it anew.
            retry_busy(backup.step, seconds=settings.busy_timeout_seconds)
        # A copy opens without a log of its own; a store sets the log up again.
        writer.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        writer.close()
        reader.close()
    number = os.open(partial, os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _link(partial: Path, target: Path) -> None:
    try:
        # Linking fails when the target has appeared meanwhile, where renaming would overwrite it.
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no links, and each has its own way to say so.
        if target.exists():
            raise FileExistsError(
                None, "it is there already, and a backup never overwrites a file", str(target)
            ) from None
        partial.rename(target)


def remember(connection: apsw.Connection, target: Path, *, partial: Path | None = None) -> bool:
    """Note a backup, so that a purge reaches it; returns whether one with this name was known before."""
    was_known = sql.first(connection, "SELECT 1 FROM backups WHERE path = ?", (str(target),)) is not None
    connection.execute(
        "INSERT OR REPLACE INTO backups (path, partial) VALUES (?, ?)",
        (str(target), "" if partial is None else str(partial)),
    )
    return was_known


def forget(connection: apsw.Connection, target: Path) -> None:
    """Strike a backup off the list."""
    connection.execute("DELETE FROM backups WHERE path = ?", (str(target),))


def known(connection: apsw.Connection, database: Path) -> list[Known]:
    """Every backup that the store remembers, and what a migration left beside the database before it was cut off."""
    found = sql.rows(connection, "SELECT path, partial FROM backups ORDER BY path")
    remembered = [Known(Path(path), Path(partial) if partial else None) for path, partial in found]
    beside = {*database.parent.glob(before_migration(database.with_name(glob.escape(database.name)), "*").name)}
    return remembered + [Known(path, None) for path in sorted(beside - {one.path for one in remembered})]


def before_migration(database: Path, version: int | str) -> Path:
    """The name of the copy that is made before a database is brought to a version."""
    return database.with_name(f"{database.name}.before-v{version}.db")
