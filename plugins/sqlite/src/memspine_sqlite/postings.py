"""Posting lists of one question: which documents hold its terms, how often, and the best of them.

There are two kinds, which say the same: dictionaries here, and arrays in `arrays` where the lists are long and numpy is
loaded anyway, which is then several times as fast. Importing it for that would cost more than it gives.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, Self

import apsw
import attrs

from memspine.model import KeywordStatistics
from memspine.ranking import RankedDocuments, best_documents
from memspine_sqlite.keywords import documents_text
from memspine_sqlite.tables import MEMORIES

# As JSON, a document takes 7 characters or more.
_SHORT = 12_000


class Postings(Protocol):
    """The posting lists of the terms of a question, in their order. A document is what `keywords.document` gives."""

    @property
    def document_frequencies(self) -> tuple[int, ...]:
        """How many documents hold each term."""
        ...

    @property
    def documents(self) -> Collection[int]:
        """All of them, each once."""
        ...

    def within(self, allowed: Collection[int]) -> Self:
        """Those of some documents alone."""
        ...

    def best(self, statistics: KeywordStatistics, *, limit: int) -> RankedDocuments:
        """What `memspine.ranking.best_documents` gives."""
        ...

    def frequencies(self, documents: Sequence[int]) -> Iterable[tuple[int, ...]]:
        """How often each of some documents holds each of the terms."""
        ...


def read(
    connection: apsw.Connection,
    tokens: Sequence[Sequence[str]],
    *,
    dead: Collection[int],
    vocabulary: str = MEMORIES.vocabulary,
) -> Postings:
    """The posting lists of terms, each of which has a token for every owner, without the dead documents."""
    texts = [[documents_text(connection, token, vocabulary=vocabulary) for token in alike] for alike in tokens]
    if sys.modules.get("numpy") is not None and sum(len(text) for alike in texts for text in alike) > _SHORT:
        from memspine_sqlite import arrays

        return arrays.ArrayPostings.of(texts, dead=dead)
    return DictPostings.of(texts, dead=dead)


@attrs.frozen
class DictPostings:
    """Posting lists as dictionaries: how often by document."""

    lists: Sequence[dict[int, int]]

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]], *, dead: Collection[int]) -> Self:
        """The lists of terms, from those of each owner as JSON texts."""
        lists = []
        for alike in texts:
            posting: dict[int, int] = {}
            for text in alike:
                found = Counter(json.loads(text))
                posting = posting | found if posting else found
            for document in posting.keys() & dead if dead else ():
                del posting[document]
            lists.append(posting)
        return cls(lists)

    @property
    def document_frequencies(self) -> tuple[int, ...]:
        """How many documents hold each term."""
        return tuple(map(len, self.lists))

    @property
    def documents(self) -> Collection[int]:
        """All of them."""
        return set().union(*self.lists)

    def within(self, allowed: Collection[int]) -> Self:
        """Those of some documents."""
        kept = set(allowed)
        return type(self)([{document: found[document] for document in found.keys() & kept} for found in self.lists])

    def best(self, statistics: KeywordStatistics, *, limit: int) -> RankedDocuments:
        """The best of them."""
        return best_documents(self.lists, statistics=statistics, limit=limit)

    def frequencies(self, documents: Sequence[int]) -> Iterable[tuple[int, ...]]:
        """How often each document holds each term; most hold none."""
        asked, none = set(documents), (0,) * len(self.lists)
        held: dict[int, list[int]] = {}
        for place, posting in enumerate(self.lists):
            for document in posting.keys() & asked:
                held.setdefault(document, [*none])[place] = posting[document]
        known = {document: tuple(numbers) for document, numbers in held.items()}
        return [known.get(document, none) for document in documents]
