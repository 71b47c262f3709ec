"""Brings a database file to the current version, or says why it cannot be used; nothing is lost either way."""

from __future__ import annotations

from pathlib import Path

import apsw
import attrs

from memspine.errors import BackendUnavailable
from memspine.text import ANALYSIS_VERSION
from memspine_sqlite import backups, keywords, schema, speakers, sql
from memspine_sqlite.connections import Settings, immediate, reading, retry_busy
from memspine_sqlite.keywords import Tokens

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100


@attrs.frozen(kw_only=True)
class Format:
    """What this program writes: the version of the tables, and that of the text analysis behind the index."""

    tables: int
    analysis: int = ANALYSIS_VERSION

    @property
    def text(self) -> str:
        """The form that a store keeps of it, and that every transaction compares."""
        return f"{self.tables}/{self.analysis}"

    @classmethod
    def read(cls, connection: apsw.Connection) -> Format:
        """That of a store."""
        tables, _, analysis = (schema.meta(connection, "format") or "0/0").partition("/")
        return cls(tables=int(tables), analysis=int(analysis))


def check_header(path: Path, *, backend: str, known: int) -> None:
    """Refuse a file that is not ours, of a newer version or not writable, before a database is opened on it.

    Opening would already make a log beside a file that is not writable, and the log would stay, not writable either.
    Raises apsw.Error.
    """
    # Through SQLite, because closing a file drops the locks that this process has on it, and SQLite sees to that.
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    file = apsw.VFSFile("", str(path), flags)
    try:
        header = file.xRead(_HEADER_BYTES, 0)
    finally:
        file.xClose()
    if flags[1] & apsw.SQLITE_OPEN_READONLY:
        raise BackendUnavailable(
            backend,
            f"{path}: it cannot be written to",
            advice="make the file and its folder writable for the user that memspine runs as",
        )
    if not header:
        return
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise BackendUnavailable(
            backend, f"{path}: it is no SQLite database", advice="name another file in `path`; this one was not changed"
        )
    _check(path, backend, version=int.from_bytes(header[60:64]), application=int.from_bytes(header[68:72]), known=known)


def _check(path: Path, backend: str, *, version: int, application: int, known: int) -> None:
    # A new database that another process is just making has neither number yet.
    if application not in {0, schema.APPLICATION_ID} or (application == 0 and version != 0):
        raise BackendUnavailable(
            backend,
            f"{path}: it is the database of another program (application id {application})",
            advice="name another file in `path`; this one was not changed",
        )
    if version > known:
        raise BackendUnavailable(
            backend,
            f"{path}: a newer memspine-sqlite wrote it (tables of version {version}; this one knows up to {known})",
            advice="upgrade memspine-sqlite; the file was not changed",
        )


class Migration:
    """Brings the database of one writer connection to the current version."""

    def __init__(self, connection: apsw.Connection, path: Path, settings: Settings, *, backend: str) -> None:
        self._connection = connection
        self._path = path
        self._settings = settings
        self._backend = backend
        self._format = Format(tables=settings.steps[-1].version)

    def check(self) -> None:
        """Refuse a database that is not ours or newer, the log included, before anything is written."""
        self._version()

    def run(self) -> Format:
        """Do what is missing, in one transaction; another process that wants the same waits, then finds it done."""
        while True:
            if self._version() == self._format.tables:
                found = Format.read(self._connection)
                if found == self._format:
                    return self._format
                if found.analysis > self._format.analysis:
                    raise BackendUnavailable(
                        self._backend,
                        f"{self._path}: a newer memspine indexed it (text analysis {found.analysis}; "
                        f"this one has {self._format.analysis})",
                        advice="upgrade memspine",
                    )
            with immediate(self._connection, seconds=self._settings.busy_timeout_seconds):
                self._advance()

    def _version(self) -> int:
        # In one transaction, because another process may be making the store.
        seconds = self._settings.busy_timeout_seconds
        with reading(self._connection):
            return retry_busy(self._checked_version, seconds=seconds)

    def _checked_version(self) -> int:
        version, application, tables = (
            int(sql.value(self._connection, statement))
            for statement in ("PRAGMA user_version", "PRAGMA application_id", "SELECT count(*) FROM sqlite_schema")
        )
        if application == 0 and tables:
            version = version or -1
        if version == schema.WITH_SPEAKERS and not schema.is_whole(self._connection):
            version -= 1
        _check(self._path, self._backend, version=version, application=application, known=self._format.tables)
        return version

    def _advance(self) -> None:
        # Another process may have done it while this one waited for the lock.
        version = self._checked_version()
        if version:
            self._advance_with_backup(version)
        else:
            for step in self._settings.steps:
                step.apply(self._connection)
        self._connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {self._format.tables}")
        schema.set_meta(self._connection, "format", self._format.text)

    def _advance_with_backup(self, version: int) -> None:
        steps = [step for step in self._settings.steps if step.version > version]
        if steps:
            target = backups.before_migration(self._path, self._format.tables)
            backups.copy(self._path, target, self._settings, replace=True)
            for step in steps:
                step.apply(self._connection)
            backups.remember(self._connection, target)
        # The index is derived from the rows: it needs no copy.
        if Format.read(self._connection).analysis < self._format.analysis:
            secret = bytes.fromhex(schema.meta(self._connection, "secret") or "")
            keywords.rebuild(self._connection, Tokens(secret))
            speakers.read_rows(self._connection, Tokens(secret))


def check_format(connection: apsw.Connection, expected: Format, path: Path, *, backend: str) -> None:
    """Refuse to write into a store that another process brought to another version meanwhile."""
    if schema.meta(connection, "format") != expected.text:
        raise BackendUnavailable(
            backend,
            f"{path}: another process brought it to another version",
            advice="restart with the newest memspine and memspine-sqlite",
        )
