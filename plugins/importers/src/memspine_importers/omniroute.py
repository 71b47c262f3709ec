"""OmniRoute: the table `memories` of its SQLite database, which is only read and stays as it is, and so does what is
beside it."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from memspine import times
from memspine.contracts import BadLine, ImportSource, Note, SourceItem
from memspine.model import MemoryType, NewMemory
from memspine_importers.shared import divided, moment, with_source

_MAGIC: Final = b"SQLite format 3\0"
_EXPECTED: Final = "expected the database of OmniRoute, mostly storage.sqlite"
_WAIT_SECONDS: Final = 5.0
_FIELDS: Final = ("id", "owner", "session", "type", "key", "content", "metadata", "created", "expires")
_ROWS: Final = """
    SELECT id, api_key_id, session_id, type, key, content, metadata, created_at, expires_at
    FROM memories ORDER BY created_at DESC, rowid DESC
"""
_ROWS_OF_OLD: Final = """
    SELECT id, apiKeyId, sessionId, type, key, content, metadata, createdAt, expiresAt
    FROM memory ORDER BY createdAt DESC, rowid DESC
"""
# For each table what tells that it is OmniRoute's, and the statement that reads it; the second was the first's name.
_TABLES: Final = {"memories": ("api_key_id", _ROWS), "memory": ("apiKeyId", _ROWS_OF_OLD)}


def recognise(source: ImportSource) -> bool:
    """Whether the file is a SQLite database with OmniRoute's table of memories."""
    if source.path is None or not source.head.startswith(_MAGIC):
        return False
    try:
        with _opened(source.path) as database:
            return bool(_table(database))
    except sqlite3.Error:
        return False


def read(source: ImportSource) -> Iterator[SourceItem]:
    """A memory for each row, the newest first, so that of two with one key the newest has it."""
    if source.path is None or source.is_folder or not source.head.startswith(_MAGIC):
        what = "a folder" if source.is_folder else "standard input" if source.path is None else "no SQLite database"
        yield BadLine(1, f"{what}; {_EXPECTED}")
        return
    number = 0
    try:
        with _opened(source.path) as database:
            table = _table(database)
            if not table:
                yield BadLine(1, f"there is no table of memories in the database; {_EXPECTED}")
                return
            for row in database.execute(_TABLES[table][1]):
                number += 1
                yield from _Row(number, dict(zip(_FIELDS, row, strict=True))).items()
    except sqlite3.Error as error:
        yield BadLine(number + 1, f"after {number} rows the database cannot be read: {error}; {_EXPECTED}, whole")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that changes neither the database nor what is beside it.

    Reading alone may leave files beside a database with a write-ahead log. So one that nobody has open is opened as
    what does not change; one whose last changes are still in a log or a journal that nobody uses is copied with it.
    """
    with contextlib.ExitStack() as stack:
        log, journal, shared = (path.with_name(path.name + end) for end in ("-wal", "-journal", "-shm"))
        has_log, has_journal = _is_filled(log), _is_filled(journal)
        if has_journal or (has_log and not shared.exists()):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memspine-")))
            for file in (path, log, journal):
                if file.exists():
                    shutil.copyfile(file, folder / file.name)
            uri = f"{(folder / path.name).as_uri()}?mode=rw"
        else:
            with path.open("rb") as opened:
                uses_log = opened.read(20)[18:19] == b"\x02"
            uri = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if uses_log and not has_log else ''}"
        database = stack.enter_context(
            contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS, isolation_level=None))
        )
        database.text_factory = bytes  # so that one text that is no UTF-8 spoils its own row alone
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA query_only = ON")
        yield database


def _is_filled(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False


def _table(database: sqlite3.Connection) -> str:
    for table, (column, _) in _TABLES.items():
        rows = database.execute("SELECT name FROM pragma_table_info(?)", (table,))
        if {column.encode(), b"type", b"content", b"key"} <= {name for (name,) in rows}:
            return table
    return ""


@attrs.define
class _Row:
    """One row, its values as SQLite gave them."""

    number: int
    values: Mapping[str, Any]

    def items(self) -> Iterator[SourceItem]:
        """Its memory, and what was left out."""
        where = f"row {self.number}: "
        try:
            text = {name: _text(name, value) for name, value in self.values.items()}
        except ValueError as error:
            yield BadLine(self.number, f"{where}{error}")
            return
        where = f"row {self.number}, {text['id'][:80]}: "
        created, expires = moment(text["created"]), moment(text["expires"])
        if text["type"] not in list(MemoryType) or (text["expires"] and expires is None):
            wrong = f"type {text['type'][:40]!r}, expiry {text['expires'][:40]!r}"
            yield BadLine(self.number, f"{where}{wrong}; expected one of {', '.join(MemoryType)}, and a time or none")
            return
        if expires is not None and expires <= times.now():
            yield Note(self.number, "a memory that has expired was left out, as OmniRoute recalls none")
            return
        if text["created"] and created is None:
            yield Note(self.number, "a time that cannot be read was left out")
        own = _metadata(text["metadata"])
        if own is None:
            yield Note(self.number, "metadata that are no JSON object were left out")
        memory = NewMemory(
            content=text["content"],
            type=MemoryType(text["type"]),
            session=text["session"],
            key=text["key"],
            metadata=with_source("omniroute", text["id"], own or {}),
            created_at=created,
            expires_at=expires,
        )
        if not memory.content.strip():
            yield BadLine(self.number, f"{where}has no content")
        for item in divided(self.number, memory, identity=(text["id"],), where=where):
            yield attrs.evolve(item, owner=text["owner"])


def _text(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is not UTF-8") from error
    return "" if value is None else str(value)


def _metadata(text: str) -> dict[str, Any] | None:
    """The JSON object; None if it is none."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
