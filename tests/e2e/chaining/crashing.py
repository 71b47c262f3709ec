"""What ends a process in the middle: before and after every call of a store, and every commit of the journal."""

from __future__ import annotations

import functools
import os
import signal
import sqlite3

import attrs

from memspine_http.backend import HttpBackend
from memspine_sqlite.backend import SQLiteBackend

CALLS = (
    "create", "create_many", "update", "delete", "get", "get_many", "put", "changes", "tombstones", "list", "history",
)  # fmt: skip


@attrs.define
class Fuse:
    """Ends the process, as `kill -9` does, at the point of a number."""

    limit: int
    points: int = 0

    def burn(self):
        """Come to the next point."""
        self.points += 1
        if self.points == self.limit:
            os.kill(os.getpid(), signal.SIGKILL)

    def lay(self):
        """Put the points into this process."""
        for backend in (HttpBackend, SQLiteBackend):
            for name in CALLS:
                setattr(backend, name, self._around(getattr(backend, name)))
        sqlite3.connect = functools.partial(sqlite3.connect, factory=self._connection())

    def _around(self, call):
        @functools.wraps(call)
        async def counted(*arguments, **named):
            self.burn()
            result = await call(*arguments, **named)
            self.burn()
            return result

        return counted

    def _connection(self):
        fuse = self

        class Connection(sqlite3.Connection):
            def __exit__(self, *error):
                fuse.burn()
                result = super().__exit__(*error)
                fuse.burn()
                return result

            def execute(self, statement, *values):
                if statement != "COMMIT":
                    return super().execute(statement, *values)
                fuse.burn()
                result = super().execute(statement)
                fuse.burn()
                return result

        return Connection
