"""Ranking: keyword scores, their order, and the fast way to the best of them."""

import itertools
import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine.model import KeywordMatch, KeywordStatistics
from memspine.ranking import (
    CODE_LENGTHS,
    DAMPING,
    DAMPING_LENGTH,
    KeywordScale,
    RankedDocuments,
    best_documents,
    inverse_document_frequency,
    keyword_scores,
    length_code,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def match(*frequencies, length=10, name="m"):
    return KeywordMatch(id=name, owner="o", session="", created_at=NOW, length=length, frequencies=frequencies)


def statistics(*document_frequencies, documents=100):
    return KeywordStatistics(
        documents=documents, total_length=documents * 20, document_frequencies=document_frequencies
    )


@st.composite
def indexes(draw):
    """Memories as (length, frequency of each term), where each holds at least one of the terms."""
    terms = draw(st.integers(1, 5))
    frequencies = st.lists(st.integers(0, 3) | st.integers(0, 2000), min_size=terms, max_size=terms).filter(any)
    return terms, draw(st.lists(st.tuples(st.integers(0, 5000), frequencies), max_size=30))


@given(indexes(), st.integers(0, 40), st.integers(0, 1000))
def test_best_documents_are_those_of_keyword_scores(index, limit, others):
    """An index with posting lists gives the same best memories as scoring each match, with the same scores to the
    bit, and all that tie with the last of them."""
    terms, rows = index
    postings = [
        {n << 8 | length_code(length): f[i] for n, (length, f) in enumerate(rows) if f[i]} for i in range(terms)
    ]
    stats = statistics(*map(len, postings), documents=len(rows) + others)
    matches = [match(*f, length=length, name=f"{n:03}") for n, (length, f) in enumerate(rows)]
    scored = keyword_scores(matches, stats)
    found = [
        (score, f"{document >> 8:03}")
        for score, document in best_documents(postings, statistics=stats, limit=limit).best
    ]
    assert [score for score, _ in found] == sorted((score for score, _ in found), reverse=True)
    wanted = [(score, m.id) for score, m in scored if limit and score >= scored[min(limit, len(scored)) - 1][0]]
    assert sorted(found, key=lambda pair: (-pair[0], pair[1])) == wanted


@given(indexes())
def test_scores_lie_between_0_and_1(index):
    """Every match has a score above 0 and at most 1."""
    terms, rows = index
    stats = statistics(*(sum(1 for _, f in rows if f[i]) for i in range(terms)), documents=len(rows))
    scale = KeywordScale.of(stats)
    for length, frequencies in rows:
        one = match(*frequencies, length=length)
        assert 0 < scale.score(one) <= 1


def test_score_is_the_formula():
    """A score is the sum of idf share times root / (root + 1 + length / 80)."""
    stats = statistics(3, 50)
    weights = [math.log(1 + 97.5 / 3.5), math.log(1 + 50.5 / 50.5)]
    norm = DAMPING + 40 / DAMPING_LENGTH
    score = (weights[0] * 2 / (2 + norm) + weights[1] / (1 + norm)) / sum(weights)
    assert KeywordScale.of(stats).score(match(4, 1, length=40)) == pytest.approx(score)


def test_what_makes_a_score_higher():
    """More occurrences, more words, rarer words and a shorter text each make a score higher."""
    scale = KeywordScale.of(statistics(3, 50))
    assert scale.score(match(2, 0)) > scale.score(match(1, 0)) > scale.score(match(0, 1))
    assert scale.score(match(1, 1)) > scale.score(match(1, 0))
    assert scale.score(match(1, 0, length=10)) > scale.score(match(1, 0, length=400))


def test_a_second_word_counts_more_than_repetition():
    """Two equally rare words once each beat one of them many times."""
    scale = KeywordScale.of(statistics(5, 5))
    assert scale.score(match(1, 1, length=30)) > scale.score(match(5, 0, length=30))


def test_lengths_of_others_do_not_count():
    """How long other memories are makes no difference to a score."""
    few = KeywordStatistics(documents=10, total_length=100, document_frequencies=(3,))
    many = KeywordStatistics(documents=10, total_length=100_000, document_frequencies=(3,))
    assert keyword_scores([match(1)], few) == keyword_scores([match(1)], many)


def test_ties_are_broken_by_id():
    """Equal scores are ordered by id."""
    matches = [match(1, name=name) for name in ("c", "a", "b")]
    assert [m.id for _, m in keyword_scores(matches, statistics(3))] == ["a", "b", "c"]


def test_nothing_asked_nothing_found():
    """No documents, no terms, no limit and terms that nothing holds give no result and no error."""
    assert keyword_scores([], statistics(0, documents=0)) == []
    assert best_documents([], statistics=statistics(), limit=5) == RankedDocuments((), 0)
    assert best_documents([{}], statistics=statistics(0, documents=0), limit=5) == RankedDocuments((), 0)
    assert best_documents([{1 << 8: 1}], statistics=statistics(1), limit=0) == RankedDocuments((), 1)
    assert KeywordScale.of(statistics(0, 3)).shares == (0.0, 1.0)


@given(st.integers(0, 200_000))
def test_length_codes_round_down(length):
    """A length's code fits a byte and stands for the largest coded length that is not above it."""
    code = length_code(length)
    assert 0 <= code <= 255
    assert CODE_LENGTHS[code] <= length
    assert code == 255 or length < CODE_LENGTHS[code + 1]


def test_length_codes_are_exact_for_short_texts():
    """Lengths below 64 are coded exactly, longer ones within 7 %."""
    assert [CODE_LENGTHS[length_code(n)] for n in range(64)] == list(range(64))
    assert all(after <= before * 1.07 for before, after in itertools.pairwise(CODE_LENGTHS[63:]))


@given(st.integers(1, 10_000), st.integers(0, 10_000))
def test_rare_terms_weigh_more(document_frequency, others):
    """The weight of a term is positive, and falls the more memories hold it."""
    documents = document_frequency + others + 1
    weight = inverse_document_frequency(documents=documents, document_frequency=document_frequency)
    more = inverse_document_frequency(documents=documents, document_frequency=document_frequency + 1)
    assert weight > more > 0
