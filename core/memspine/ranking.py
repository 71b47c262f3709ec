"""Pure ranking: keyword scores from an owner's own statistics."""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Mapping, Sequence

import attrs

from memspine.model import KeywordMatch, KeywordStatistics

DAMPING: float = 1.0
"""What damps a word even in the shortest memory: the part of BM25's k1 that knows no length, k1 * (1 - b)."""
DAMPING_LENGTH: float = 80.0
"""So many terms of a memory's length damp as much again as 1 would: BM25's k1 * b / mean length, as a constant.

The mean is left out because it is no property of a memory: where long answers stand beside short messages it says
more about the mixture than about either, and with it every memory that is added would move all other scores.
"""


def _code_lengths() -> tuple[int, ...]:
    lengths = list(range(64))
    while len(lengths) < 256:
        lengths.append(math.ceil(lengths[-1] * 1.05))
    return tuple(lengths)


CODE_LENGTHS: tuple[int, ...] = _code_lengths()
"""Length of a memory in terms by its code: exact below 64, then in steps of 5 %."""

_NORMS = tuple(DAMPING + length / DAMPING_LENGTH for length in CODE_LENGTHS)
_ONCE = tuple(1.0 / (1.0 + norm) for norm in _NORMS)  # what most postings come to: the term occurs once


def length_code(length: int) -> int:
    """The code (0..255) of the largest length in `CODE_LENGTHS` that is not above `length`."""
    return length if length < 64 else min(bisect.bisect_right(CODE_LENGTHS, length), 256) - 1


def inverse_document_frequency(*, documents: int, document_frequency: int) -> float:
    """ln(1 + (N - n + 0.5) / (n + 0.5)), the BM25 weight of a term that n of N memories hold (Robertson and Zaragoza,
    2009, with 1 added so that it is never negative)."""
    return math.log(1 + (max(documents - document_frequency, 0) + 0.5) / (document_frequency + 0.5))


@attrs.frozen
class KeywordScale:
    """The weights of one question in one owner's memories.

    A memory's score is the sum over the terms, in their order, of `shares[i] * r / (r + norm)`, where r is the square
    root of how often it holds term i, and norm is 1 + its length / 80: what it has of what a short memory full of
    all the terms would have. 0..1, comparable between questions.

    That is BM25 with its constants in another form (see `DAMPING_LENGTH`) and, as in Lucene's classic similarity, the
    root of the frequency in place of the frequency: words come in bursts, the more so the longer a memory is.
    """

    shares: tuple[float, ...]

    @classmethod
    def of(cls, statistics: KeywordStatistics) -> KeywordScale:
        """The scale for a question whose terms have these statistics. Terms that nothing holds weigh nothing."""
        weights = [
            inverse_document_frequency(documents=statistics.documents, document_frequency=n) if n else 0.0
            for n in statistics.document_frequencies
        ]
        total = math.fsum(weights) or 1.0
        return cls(tuple(weight / total for weight in weights))

    def score(self, match: KeywordMatch) -> float:
        """The score of one match, 0..1."""
        norm = _NORMS[length_code(match.length)]
        total = 0.0  # not sum(), which adds more exactly from Python 3.12 on: `best_documents` has to agree to the bit
        for share, frequency in zip(self.shares, match.frequencies, strict=True):
            if frequency:
                root = math.sqrt(frequency)
                total += share * (root / (root + norm))
        return total


def keyword_scores(matches: Sequence[KeywordMatch], statistics: KeywordStatistics) -> list[tuple[float, KeywordMatch]]:
    """Matches with their scores, best first, ties by id."""
    scale = KeywordScale.of(statistics)
    return sorted(((scale.score(match), match) for match in matches), key=lambda pair: (-pair[0], pair[1].id))


@attrs.frozen
class RankedDocuments:
    """(score, document) of the best documents, best first, and how many were scored in all."""

    best: tuple[tuple[float, int], ...]
    matched: int


def best_documents(
    postings: Sequence[Mapping[int, int]], *, statistics: KeywordStatistics, limit: int
) -> RankedDocuments:
    """The documents with the best keyword scores, for an index that keeps posting lists.

    `postings[i]` maps the documents that hold term i to how often they do. A document is a number whose last 8 bits
    are its length code, so that no length has to be looked up. The result holds the best `limit`, and all that tie
    with the last of them, because ties are broken by id, which the caller knows.
    """
    norms, once, square_root = _NORMS, _ONCE, math.sqrt
    scores: dict[int, float] = {}
    known = scores.get
    for share, posting in zip(KeywordScale.of(statistics).shares, postings, strict=True):
        for document, frequency in posting.items():
            if frequency == 1:
                scores[document] = known(document, 0.0) + share * once[document & 0xFF]
            else:
                root = square_root(frequency)
                scores[document] = known(document, 0.0) + share * (root / (root + norms[document & 0xFF]))
    if limit <= 0:
        return RankedDocuments((), len(scores))
    least = heapq.nlargest(limit, scores.values())[-1] if len(scores) > limit else 0.0
    best = sorted(((score, document) for document, score in scores.items() if score >= least), reverse=True)
    return RankedDocuments(tuple(best), len(scores))
