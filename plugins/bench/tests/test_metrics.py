"""The measures of rankings, and their means."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine_bench.metrics import MEASURES, OWN, Scores, measure, measure_both, objective, p50, p95

ITEMS = "abcdefghijklmnopqrst"


@st.composite
def rankings(draw):
    """A ranking of some items, at least one of which is gold, found or not."""
    ranked = draw(st.lists(st.sampled_from(ITEMS), unique=True))
    return ranked, draw(st.sets(st.sampled_from(ITEMS), min_size=1))


def test_two_gold_items_at_two_and_six():
    """Gold items at the ranks 2 and 6 give what the definitions say, worked out by hand."""
    found = measure(list("-x---y----"), {"x", "y"})
    assert found == {
        "any@1": 0.0,
        "any@5": 1.0,
        "any@10": 1.0,
        "all@5": 0.0,
        "all@10": 1.0,
        "mrr": 0.5,
        "ndcg@10": pytest.approx((1 / math.log2(3) + 1 / math.log2(7)) / (1 + 1 / math.log2(3))),
    }


def test_a_gold_item_that_was_not_found_counts_in_the_ideal():
    """One of two gold items at the first rank is all of `any`, nothing of `all`, and a part of NDCG."""
    found = measure(["x"], {"x", "y"})
    assert (found["any@1"], found["all@10"], found["mrr"]) == (1.0, 0.0, 1.0)
    assert found["ndcg@10"] == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_the_ideal_has_ten_ranks_at_most():
    """Twelve gold items of which ten come first are the ideal."""
    gold = set(ITEMS[:12])
    found = measure(ITEMS[:10], gold)
    assert found["ndcg@10"] == pytest.approx(1.0)
    assert found["all@10"] == 0.0


def test_rank_eleven_counts_for_mrr_alone():
    """What stands behind the tenth rank is in MRR and in nothing else."""
    found = measure([*"0123456789", "x"], {"x"})
    assert found.pop("mrr") == pytest.approx(1 / 11)
    assert set(found.values()) == {0.0}


def test_nothing_found():
    """An empty ranking is zero everywhere."""
    assert set(measure([], {"x"}).values()) == {0.0}


def test_sessions_rank_by_their_best_memory():
    """A session stands where its first memory does, and is gold if one of its memories is."""
    sessions = {"a": "one", "b": "two", "c": "two", "d": "three"}
    found = measure_both(["a", "b", "c", "b"], {"c", "d"}, sessions=sessions)
    assert (found["mrr"], found["S_mrr"]) == (pytest.approx(1 / 3), 0.5)
    assert (found["S_any@1"], found["S_any@5"], found["S_all@10"]) == (0.0, 1.0, 0.0)


@given(rankings())
def test_measures_are_shares(drawn):
    """Every measure is between 0 and 1, whatever the ranking."""
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in measure(*drawn).values())


@given(rankings())
def test_more_ranks_never_find_less(drawn):
    """`any@k` and `all@k` rise with k, and `all` never exceeds `any`."""
    found = measure(*drawn)
    assert found["any@1"] <= found["any@5"] <= found["any@10"]
    assert found["all@5"] <= found["all@10"]
    assert found["all@5"] <= found["any@5"]
    assert found["all@10"] <= found["any@10"]


@given(rankings())
def test_a_gold_item_that_moves_up_lowers_nothing(drawn):
    """To put a gold item first lowers no measure."""
    ranked, gold = drawn
    first = min(gold)
    better = measure([first, *(item for item in ranked if item != first)], gold)
    worse = measure(ranked, gold)
    assert all(better[name] >= worse[name] - 1e-12 for name in OWN)


@given(rankings())
def test_gold_first_is_the_ideal(drawn):
    """A ranking that begins with all gold items has NDCG and MRR of 1."""
    ranked, gold = drawn
    found = measure([*sorted(gold), *(item for item in ranked if item not in gold)], gold)
    assert found["ndcg@10"] == pytest.approx(1.0)
    assert found["mrr"] == 1.0


@given(rankings())
def test_sessions_of_one_memory_are_like_memories(drawn):
    """Where each memory has a session of its own, both halves of the measures are equal."""
    found = measure_both(*drawn, sessions={item: item.upper() for item in ITEMS})
    assert tuple(found) == MEASURES
    assert all(found[name] == found[f"S_{name}"] for name in OWN)


def test_means_and_standard_errors():
    """Means are in percent, and the error is the deviation of a sample over the root of its size."""
    one, other = measure(["x"], {"x"}), measure([], {"x"})
    both = [found | {f"S_{name}": value for name, value in found.items()} for found in (one, one, one, other)]
    scores = Scores.of(both)
    assert scores.questions == 4
    assert scores.figures["any@5"].percent == 75.0
    assert scores.figures["any@5"].error == pytest.approx(100 * math.sqrt(0.75 * 0.25 / 3))
    assert Scores.of(both[:1]).figures["any@5"].error is None


def test_the_objective_is_a_mean_of_three():
    """What tuning maximises is the mean of any@5, any@10 and all@10."""
    assert objective([measure(list("-----x"), {"x"})]) == pytest.approx(200 / 3)
    assert objective([]) == 0.0


def test_percentiles():
    """The median lies between the two in the middle, and one value is its own percentile."""
    assert p50([4.0, 1.0, 2.0, 3.0]) == 2.5
    assert p95([7.0]) == 7.0
    assert p95([float(n) for n in range(1, 40)]) == 38.0
