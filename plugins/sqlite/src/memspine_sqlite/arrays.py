"""Posting lists as arrays of numpy. Every number is computed as `memspine.ranking` does it: no score differs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Self

import attrs
import numpy as np
import numpy.typing as npt

from memspine.model import KeywordStatistics
from memspine.ranking import CODE_LENGTHS, DAMPING, DAMPING_LENGTH, KeywordScale, RankedDocuments

_NORMS = np.array([DAMPING + length / DAMPING_LENGTH for length in CODE_LENGTHS])
# Scores lie in one array from the first row to the last one, if that is not much longer than the lists together.
_SPREAD_MAX = 32
_SPREAD_ROWS = 1 << 14

Numbers = npt.NDArray[Any]


@attrs.frozen
class ArrayPostings:
    """Posting lists as pairs of arrays: the documents, rising, and how often each holds the term."""

    lists: Sequence[tuple[Numbers, Numbers]]

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]], *, dead: Collection[int]) -> Self:
        """The lists of terms, from those of each owner as JSON texts."""
        gone = np.array(list(dead), np.int64)
        return cls([_posting(list(map(_parsed, alike)), gone) for alike in texts])

    @property
    def document_frequencies(self) -> tuple[int, ...]:
        """How many documents hold each term."""
        return tuple([len(documents) for documents, _ in self.lists])

    @property
    def documents(self) -> Collection[int]:
        """All of them."""
        found: list[int] = self._together().tolist()
        return found

    def within(self, allowed: Collection[int]) -> Self:
        """Those of some documents."""
        wanted = np.array(list(allowed), np.int64)
        kept = [(documents, counts, np.isin(documents, wanted)) for documents, counts in self.lists]
        return type(self)([(documents[mask], counts[mask]) for documents, counts, mask in kept])

    def best(self, statistics: KeywordStatistics, *, limit: int) -> RankedDocuments:
        """The best of them."""
        held = [documents for documents, _ in self.lists if len(documents)]
        if not held:
            return RankedDocuments((), 0)
        first = min(int(documents[0]) for documents in held) >> 8
        rows = (max(int(documents[-1]) for documents in held) >> 8) - first + 1
        if rows <= max(_SPREAD_MAX * sum(map(len, held)), _SPREAD_ROWS):
            known, places = np.zeros(rows, np.int64), [(documents >> 8) - first for documents, _ in self.lists]
            for (documents, _), place in zip(self.lists, places, strict=True):
                known[place] = documents
        else:
            known = self._together()
            places = [np.searchsorted(known, documents) for documents, _ in self.lists]
        scores = np.zeros(len(known))
        for share, (documents, counts), place in zip(
            KeywordScale.of(statistics).shares, self.lists, places, strict=True
        ):
            # In the order of the terms, one addition each: a sum in another order would be another number.
            roots = np.sqrt(counts)
            scores[place] += share * (roots / (roots + _NORMS[documents & 0xFF]))
        there = np.flatnonzero(known)
        return _best(scores[there], known[there], limit=limit)

    def frequencies(self, documents: Sequence[int]) -> Iterable[tuple[int, ...]]:
        """How often each document holds each term."""
        asked = np.array(documents, np.int64)
        table = np.zeros((len(asked), len(self.lists)), np.int64)
        for place, (known, counts) in enumerate(self.lists):
            if len(known):
                found = np.minimum(np.searchsorted(known, asked), len(known) - 1)
                table[:, place] = counts[found] * (known[found] == asked)
        return map(tuple, table.tolist())

    def _together(self) -> Numbers:
        return np.unique(np.concatenate([documents for documents, _ in self.lists] or [np.empty(0, np.int64)]))


def _parsed(text: str) -> Numbers:
    # Without its brackets, a list of whole numbers is read several times as fast as JSON.
    return np.fromstring(text[1:-1], np.int64, sep=",") if len(text) > len("[]") else np.empty(0, np.int64)


def _posting(parts: Sequence[Numbers], gone: Numbers) -> tuple[Numbers, Numbers]:
    """Documents that may come several times, as those of each part do side by side."""
    every = parts[0] if len(parts) == 1 else np.sort(np.concatenate([np.empty(0, np.int64), *parts]))
    if len(gone):
        every = every[~np.isin(every, gone)]
    starts = np.flatnonzero(np.diff(every, prepend=-1))
    return every[starts], np.diff(starts, append=len(every))


def _best(scores: Numbers, documents: Numbers, *, limit: int) -> RankedDocuments:
    """The best of these, and all that tie with the last of them."""
    matched = len(documents)
    if limit <= 0:
        return RankedDocuments((), matched)
    if matched > limit:
        chosen = scores >= np.partition(scores, matched - limit)[matched - limit]
        scores, documents = scores[chosen], documents[chosen]
    best = sorted(zip(scores.tolist(), documents.tolist(), strict=True), reverse=True)
    return RankedDocuments(tuple(best), matched)
