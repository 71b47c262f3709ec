"""The SQL that the product runs, recorded as it runs, to be run again on bare apsw."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

Statement = tuple[str, Any]


@contextmanager
def recorded() -> Iterator[dict[int, list[Statement]]]:
    """The statements with their values, by connection, of every connection that is opened inside."""
    seen: dict[int, list[Statement]] = {}

    def watch(connection: apsw.Connection) -> None:
        mine: list[Statement] = []
        seen[len(seen)] = mine

        def trace(cursor: object, sql: str, values: Any) -> bool:
            mine.append((sql.strip(), values))
            return True

        connection.exec_trace = trace

    apsw.connection_hooks.append(watch)
    try:
        yield seen
    finally:
        apsw.connection_hooks.remove(watch)


def writer(seen: dict[int, list[Statement]]) -> list[Statement]:
    """The statements of the connection that writes."""
    (mine,) = [found for found in seen.values() if any(sql.startswith("BEGIN IMMEDIATE") for sql, _ in found)]
    return mine


def transactions(found: Sequence[Statement]) -> list[list[Statement]]:
    """The write transactions, each from its BEGIN to its COMMIT."""
    result: list[list[Statement]] = []
    inside = False
    for sql, values in found:
        if sql.startswith("BEGIN IMMEDIATE"):
            inside = True
            result.append([])
        if inside:
            result[-1].append((sql, values))
        inside = inside and not sql.startswith(("COMMIT", "ROLLBACK"))
    return result


def pragmas(found: Sequence[Statement]) -> list[str]:
    """What a connection was set to before it did anything."""
    settings = [sql for sql, _ in found if sql.startswith("PRAGMA") and "=" in sql]
    assert any("synchronous = FULL" in sql for sql in settings), settings
    assert any("journal_mode = WAL" in sql for sql in settings), settings
    return settings


def bare(path: Path, settings: Sequence[str]) -> apsw.Connection:
    """A connection with nothing but these pragmas."""
    connection = apsw.Connection(str(path))
    for pragma in settings:
        connection.execute(pragma).fetchall()
    return connection


def run(connection: apsw.Connection, found: Sequence[Statement]) -> None:
    """Run recorded statements one by one, and read what they give."""
    for sql, values in found:
        connection.execute(sql, values).fetchall()


def writes(found: Sequence[Statement]) -> list[tuple[str, list[Any]]]:
    """What a transaction writes, all values of one statement together, as executemany takes them."""
    grouped: dict[str, list[Any]] = {}
    for sql, values in found:
        if sql.startswith(("INSERT", "UPDATE", "DELETE", "REPLACE")):
            grouped.setdefault(sql, []).append(values or ())
    return list(grouped.items())
