"""One database file, opened: a thread that writes, some that read, and one for what takes long.

Everything that blocks runs in these threads, never in an event loop. An operation is a function of a `Transaction`;
once it has begun it runs to its end, whatever becomes of the task that waits for it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import apsw
import attrs

from memspine.errors import BackendError, ClosedError
from memspine_sqlite import erasing, schema
from memspine_sqlite.connections import (
    Journal,
    Settings,
    begin,
    commit,
    connect,
    connect_reader,
    make_writer,
    reading,
    roll_back,
)
from memspine_sqlite.failures import commit_failure, translated
from memspine_sqlite.filesystem import make_private_file, remote_type
from memspine_sqlite.keywords import Tokens
from memspine_sqlite.migrations import Format, Migration, check_format, check_header
from memspine_sqlite.transactions import Transaction

T = TypeVar("T")

# A command may spend 50 ms on such work after its answer.
_BACKGROUND_WAIT_SECONDS = 0.05

Operation = Callable[[Transaction], T]


@attrs.frozen(kw_only=True)
class Store:
    """What is known of a database once it is open."""

    writer: apsw.Connection
    tokens: Tokens
    id: str
    format: Format
    journal: Journal
    remote: str | None
    process: int


class Database:
    """A database file and its threads; entering opens it, leaving closes everything."""

    def __init__(self, path: Path, settings: Settings | None = None, *, backend: str = "sqlite") -> None:
        self.path = path
        self.settings = settings or Settings()
        self._backend = backend
        self._store: Store | None = None
        # The one that was used last comes first: its pages and statements are those that are asked for again.
        self._idle: deque[apsw.Connection] = deque()

    async def __aenter__(self) -> Self:
        self._writing = ThreadPoolExecutor(1, "memspine-sqlite-writer")
        self._reading = ThreadPoolExecutor(self.settings.readers, "memspine-sqlite-reader")
        self._lasting = ThreadPoolExecutor(1, "memspine-sqlite-maintenance")
        opening = self._writing.submit(self._open)
        try:
            self._store = await asyncio.wrap_future(opening)
        finally:
            if self._store is None:
                await asyncio.to_thread(self._abandon, opening)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        store, self._store = self._store, None
        if store is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._close, store)

    def store(self, backend: str) -> Store:
        """What is known of the open database. Raises ClosedError, and BackendError in a forked process."""
        store = self._store
        if store is None:
            raise ClosedError(backend)
        if store.process != os.getpid():
            raise BackendError(
                backend,
                f"{self.path} was opened by process {store.process}, and this is a fork of it; "
                "open the store anew in each process",
            )
        return store

    # ── from an event loop ──

    async def write(
        self, operation: Operation[T], *, backend: str, ids: Sequence[str] = (), is_background: bool = False
    ) -> T:
        """The result of an operation in a write transaction: all of it is stored when this returns.

        `ids` are what an error names when nobody can know whether they were stored. Work in the background gives way
        to other processes: nobody waits for it, and it is done another time.
        """
        seconds = _BACKGROUND_WAIT_SECONDS if is_background else self.settings.busy_timeout_seconds
        work = partial(self._write, self.store(backend), operation, backend=backend, ids=ids, seconds=seconds)
        return await asyncio.get_running_loop().run_in_executor(self._writing, work)

    async def read(self, operation: Operation[T], *, backend: str) -> T:
        """The result of an operation on one consistent state of the database."""
        store = self.store(backend)
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._read, store, operation, backend)

    async def maintain(self, work: Callable[[], T], *, backend: str) -> T:
        """The result of something that takes long; one at a time."""
        self.store(backend)
        return await asyncio.get_running_loop().run_in_executor(self._lasting, self._translated, work, backend)

    # ── from the maintenance thread ──

    def write_and_wait(self, operation: Operation[T], *, backend: str) -> T:
        """What `write` does, for a thread without an event loop."""
        work = partial(self._write, self.store(backend), operation, backend=backend, ids=())
        return self._writing.submit(work, seconds=self.settings.busy_timeout_seconds).result()

    # ── in the threads ──

    def _open(self) -> Store:
        with translated(self._backend, self.path):
            make_private_file(self.path)
            check_header(self.path, backend=self._backend, known=self.settings.steps[-1].version)
            remote = remote_type(self.path)
            connection = connect(self.path, self.settings)
            opened: Store | None = None
            try:
                opened = self._prepared(connection, remote)
            finally:
                if opened is None:
                    connection.close()
            return opened

    def _prepared(self, connection: apsw.Connection, remote: str | None) -> Store:
        migration = Migration(connection, self.path, self.settings, backend=self._backend)
        migration.check()
        journal: Journal = "DELETE" if remote else "WAL"
        make_writer(connection, self.settings, journal=journal)
        format = migration.run()
        if erasing.is_unfinished(connection):
            erasing.erase_bytes(self.path, self.settings)
        return Store(
            writer=connection,
            tokens=Tokens(bytes.fromhex(schema.meta(connection, "secret") or "")),
            id=schema.meta(connection, "store") or "",
            format=format,
            journal=journal,
            remote=remote,
            process=os.getpid(),
        )

    def _abandon(self, opening: Future[Store]) -> None:
        """Clean up after an opening that failed, or that nobody waits for any more."""
        self._writing.shutdown(wait=True)
        if not opening.cancelled() and opening.exception() is None:
            opening.result().writer.close()

    def _close(self, store: Store) -> None:
        for pool in (self._lasting, self._reading, self._writing):
            pool.shutdown(wait=True)
        with translated(self._backend, self.path):
            while self._idle:
                self._idle.pop().close()
            store.writer.close()

    def _write(self, store: Store, operation: Operation[T], *, backend: str, ids: Sequence[str], seconds: float) -> T:
        connection = store.writer
        with translated(backend, self.path):
            connection.set_busy_timeout(int(seconds * 1000))
            begin(connection, seconds=seconds)
            try:
                result = operation(self._transaction(store, connection, backend))
                self._commit(connection, backend=backend, ids=ids)
            finally:
                roll_back(connection)
        return result

    def _commit(self, connection: apsw.Connection, *, backend: str, ids: Sequence[str]) -> None:
        try:
            commit(connection, seconds=self.settings.busy_timeout_seconds)
        except apsw.IOError as error:
            raise commit_failure(error, backend=backend, path=self.path, ids=ids) from error

    def _read(self, store: Store, operation: Operation[T], backend: str) -> T:
        with translated(backend, self.path):
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = connect_reader(self.path, self.settings)
            try:
                with reading(connection):
                    return operation(self._transaction(store, connection, backend))
            finally:
                self._idle.append(connection)

    def _transaction(self, store: Store, connection: apsw.Connection, backend: str) -> Transaction:
        check_format(connection, store.format, self.path, backend=backend)
        return Transaction(connection=connection, backend=backend, tokens=store.tokens)

    def _translated(self, work: Callable[[], T], backend: str) -> T:
        with translated(backend, self.path):
            return work()
