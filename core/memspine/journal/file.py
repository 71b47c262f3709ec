"""The file of a journal: opened when it is first needed, made when something is first written, checked each time."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from memspine.errors import JournalError
from memspine.journal.schema import APPLICATION_ID, STATEMENTS, VERSION
from memspine.journal.watching import Watch
from memspine.journal.whose import Whose, note_whose, read_whose

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

BUSY_SECONDS: Final = 10.0
"""How long another process may keep the file locked."""
ADVICE: Final = (
    "name another file in `[journal] path`; or if the one is the other, moved or renamed, run `memspine journal adopt`"
)


class Journal:
    """The journal of one chain. All of its work is done by one thread of its own, in the order of the calls.

    `whose` says to which chain it belongs: a file of another one is refused, also when it changed hands while it was
    open. All calls raise JournalError when the file cannot be used.
    """

    def __init__(self, path: Path, *, whose: Whose) -> None:
        self.path = path
        self.whose = whose
        self._thread: ThreadPoolExecutor | None = None
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None
        self._watch = Watch(path)
        self._kept: dict[Callable[[Connection], object], tuple[object, object]] = {}

    def is_there(self) -> bool:
        """Whether there is a file; one in a folder that may not be looked into counts as none."""
        try:
            return self.path.exists()
        except OSError:
            return False

    async def read(self, work: Callable[[Connection], T], *, of_anybody: bool = False) -> T:
        """The result of `work`, which only reads. A journal that was never written is empty, and none is made. With
        `of_anybody` it may be another chain's."""
        return await self._run(lambda: self._read(work, of_anybody=of_anybody))

    async def kept(self, work: Callable[[Connection], T]) -> T:
        """What `read` gives, remembered until anybody writes to the journal: for what is asked at every turn. `work` is
        a function of a module, and its result nothing that changes."""
        version = self._watch.version()
        known = self._kept.get(work)
        if known is not None and version is not None and known[0] == version:
            return cast("T", known[1])
        result = await self.read(work)
        # The version is older than the result: what was written between them is read again, and never missed.
        self._kept[work] = (version, result)
        return result

    async def write(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, in one transaction, which is on the disk when this returns."""
        return await self._run(lambda: self._write(work))

    async def probe(self) -> None:
        """Try whether anything can be written now, and leave the journal as it is; one that is not there is not made.
        Raises JournalError when it cannot."""
        await self._run(self._probe)

    async def adopt(self) -> None:
        """Note that the journal, whosever it was, belongs to this chain from now on."""
        await self._run(lambda: self._write(lambda connection: note_whose(connection, self.whose), of_anybody=True))

    @contextlib.asynccontextmanager
    async def held(self, work: str) -> AsyncIterator[bool]:
        """Keep others from a kind of work while inside; False where another process, or another task, is at it. The
        operating system frees what a dead process held."""
        locking = asyncio.ensure_future(self._run(lambda: self._lock(work)))
        try:
            lock = await asyncio.shield(locking)
        except asyncio.CancelledError:
            locking.add_done_callback(_let_go)  # nobody else would know that it is held
            raise
        try:
            yield lock is not None
        finally:
            if lock is not None:
                await self._run(lock.close)

    async def close(self) -> None:
        """Close the file, after what was asked for is done."""
        if self._thread is None:
            return
        await self._run(self._close)
        self._thread.shutdown()
        self._thread = None

    async def _run(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memspine-journal")
        # Shielded: a caller that gives up does not stop a transaction in its middle, nor lose count of what it did.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))

    def _read(self, work: Callable[[Connection], T], *, of_anybody: bool) -> T:
        with self._translated():
            self._check_file()
            if self._connection is None and not self.path.exists():
                with contextlib.closing(_empty()) as connection:
                    return work(connection)
            connection = self._opened()
            if not of_anybody:
                self._require_ours(connection)
            return work(connection)

    def _write(self, work: Callable[[Connection], T], *, of_anybody: bool = False) -> T:
        with self._translated():
            self._check_file()
            connection = self._opened()
            with connection:  # commits, or rolls back
                connection.execute("BEGIN IMMEDIATE")
                if not of_anybody:
                    self._require_ours(connection)
                return work(connection)

    def _probe(self) -> None:
        with self._translated():
            self._check_file()
            if self._connection is None and not self.path.exists():
                _require_room_for_names(self.path.parent)
                return
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(f"PRAGMA user_version = {VERSION}")  # begins the rollback file, as every write does
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _lock(self, work: str) -> Connection | None:
        """An open exclusive transaction on a file of its own: a lock on every system, and none that outlives us."""
        import sqlite3

        with self._translated():
            _make_folders(self.path.parent)
            name = self.path.with_name(f"{self.path.name}.{work}.lock")
            _make(name)
            connection = sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=0)
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                connection.close()
                if "locked" in str(error):
                    return None
                raise
            return connection

    def _check_file(self) -> None:
        """Leave a file that is not at the path any more: what is written into it would be lost."""
        if self._connection is None:
            return
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._close()
            return
        if (found.st_dev, found.st_ino) != self._file:
            self._close()

    def _opened(self) -> Connection:
        if self._connection is None:
            import sqlite3

            _make_folders(self.path.parent)
            _make(self.path)
            found = self.path.stat()
            _require_usable(self.path, found)
            if stat.S_IMODE(found.st_mode) & 0o077:
                self.path.chmod(0o600)
            uri = f"file:{urllib.parse.quote(str(self.path.absolute()))}"
            connection = sqlite3.connect(
                f"{uri}?mode=rw", uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
            )
            file = (found.st_dev, found.st_ino)
            with contextlib.ExitStack() as stack:
                stack.callback(connection.close)
                self._prepare(connection)
                self._watch.open(uri, file=file)
                stack.pop_all()
            self._connection, self._file = connection, file
        return self._connection

    def _prepare(self, connection: Connection) -> None:
        """Settings of the connection, and the tables of a new file. Raises JournalError for a file of others."""
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        if self._number(connection, "application_id") == 0:
            connection.execute("BEGIN IMMEDIATE")
            if self._number(connection, "application_id") == 0:
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    connection.execute("ROLLBACK")
                    raise self._refused("is a database of something else", "name another file in `[journal] path`")
                for statement in STATEMENTS:
                    connection.execute(statement)
                note_whose(connection, self.whose)
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")
        if self._number(connection, "application_id") != APPLICATION_ID:
            raise self._refused("is a database of something else", "name another file in `[journal] path`")
        if (version := self._number(connection, "user_version")) != VERSION:
            raise self._refused(f"has version {version}, not {VERSION}", "install the memspine that wrote it")
        # Truncating is synced in this mode, so that a commit holds; deleting the rollback file would not be.
        connection.execute("PRAGMA journal_mode = TRUNCATE")

    def _require_ours(self, connection: Connection) -> None:
        found, mine = read_whose(connection), self.whose
        if found != mine:
            reason = f"belongs to the chain of {found.told_from(mine)}, not of {mine.told_from(found)}"
            raise self._refused(reason, ADVICE)

    @staticmethod
    def _number(connection: Connection, pragma: str) -> int:
        return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])

    def _close(self) -> None:
        self._watch.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _refused(self, reason: str, advice: str) -> JournalError:
        return JournalError(str(self.path), reason, advice=advice)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        import sqlite3

        try:
            yield
        except OSError as error:
            reason = f"cannot be opened: {error.strerror or error}"
            raise self._refused(reason, "make it readable and writable, or name another file") from error
        except sqlite3.Error as error:
            self._close()
            if "full" in str(error):
                advice = "make room on the disk and repeat the call"
            elif "locked" in str(error):
                advice = "another process keeps it locked; repeat the call"
            elif "disk I/O" in str(error):
                advice = "look at the disk and the room on it, and repeat the call"
            elif "readonly" in str(error):
                advice = "make it and its folder writable, or name another file"
            else:
                advice = "move it away to begin a new one; `.recover` of the sqlite3 shell shows what it held"
            raise self._refused(str(error), advice) from error


def _make(path: Path) -> None:
    """Make a file for its user alone, unless it is there: then it is left to SQLite, because closing it here would give
    up the locks that this process has on it."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _make_folders(folder: Path) -> None:
    """Make a folder and those above it that are missing, for their user alone: one is the folder of all data, as a
    rule, and parents that are made along the way would be for everyone."""
    for one in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        one.mkdir(mode=0o700, exist_ok=True)


def _require_usable(path: Path, found: os.stat_result) -> None:
    """Raise OSError for what is no file, or may not be read and written."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    if not os.access(path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _require_room_for_names(folder: Path) -> None:
    """Raise OSError where neither a file can be made in a folder, nor the folder itself."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _let_go(locking: asyncio.Future[Connection | None]) -> None:
    if not locking.cancelled() and locking.exception() is None and (lock := locking.result()) is not None:
        lock.close()


def _empty() -> Connection:
    import sqlite3

    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in STATEMENTS:
        connection.execute(statement)
    return connection
