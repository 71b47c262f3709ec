"""How well one ranking answers one question, and what many of them come to.

Every measure is between 0 and 1 for a question. `any@k`: one of the gold memories is among the first k. `all@k`: every
one is. `mrr`: one divided by the rank of the first. `ndcg@10`: gains discounted by the logarithm of their rank, divided
by those of a ranking that begins with all gold memories there are. `S_` stands before the same of sessions: they are
ranked by the best of their memories.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

ANY: Final = (1, 5, 10)
ALL: Final = (5, 10)
DEPTH: Final = 10
"""How many ranks NDCG looks at."""
OWN: Final = (*(f"any@{k}" for k in ANY), *(f"all@{k}" for k in ALL), "mrr", f"ndcg@{DEPTH}")
MEASURES: Final = (*OWN, *(f"S_{name}" for name in OWN))
OBJECTIVE: Final = ("any@5", "any@10", "all@10")
"""What a value is chosen by: the mean of these."""
COMPARED: Final = ("any@5", "any@10", "all@10", "ndcg@10", "S_all@10")

Measured = Mapping[str, float]


@attrs.frozen
class Figure:
    """A mean in percent, not rounded, and its standard error in points; no error where there is only one question."""

    percent: float
    error: float | None


@attrs.frozen(kw_only=True)
class Scores:
    """The figures of some questions, by measure."""

    questions: int
    figures: Mapping[str, Figure]

    @classmethod
    def of(cls, measured: Sequence[Measured]) -> Scores:
        """The means over questions, of which there is at least one."""
        return cls(
            questions=len(measured), figures={name: _figure([one[name] for one in measured]) for name in MEASURES}
        )

    def percent(self, measure: str) -> float:
        """The mean of one measure, not rounded."""
        return self.figures[measure].percent


def measure(ranked: Sequence[str], gold: AbstractSet[str]) -> dict[str, float]:
    """The measures of one ranking, whose items are all different, for at least one gold item."""
    ranks = [rank for rank, item in enumerate(ranked, 1) if item in gold]
    found = {k: sum(rank <= k for rank in ranks) for k in {*ANY, *ALL}}
    gain = math.fsum(_discount(rank) for rank in ranks if rank <= DEPTH)
    ideal = math.fsum(_discount(rank) for rank in range(1, min(len(gold), DEPTH) + 1))
    values = [
        *(float(found[k] > 0) for k in ANY),
        *(float(found[k] == len(gold)) for k in ALL),
        1 / ranks[0] if ranks else 0.0,
        gain / ideal,
    ]
    return dict(zip(OWN, values, strict=True))


def measure_both(ranked: Iterable[str], gold: AbstractSet[str], *, sessions: Mapping[str, str]) -> dict[str, float]:
    """The measures of memories and of their sessions. An item that comes again counts where it came first."""
    items = list(dict.fromkeys(ranked))
    of_sessions = measure(list(dict.fromkeys(sessions[item] for item in items)), {sessions[item] for item in gold})
    return measure(items, gold) | {f"S_{name}": value for name, value in of_sessions.items()}


def objective(measured: Iterable[Measured]) -> float:
    """What tuning maximises: the mean of `OBJECTIVE` over the questions, in percent; 0 without any."""
    values = [one[name] for one in measured for name in OBJECTIVE]
    return 100 * statistics.fmean(values) if values else 0.0


def p50(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    """The last of the nineteen values that cut a larger population into twenty parts."""
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 1)


def _figure(values: Sequence[float]) -> Figure:
    error = 100 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Figure(100 * statistics.fmean(values), error)
