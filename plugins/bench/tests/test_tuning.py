"""Values are chosen without what they are judged on."""

from memspine_bench.metrics import MEASURES
from memspine_bench.tuning import leave_one_out


def questions(*found):
    """One question for each number: found in every way, or in none."""
    return [dict.fromkeys(MEASURES, float(one)) for one in found]


def test_each_conversation_is_judged_with_values_of_the_others():
    """The value that is best on one conversation alone is not used for it."""
    points = [
        ({"weight": 0.1}, [questions(1, 1, 1), questions(0, 0), questions(0, 1)]),
        ({"weight": 0.9}, [questions(0, 0, 0), questions(1, 1), questions(1, 1)]),
    ]
    choice = leave_one_out(points, names=["a", "b", "c"])
    assert [fold.values["weight"] for fold in choice.folds] == [0.9, 0.1, 0.1]
    assert [round(fold.objective, 1) for fold in choice.folds] == [100.0, 80.0, 60.0]
    assert [one["any@5"] for one in choice.held_out] == [0, 0, 0, 0, 0, 0, 1]
    assert choice.best_values == {"weight": 0.1}
    assert [one["any@5"] for one in choice.best] == [1, 1, 1, 0, 0, 0, 1]
    assert choice.makes_a_difference


def test_of_equal_values_the_first_wins():
    """Where nothing makes a difference, the value that was named first is chosen everywhere."""
    points = [({"k": value}, [questions(1, 0), questions(1)]) for value in (60, 10, 1)]
    choice = leave_one_out(points, names=["a", "b"])
    assert [fold.values for fold in choice.folds] == [{"k": 60}] * 2
    assert choice.best_values == {"k": 60}
    assert not choice.makes_a_difference
