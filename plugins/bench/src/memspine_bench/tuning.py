"""Values chosen without the conversation that they are judged on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from memspine_bench.metrics import Measured, objective

Measurements = Sequence[Sequence[Measured]]
"""What one choice of values came to: for each conversation, the measures of its questions."""
Values = Mapping[str, Any]
"""A choice: the value of each key of the configuration."""


@attrs.frozen(kw_only=True)
class Fold:
    """The values that are best on all conversations but this one; `objective` is what they come to there, in %."""

    conversation: str
    values: Values
    objective: float


@attrs.frozen(kw_only=True)
class Choice:
    """What leaving out one conversation at a time gives: the measures of its questions with the values of its fold, and
    those with the values that are best on all."""

    folds: tuple[Fold, ...]
    held_out: tuple[Measured, ...]
    best_values: Values
    makes_a_difference: bool
    """Whether any two of the values answer any question differently well."""
    best: tuple[Measured, ...]


def leave_one_out(points: Sequence[tuple[Values, Measurements]], *, names: Sequence[str]) -> Choice:
    """The choice for each of at least two conversations. Of values that are equally good, those named first win."""
    folds: list[Fold] = []
    held_out: list[Measured] = []
    for place, name in enumerate(names):
        values, measurements, reached = _best(points, without=place)
        folds.append(Fold(conversation=name, values=values, objective=reached))
        held_out += measurements[place]
    best_values, measurements, _ = _best(points, without=None)
    best = tuple(measured for conversation in measurements for measured in conversation)
    return Choice(
        folds=tuple(folds),
        held_out=tuple(held_out),
        best_values=best_values,
        makes_a_difference=any(point != points[0][1] for _, point in points),
        best=best,
    )


def _best(points: Sequence[tuple[Values, Measurements]], *, without: int | None) -> tuple[Values, Measurements, float]:
    """The best values, and what they come to."""
    reached = [
        objective(
            measured for place, conversation in enumerate(measurements) if place != without for measured in conversation
        )
        for _, measurements in points
    ]
    at = max(range(len(points)), key=lambda number: (reached[number], -number))
    return *points[at], reached[at]
