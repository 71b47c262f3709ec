"""Opening one connection to a database file."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeVar

import apsw
import attrs

from memspine_sqlite import filters
from memspine_sqlite.schema import PAGE_SIZE, STEPS, Step

T = TypeVar("T")

# The log is cut to this size when it was larger; it is reused and never shrinks otherwise.
_LOG_BYTES = 64 * 1024 * 1024
_PAUSE_SECONDS = (0.001, 0.02)


@attrs.frozen(kw_only=True)
class Settings:
    """How connections are opened. Beyond the public options, what tests of durability and migration exchange."""

    busy_timeout_seconds: float = 5.0
    readers: int = 2
    cache_mb: int = 16
    synchronous: Literal["FULL", "NORMAL", "OFF"] = "FULL"
    vfs: str | None = None
    steps: tuple[Step, ...] = STEPS


Journal = Literal["WAL", "DELETE"]
"""Write-ahead log, or the rollback journal, which needs no memory shared between processes."""

READ_WRITE: Final = apsw.SQLITE_OPEN_READWRITE
READ_ONLY: Final = apsw.SQLITE_OPEN_READONLY


def connect(path: Path, settings: Settings, *, flags: int = READ_WRITE) -> apsw.Connection:
    """A connection with the pragmas that hold for readers and the writer alike. Raises apsw.Error."""
    connection = apsw.Connection(str(path), flags=flags, vfs=settings.vfs, statementcachesize=200)
    connection.set_busy_timeout(int(settings.busy_timeout_seconds * 1000))
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    connection.execute(f"PRAGMA cache_size = -{settings.cache_mb * 1024}")
    # Sorting keeps memories out of temporary files, which nothing would erase.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = ON")
    filters.register(connection)
    return connection


def connect_reader(path: Path, settings: Settings) -> apsw.Connection:
    """A connection that cannot change the database."""
    connection = connect(path, settings)
    connection.execute("PRAGMA query_only = ON")
    # The log is written back by those who write.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return connection


def make_writer(connection: apsw.Connection, settings: Settings, *, journal: Journal) -> None:
    """Set what only a connection that writes needs. Raises apsw.Error."""
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    retry_busy(
        lambda: connection.execute(f"PRAGMA journal_mode = {journal}").fetchall(),
        seconds=settings.busy_timeout_seconds,
    )
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}").fetchall()
    connection.execute(f"PRAGMA synchronous = {settings.synchronous}")


Mode = Literal["IMMEDIATE", "EXCLUSIVE"]


def begin(connection: apsw.Connection, *, seconds: float, mode: Mode = "IMMEDIATE") -> None:
    """Begin a write transaction, waiting for other processes. Raises apsw.Error."""
    retry_busy(lambda: connection.execute(f"BEGIN {mode}"), seconds=seconds)


def commit(connection: apsw.Connection, *, seconds: float) -> None:
    """Commit, waiting for readers where a rollback journal makes them block it. Raises apsw.Error."""
    retry_busy(lambda: connection.execute("COMMIT"), seconds=seconds)


def roll_back(connection: apsw.Connection) -> None:
    """End a transaction that is still open. SQLite may have ended it itself, for instance when the disk was full."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


@contextmanager
def immediate(connection: apsw.Connection, *, seconds: float, mode: Mode = "IMMEDIATE") -> Iterator[None]:
    """A write transaction: committed at the end of the block, rolled back when it raises."""
    begin(connection, seconds=seconds, mode=mode)
    try:
        yield
        commit(connection, seconds=seconds)
    finally:
        roll_back(connection)


@contextmanager
def reading(connection: apsw.Connection) -> Iterator[None]:
    """A transaction that sees one state of the database."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(connection)


def retry_busy(attempt: Callable[[], T], *, seconds: float) -> T:
    """Repeat what another process may block, with pauses of random length, until the time is up."""
    # SQLite waits by itself for most locks; some it refuses at once, as when two would wait for each other.
    until = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except apsw.BusyError:
            if time.monotonic() >= until:
                raise
            time.sleep(random.uniform(*_PAUSE_SECONDS))  # noqa: S311 - spreads those who wait, guards nothing
