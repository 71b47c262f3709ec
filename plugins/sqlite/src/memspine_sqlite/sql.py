"""Running one statement. The values of a row are what its columns were declared as, which no type checker can know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw


def rows(connection: apsw.Connection, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows that a statement gives."""
    return connection.execute(statement, values).fetchall()


def first(connection: apsw.Connection, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    """The first row, None when there is none."""
    return connection.execute(statement, values).fetchone()


def value(connection: apsw.Connection, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
    """The first column of the first row, None when there is none."""
    found = connection.execute(statement, values).fetchone()
    return None if found is None else found[0]
