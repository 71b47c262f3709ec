"""Whether a file of SQLite was written since: told in microseconds, without waiting for anybody."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite3 import Connection

ABSENT = "absent"


class Watch:
    """Watches the file at a path, whoever writes to it: this process or another.

    It is opened and closed by one thread and asked by another. It reads a number that SQLite changes with every commit,
    through a connection of its own, because the file may be touched by SQLite alone: opened and closed by hand, it
    would lose the locks that this process has on it.
    """

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)  # asked at every turn
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def open(self, uri: str, *, file: tuple[int, int]) -> None:
        """Watch the file from now on: `file` is its device and number there. Raises sqlite3.Error."""
        import sqlite3

        connection = sqlite3.connect(
            f"{uri}?mode=ro", uri=True, isolation_level=None, check_same_thread=False, timeout=0
        )
        with self._lock:
            self._connection, self._file = connection, file

    def close(self) -> None:
        """Watch no more."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def version(self) -> object | None:
        """Something that equals what it was before if nobody has written since; None where that cannot be told now,
        as while somebody is committing."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - several times quicker than by a Path
        except FileNotFoundError:
            return ABSENT
        except OSError:
            return None
        with self._lock:
            connection = self._connection
            if connection is None or (found.st_dev, found.st_ino) != self._file:
                return None
            import sqlite3

            try:
                # Numbers of two connections have nothing to do with each other.
                return connection, connection.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:
                return None
