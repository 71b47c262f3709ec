"""The tables of a keyword index: the backend's own, or those that a space of terms keeps for another backend.

Both are asked in the same way, so they have columns of the same names.
"""

from __future__ import annotations

from typing import Any, Final

import apsw
import attrs

from memspine_sqlite import sql


@attrs.frozen(kw_only=True)
class Tables:
    """Where a keyword index lies.

    `documents` has a row for each document of the index `keywords`, whose posting lists `vocabulary` reads, `speakers`
    counts who said them, and `owners` how many documents an owner has. `statistics` asks for the number, the documents
    and the total length of an owner by name and by `values`.
    """

    documents: str
    keywords: str
    vocabulary: str
    speakers: str
    owners: str
    statistics: str
    values: tuple[Any, ...] = ()

    def owner(self, connection: apsw.Connection, name: str) -> tuple[int, int, int] | None:
        """Number, documents and total length of an owner; None when nothing of him was ever indexed."""
        found = sql.first(connection, self.statistics, (name, *self.values))
        return None if found is None else (found[0], found[1], found[2])


MEMORIES: Final = Tables(
    documents="memories",
    keywords="keywords",
    vocabulary="vocabulary",
    speakers="speakers",
    owners="owners",
    statistics="SELECT number, documents, total_length FROM owners WHERE name = ?",
)
"""The index of the memories in the same file."""

KEPT: Final = Tables(
    documents="kept_documents",
    keywords="kept_keywords",
    vocabulary="kept_vocabulary",
    speakers="kept_speakers",
    owners="kept_owners",
    statistics=(
        "SELECT k.number, k.documents, k.total_length FROM kept_owners AS k JOIN owners AS o ON o.number = k.owner "
        "WHERE o.name = ? AND k.space = ?"
    ),
)
"""The index of memories that are elsewhere, of all spaces; `kept` is that of one."""


def kept(space: int) -> Tables:
    """The index of one space of terms."""
    return attrs.evolve(KEPT, values=(space,))
