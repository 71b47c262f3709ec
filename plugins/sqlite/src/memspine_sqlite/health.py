"""Whether a store works: facts, findings, and on request a check of everything stored. Nothing is changed."""

from __future__ import annotations

from pathlib import Path

import apsw

from memspine.model import Finding
from memspine_sqlite import speakers, sql
from memspine_sqlite.connections import connect_reader
from memspine_sqlite.database import Database, Store
from memspine_sqlite.filesystem import is_open_to_others
from memspine_sqlite.transactions import Transaction

_PROBLEMS_SHOWN = 5


def facts(transaction: Transaction, store: Store, path: Path) -> dict[str, str]:
    """Versions and sizes."""
    connection = transaction.connection
    documents = sql.value(connection, "SELECT coalesce(sum(documents), 0) FROM owners")
    log = path.with_name(f"{path.name}-wal")
    return {
        "path": str(path),
        "SQLite": apsw.sqlite_lib_version(),
        "journal mode": store.journal,
        "size": str(path.stat().st_size),
        "log size": str(log.stat().st_size if log.exists() else 0),
        "tables": str(store.format.tables),
        "text analysis": str(store.format.analysis),
        "memories": str(documents),
    }


def findings(store: Store, path: Path) -> tuple[Finding, ...]:
    """What a person should know."""
    found = []
    if store.remote:
        found.append(
            Finding(
                level="warning",
                text=f"the database is on a remote file system ({store.remote}): the write-ahead log is switched off",
                advice="move it to a local disk, where it is faster, and safe with many processes",
            )
        )
    if may_lose_log(apsw.sqlite_lib_version()):
        found.append(
            Finding(
                level="error",
                text=f"SQLite {apsw.sqlite_lib_version()} can lose a transaction when two processes write back the log",
                advice="upgrade apsw to 3.51.3.0 or later",
            )
        )
    if is_open_to_others(path):
        found.append(
            Finding(
                level="warning", text="other users of this machine can read the database", advice=f"chmod 600 {path}"
            )
        )
    return tuple(found)


def may_lose_log(version: str) -> bool:
    """Whether a version of SQLite has the write-ahead log bug: below 3.51.3, but for 3.44.6 and 3.50.7 onwards."""
    numbers = tuple(map(int, version.split(".")[:3]))
    return numbers < (3, 51, 3) and not ((3, 44, 6) <= numbers < (3, 45, 0) or (3, 50, 7) <= numbers < (3, 51, 0))


def problems(database: Database) -> list[str]:
    """What a check of everything stored finds wrong."""
    connection = connect_reader(database.path, database.settings)
    try:
        connection.execute("BEGIN")
        found = [f"integrity check: {line}" for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
        return found or _count_problems(connection)
    finally:
        connection.close()


def _count_problems(connection: apsw.Connection) -> list[str]:
    return _index_problems(connection) + _statistics_problems(connection) + _speaker_problems(connection)


def _index_problems(connection: apsw.Connection) -> list[str]:
    # SQLite's own check includes the structure of the index. This is whether it holds as much as the rows say.
    held, stored = sql.rows(
        connection, "SELECT count(*) FROM vocabulary UNION ALL SELECT coalesce(sum(terms), 0) FROM memories"
    )
    return [] if held == stored else [f"the keyword index holds {held[0]} tokens, the rows have {stored[0]}"]


def _statistics_problems(connection: apsw.Connection) -> list[str]:
    wrong = connection.execute(
        "SELECT name FROM owners LEFT JOIN "
        "(SELECT owner, count(*) AS documents, sum(terms) AS length FROM memories GROUP BY owner) AS counted "
        "ON counted.owner = number "
        "WHERE owners.documents != coalesce(counted.documents, 0) OR total_length != coalesce(counted.length, 0) "
        "LIMIT ?",
        (_PROBLEMS_SHOWN,),
    )
    return [f"statistics of the owner {name!r} do not agree with the rows" for (name,) in wrong]


def _speaker_problems(connection: apsw.Connection) -> list[str]:
    wrong = list(speakers.wrong_owners(connection))[:_PROBLEMS_SHOWN]
    return [f"the counts of speakers of the owner {name!r} do not agree with the rows" for name in wrong]
