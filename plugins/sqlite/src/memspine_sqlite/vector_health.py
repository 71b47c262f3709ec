"""Whether a vector store works: facts, findings, and on request a check of everything stored. Nothing is changed."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import apsw

from memspine.model import Finding
from memspine_sqlite import health, kept, spaces, sql
from memspine_sqlite.connections import connect_reader
from memspine_sqlite.database import Database, Store
from memspine_sqlite.encoding import code_bytes
from memspine_sqlite.engines import Engines
from memspine_sqlite.transactions import Transaction


def facts(transaction: Transaction, store: Store, path: Path, *, engines: Engines) -> dict[str, str]:
    """Versions and sizes, and what compares vectors."""
    connection = transaction.connection
    chunks, memories = sql.rows(connection, "SELECT coalesce(sum(chunks), 0), coalesce(sum(memories), 0) FROM shelves")[
        0
    ]
    found = health.facts(transaction, store, path)
    del found["memories"]
    has_extension = engines.extension.is_ready(connection)
    has_numpy = engines.numpy.is_there()
    return found | {
        "spaces": str(sql.value(connection, "SELECT count(*) FROM spaces")),
        "memories with vectors": str(memories),
        "vectors": str(chunks),
        "memories with terms": str(sql.value(connection, "SELECT coalesce(sum(documents), 0) FROM kept_owners")),
        "queued": str(sql.value(connection, "SELECT count(*) FROM queue")),
        "compared with": engines.name(connection),
        "sqlite-vec": engines.extension.version if has_extension else engines.extension.problem,
        "numpy": _numpy_version() if has_numpy else engines.numpy.problem,
        "matrices in memory": str(engines.kept_bytes),
    }


def _numpy_version() -> str:
    # Asked of the installation, because importing numpy only to tell its version would take a tenth of a second.
    try:
        return importlib.metadata.version("numpy")
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def findings(engines: Engines) -> tuple[Finding, ...]:
    """What a person should know about how vectors are compared; `facts` has found it out."""
    problems = [
        problem
        for problem, is_wanted in (
            (engines.extension.problem, engines.engine in {"auto", "numpy", "sqlite-vec"}),
            (engines.numpy.problem, engines.engine in {"auto", "numpy"}),
        )
        if problem and is_wanted
    ]
    if not problems:
        return ()
    is_slow = bool(engines.extension.problem) and (bool(engines.numpy.problem) or engines.engine == "sqlite-vec")
    return (
        Finding(
            level="warning" if is_slow else "info",
            text="; ".join(problems) + (": vectors are compared in Python, which is slow" if is_slow else ""),
            advice="pip install 'memspine-sqlite[vectors]'",
        ),
    )


def problems(database: Database) -> list[str]:
    """What a check of everything stored finds wrong."""
    connection = connect_reader(database.path, database.settings)
    try:
        connection.execute("BEGIN")
        found = [f"integrity check: {line}" for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
        return found or _shelf_problems(connection) + _vector_problems(connection) + kept.problems(connection)
    finally:
        connection.close()


def _shelf_problems(connection: apsw.Connection) -> list[str]:
    wrong = sql.value(
        connection,
        "SELECT count(*) FROM shelves AS s LEFT JOIN (SELECT shelf, count(*) AS chunks, sum(first IS NULL) AS memories "
        "FROM vectors GROUP BY shelf) AS c ON c.shelf = s.number "
        "WHERE s.chunks IS NOT c.chunks OR s.memories IS NOT c.memories",
    )
    named = sql.value(connection, "SELECT coalesce(sum(last - first + 1), 0) FROM runs")
    reached = sql.value(
        connection,
        "SELECT count(*) FROM runs AS r JOIN vectors AS v ON v.row BETWEEN r.first AND r.last WHERE v.shelf = r.shelf",
    )
    stored = sql.value(connection, "SELECT count(*) FROM vectors")
    found = [f"{wrong} shelves do not hold as many vectors as they say"] if wrong else []
    if not named == reached == stored:
        found.append(f"the runs name {named} vectors, {reached} of them are there, of {stored} in all")
    return found


def _vector_problems(connection: apsw.Connection) -> list[str]:
    found = []
    for layout in spaces.layouts(connection):
        wrong = sql.value(
            connection,
            "SELECT count(*) FROM shelves AS s JOIN runs AS r ON r.shelf = s.number "
            "JOIN vectors AS v ON v.row BETWEEN r.first AND r.last LEFT JOIN originals AS o ON o.row = v.row "
            f"WHERE s.space = ? AND (length({layout.code}) IS NOT ? OR length({layout.original}) IS NOT ?)",
            (
                layout.number,
                code_bytes(layout.quantisation, layout.dimension),
                code_bytes("none", layout.dimension) if layout.quantisation == "binary" else None,
            ),
        )
        if wrong:
            found.append(f"{wrong} vectors of a space are not of its dimension")
    return found
