"""What the shapes have in common when they read an answer: nothing is believed, nothing is filled in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from memspine_remote.shapes import ShapeError


def field(answer: object, name: str) -> object:
    """A field of an object. Raises ShapeError."""
    if not isinstance(answer, Mapping) or name not in answer:
        raise ShapeError(f"no field `{name}`")
    return answer[name]


def listed(answer: object, name: str) -> list[object]:
    """A field that holds an array. Raises ShapeError."""
    value = field(answer, name)
    if not isinstance(value, list):
        raise ShapeError(f"a field `{name}` that is no array")
    return value


def in_order(items: Sequence[object], count: int) -> list[Mapping[str, object]]:
    """Objects in the order of their `index`, or as they are if none has one. Raises ShapeError unless there are as
    many as texts, each with a number of its own: pairing them otherwise gives texts the vectors of others."""
    objects = [item for item in items if isinstance(item, Mapping)]
    if len(objects) != count or len(items) != count:
        raise ShapeError(f"{len(items)} results for {count} texts")
    indexes = [item.get("index") for item in objects]
    if all(index is None for index in indexes):
        return objects
    placed = _placed(indexes, count)
    return [objects[place] for place in placed]


def scores_in_order(items: Sequence[object], count: int) -> list[float]:
    """The `relevance_score` of each text, by the `index` that every result has to have. Raises ShapeError."""
    objects = [item for item in items if isinstance(item, Mapping)]
    if len(objects) != count or len(items) != count:
        raise ShapeError(f"{len(items)} results for {count} texts")
    placed = _placed([item.get("index") for item in objects], count)
    scores = [objects[place].get("relevance_score") for place in placed]
    numbers = [float(score) for score in scores if isinstance(score, (int, float)) and not isinstance(score, bool)]
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ShapeError("a `relevance_score` that is no finite number")
    return numbers


def _placed(indexes: Sequence[object], count: int) -> list[int]:
    """Where the result of each text stands."""
    places = {index: place for place, index in enumerate(indexes) if type(index) is int and 0 <= index < count}
    if len(places) != count:
        raise ShapeError(f"results whose `index` is not each of 0..{count - 1} once")
    return [places[index] for index in range(count)]
