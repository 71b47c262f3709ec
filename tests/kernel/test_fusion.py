"""Ranking of candidates: what makes one order of words, meaning and context."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine.contracts import VectorHit
from memspine.model import KeywordMatch, KeywordMatches, KeywordStatistics, MemoryRef, Neighbour
from memspine.ranking import KeywordScale
from memspine.retrieval import RankingRules
from memspine.retrieval.context import ASKED, ASKS, LENT, NAMED
from memspine.retrieval.fusion import LATER_CHUNK, SPREAD, Candidates, rank

START = datetime(2026, 1, 1, tzinfo=UTC)


def match(number, *frequencies, length=10, session="s", speaker=(), asks=False):
    return KeywordMatch(
        id=f"m{number:02}",
        owner="me",
        session=session,
        created_at=START + timedelta(minutes=number),
        length=length,
        frequencies=frequencies,
        speaker=speaker,
        asks=asks,
    )


def ref(number):
    return MemoryRef("me", f"m{number:02}")


def hit(number, score, *, chunk=0):
    return VectorHit(id=f"m{number:02}", owner="me", chunk=chunk, revision=1, score=score)


def beside(number, *, reach=2, last):
    """All neighbours of a memory in a session of the numbers 0..last."""
    return [
        Neighbour(of=ref(number), id=f"m{number + offset:02}", offset=offset)
        for offset in range(-reach, reach + 1)
        if offset and 0 <= number + offset <= last
    ]


def answer(matches, others=(), neighbours=(), *, frequencies=(1, 1)):
    statistics = KeywordStatistics(documents=10, total_length=100, document_frequencies=frequencies)
    return KeywordMatches(tuple(matches), statistics, len(matches), tuple(others), tuple(neighbours))


def order(keyword, *, hits=(), best=(), **rules):
    given_rules = RankingRules(**rules)
    candidates = Candidates.of(keyword, best=best, has_context=given_rules.context)
    ranked, count = rank(candidates, hits={ref(int(one.id[1:])): one for one in hits}, rules=given_rules)
    assert count == len(ranked)
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    return {int(one.ref.id[1:]): one for one in ranked}


def test_alone_it_is_the_keyword_score():
    """Without context and vectors, `weighted` gives the plain keyword score, and `scaled` its share of the best one."""
    keyword = answer([match(1, 1, 1), match(2, 1, 0)])
    scale = KeywordScale.of(keyword.statistics)
    plain = {n: scale.score(m) for n, m in ((1, keyword.matches[0]), (2, keyword.matches[1]))}
    assert {n: one.score for n, one in order(keyword, context=False, method="weighted").items()} == plain
    scaled = order(keyword, context=False)
    assert scaled[2].score == pytest.approx(plain[2] / plain[1])
    assert scaled[1].score == 1


def test_neighbours_lend_their_words():
    """A memory between two that match is found although it holds no word itself; one that stands apart is not."""
    keyword = answer([match(1, 1, 0)], [match(0, 0, 0), match(2, 0, 0), match(3, 0, 0)], beside(1, last=3))
    found = order(keyword)
    assert set(found) == {0, 1, 2}
    assert found[0].keyword_rank == 0
    assert found[1].score > found[0].score


def test_only_what_stands_next_is_a_candidate():
    """The second neighbour lends its words to its fellow and is no candidate itself."""
    keyword = answer([match(2, 1, 0)], [match(0, 0, 1), match(1, 0, 0), match(3, 0, 0)], beside(2, last=3))
    found = order(keyword)
    assert set(found) == {1, 2, 3}
    assert found[1].score > found[3].score  # beside the second one, which holds the other word


def test_without_a_session_nothing_was_said_before():
    """Memories without a session have no context."""
    keyword = answer([match(1, 1, 0, session="")], [match(0, 0, 0, session="")], beside(1, last=1))
    assert set(order(keyword)) == {1}


def test_the_words_of_a_question_count_double_for_its_answer():
    """What follows a question that matches is above what precedes it, and above what follows a statement."""

    def after(asks):
        return order(answer([match(1, 1, 0, asks=asks)], [match(0, 0, 0), match(2, 0, 0)], beside(1, last=2)))

    assert after(True)[2].score > after(True)[0].score
    assert after(False)[2].score == pytest.approx(after(False)[0].score)
    assert ASKED > 1


def test_a_long_neighbour_lends_less():
    """The words of a neighbour count in proportion to its length."""

    def lent(length):
        keyword = answer([match(1, 1, 0, length=length)], [match(0, 0, 0)], beside(1, last=1))
        return order(keyword, method="weighted")[0].score

    assert lent(10) == lent(40) > lent(80) > lent(800)


def test_who_is_named_said_it_and_who_asks_does_not_answer():
    """Of memories with the same words the one whose speaker is named comes first, the one that asks last."""
    keyword = answer([match(1, 1, 1), match(2, 1, 1, speaker=(0,)), match(3, 1, 1, asks=True)])
    found = order(keyword)
    assert list(found) == [2, 1, 3]
    assert found[2].score - found[1].score == pytest.approx(NAMED)
    assert found[1].score - found[3].score == pytest.approx(ASKS)


def test_cosines_are_put_on_the_scale_of_words():
    """The cosine adds what it is above the mean of the candidates, in standard deviations."""
    keyword = answer([match(1, 1, 1), match(2, 1, 1)])
    found = order(keyword, hits=[hit(1, 0.2), hit(2, 0.6)], best=[ref(2), ref(1)], context=False, vector_weight=0.5)
    assert list(found) == [2, 1]
    assert found[2].score == pytest.approx(1 + SPREAD)
    assert found[1].score == pytest.approx(1 - SPREAD)
    assert (found[2].vector_rank, found[1].vector_rank) == (1, 2)


def test_the_weight_decides_between_words_and_meaning():
    """With all the weight on one leg its order alone counts."""
    keyword = answer([match(1, 1, 1), match(2, 1, 0)])
    hits = [hit(1, 0.1), hit(2, 0.9)]
    assert list(order(keyword, hits=hits, context=False, vector_weight=0.0)) == [1, 2]
    assert list(order(keyword, hits=hits, context=False, vector_weight=1.0)) == [2, 1]
    assert list(order(keyword, hits=hits, context=False, vector_weight=1.0, method="weighted")) == [2, 1]


def test_a_later_chunk_counts_less():
    """Of two memories that are as near, the one that is near with its beginning comes first."""
    keyword = answer([match(1, 1, 0), match(2, 1, 0)])
    found = order(keyword, hits=[hit(1, 0.5, chunk=3), hit(2, 0.5)], context=False)
    assert list(found) == [2, 1]
    found = order(keyword, hits=[hit(1, 0.5 + 2 * LATER_CHUNK, chunk=3), hit(2, 0.5)], context=False)
    assert list(found) == [1, 2]


def test_reciprocal_ranks_are_summed():
    """With `rrf` a memory has 1 / (k + rank) of each leg that found it."""
    keyword = answer([match(1, 1, 1), match(2, 1, 0)])
    found = order(keyword, hits=[hit(2, 0.9), hit(1, 0.1)], best=[ref(2), ref(1)], method="rrf", context=False)
    assert {n: one.score for n, one in found.items()} == {1: 1 / 61 + 1 / 62, 2: 1 / 62 + 1 / 61}


def expected_words(matches, number, keyword):
    """The contextual keyword score of one memory of a session 0..n, written down as the decision record says it."""
    shares = KeywordScale.of(keyword.statistics).shares
    roots = [math.sqrt(n) for n in matches[number].frequencies]
    for offset in (-2, -1, 1, 2):
        if 0 <= number + offset < len(matches):
            other = matches[number + offset]
            weight = LENT[abs(offset) - 1] * min(1.0, 40 / max(other.length, 1))
            weight *= ASKED if offset == -1 and other.asks else 1.0
            roots = [root + weight * math.sqrt(n) for root, n in zip(roots, other.frequencies, strict=True)]
    norm = 1 + matches[number].length / 40
    return sum(share * root / (root + norm) for share, root in zip(shares, roots, strict=True))


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 120), st.booleans()), min_size=1, max_size=7
    )
)
def test_it_is_what_the_decision_record_says(turns):
    """For any session of which everything is known, the scores are those of the formula."""
    turns = [match(n, one, two, length=length, asks=asks) for n, (one, two, length, asks) in enumerate(turns)]
    neighbours = [one for n in range(len(turns)) for one in beside(n, last=len(turns) - 1)]
    matched = [turn for turn in turns if any(turn.frequencies)]
    keyword = answer(matched, [turn for turn in turns if not any(turn.frequencies)], neighbours)
    found = order(keyword, method="weighted")
    for number in range(len(turns)):
        expected = expected_words(turns, number, keyword)
        if number in found:
            assert found[number].score == pytest.approx(expected)
