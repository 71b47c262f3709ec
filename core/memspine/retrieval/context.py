"""Pure scores of candidates by words: their own, and those of what was said around them.

An answer rarely repeats the question: what was said a moment before and after belongs to a memory of a conversation as
much as its own words. So a memory is scored as if it also held its neighbours' words, with less weight the further away
they are and the longer the neighbour is. Nothing of this is stored; it is made from what the index tells of the
candidates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from memspine.model import KeywordMatch, Neighbour

REACH: Final = 2
"""How many neighbours before and after lend their words."""
LENT: Final[Sequence[float]] = (0.4, 0.3)
"""What the words of a neighbour count, of the nearest and of the second."""
ASKED: Final = 2.0
"""The words of a question that was put just before count so many times as much: its answer takes them for granted."""
NEIGHBOUR_LENGTH: Final = 40.0
"""The words of a neighbour of more terms than this count less, in proportion: it says many other things."""
DAMPING_LENGTH: Final = 40.0
"""So many terms damp as much again as 1 would; half of `memspine.ranking.DAMPING_LENGTH`, because a memory has more to
show for a question when its neighbours lend it their words."""

NAMED: Final = 0.5
"""What it adds that the question names who said it."""
ASKS: Final = 0.2
"""What it costs a memory that it asks, and does not answer, unless it is so long that it does more than that."""
ASKS_LENGTH: Final = 30.0
SESSION: Final = 0.1
"""What its session adds: this share of the mean of the session's best."""
SESSION_BEST: Final = 3


Place = int
"""Where a memory stands in the list of those that are known; -1 is none."""


@attrs.frozen
class Lines:
    """For each memory, by its place, who stands before and who after it, as far as it is known."""

    before: Sequence[Place]
    after: Sequence[Place]

    @classmethod
    def of(cls, matches: Sequence[KeywordMatch], neighbours: Iterable[Neighbour]) -> Lines:
        """From what an index told of some memories' surroundings, of each in one piece. Without a session nothing was
        said before or after."""
        places = {(match.owner, match.id): place for place, match in enumerate(matches)}
        around: dict[Place, list[tuple[int, Place]]] = {}
        for neighbour in neighbours:
            middle = places[neighbour.of]
            if matches[middle].session:
                place = places[neighbour.of[0], neighbour.id]
                around.setdefault(middle, [(0, middle)]).append((neighbour.offset, place))
        before, after = [-1] * len(matches), [-1] * len(matches)
        for line in around.values():
            line.sort()
            for (_, one), (_, other) in itertools.pairwise(line):
                after[one], before[other] = other, one
        return cls(before, after)

    def with_neighbours(self, places: Iterable[Place]) -> list[Place]:
        """These and those that stand next to them, each once."""
        found: dict[Place, None] = dict.fromkeys(places)
        for place in list(found):
            found[self.before[place]] = found[self.after[place]] = None
        found.pop(-1, None)
        return list(found)


def word_scores(
    matches: Sequence[KeywordMatch], places: Iterable[Place], lines: Lines, *, shares: Sequence[float]
) -> dict[Place, float]:
    """The keyword scores of the memories at these places with the words that their neighbours lend them, 0..1.

    It is the score of `memspine.ranking.KeywordScale` with r the sum of the roots of a term's frequencies, the
    memory's own and those of its neighbours by their weight, and with norm = 1 + length / 40.
    """
    square_root = math.sqrt
    held = [[(term, square_root(n)) for term, n in enumerate(match.frequencies) if n] for match in matches]
    scores: dict[Place, float] = {}
    for place in places:
        roots = dict(held[place])
        for side in (lines.before, lines.after):
            other = side[place]
            for distance in range(REACH):
                if other < 0:
                    break
                if held[other]:
                    weight = _lent(matches[other], distance, is_before=side is lines.before)
                    for term, root in held[other]:
                        roots[term] = roots.get(term, 0.0) + weight * root
                other = side[other]
        norm = 1.0 + matches[place].length / DAMPING_LENGTH
        score = 0.0
        for term, root in roots.items():
            score += shares[term] * root / (root + norm)
        scores[place] = score
    return scores


def conversation_scores(scores: dict[Place, float], matches: Sequence[KeywordMatch]) -> dict[Place, float]:
    """Scores, of which the best candidates have about 1, with what else makes a memory an answer: who said it, whether
    it asks itself, and how well its session fits."""
    found: dict[Place, float] = {}
    sessions: dict[tuple[str, str], list[float]] = {}
    for place, score in scores.items():
        match = matches[place]
        total = score + NAMED if match.speaker else score
        if match.asks:
            total -= ASKS * min(1.0, ASKS_LENGTH / max(match.length, 1))
        found[place] = total
        if match.session:
            sessions.setdefault((match.owner, match.session), []).append(max(total, 0.0))
    fitting = {
        session: SESSION * sum(sorted(best, reverse=True)[:SESSION_BEST]) / SESSION_BEST
        for session, best in sessions.items()
    }
    return {
        place: score + fitting.get((matches[place].owner, matches[place].session), 0.0)
        for place, score in found.items()
    }


def _lent(match: KeywordMatch, distance: int, *, is_before: bool) -> float:
    """What the words of a neighbour count, which stands next to a memory (0) or behind that one (1)."""
    weight = LENT[distance]
    if match.length > NEIGHBOUR_LENGTH:
        weight *= NEIGHBOUR_LENGTH / match.length
    if match.asks and distance == 0 and is_before:
        weight *= ASKED
    return weight
