"""What a measurement comes to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from memspine.contracts import EmbeddingIdentity
from memspine_bench.metrics import COMPARED, Measured, Scores, p50, p95
from memspine_bench.running import Outcome, Taken
from memspine_bench.tuning import Choice, Fold, Values


@attrs.frozen(kw_only=True)
class Row:
    """One setting with one source (empty where it uses none).

    `constants` are the effective values that decide about the order of answers. `asked_for` is False for a leg that was
    measured for the comparison only. `notes` say what was missing, and how often.
    """

    setting: str
    source: str
    asked_for: bool
    constants: Mapping[str, Any]
    identity: EmbeddingIdentity | None
    stores: str
    scores: Scores
    categories: Mapping[str, Scores]
    p50_ms: float
    p95_ms: float
    indexed_per_second: float
    notes: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = attrs.field(default=(), repr=False)

    @property
    def label(self) -> str:
        """The setting, and the source behind it."""
        return label(self.setting, self.source)


@attrs.frozen(kw_only=True)
class Difference:
    """One measure of a fused row and of its legs, in percent; `points` is how much higher it is than the better leg."""

    measure: str
    fused: float
    keyword: float
    vectors: float

    @property
    def points(self) -> float:
        """Negative where the better leg alone would have been better."""
        return self.fused - max(self.keyword, self.vectors)

    @property
    def better_leg(self) -> str:
        """The leg that is the better one by this measure."""
        return "keyword" if self.keyword >= self.vectors else "vectors"


@attrs.frozen(kw_only=True)
class Comparison:
    """A fused row beside its two legs."""

    label: str
    differences: tuple[Difference, ...]


@attrs.frozen(kw_only=True)
class Tuned:
    """One row with values chosen from a grid: with those of the configuration, held out, and best on all."""

    setting: str
    source: str
    configured: Scores
    held_out: Scores
    best: Scores
    best_values: Values
    makes_a_difference: bool
    folds: tuple[Fold, ...]

    @property
    def label(self) -> str:
        """The setting, and the source behind it."""
        return label(self.setting, self.source)


@attrs.frozen(kw_only=True)
class DataFacts:
    """What was measured on. `limits` says what was left out because somebody wanted a quick look."""

    name: str
    sha256: str
    conversations: int
    memories: int
    questions: int
    without_gold: int
    cut: int
    limits: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class MachineFacts:
    """What was measured with: versions of memspine and of everything that extends it, and the machine."""

    versions: Mapping[str, str]
    python: str
    platform: str
    cpu_count: int
    started_at: str
    seconds: float


@attrs.frozen(kw_only=True)
class Report:
    """A whole measurement. `left_out` says which settings could not be measured, and why."""

    data: DataFacts
    machine: MachineFacts
    rows: tuple[Row, ...]
    comparisons: tuple[Comparison, ...] = ()
    tuned: tuple[Tuned, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def row(self, setting: str, source: str | None = None) -> Row:
        """The row of a setting, with this source or with any. Raises KeyError."""
        for row in self.rows:
            if row.setting == setting and source in {None, row.source}:
                return row
        raise KeyError(setting)


def label(setting: str, source: str) -> str:
    """How a row is called."""
    return f"{setting} ({source})" if source else setting


def row_of(
    taken: Taken,
    *,
    setting: str,
    source: str,
    asked_for: bool,
    constants: Mapping[str, Any],
    identity: EmbeddingIdentity | None,
    backend: str,
) -> Row:
    """The row of what was taken."""
    outcomes = taken.all
    by_category: defaultdict[str, list[Measured]] = defaultdict(list)
    for outcome in outcomes:
        by_category[outcome.category].append(outcome.measured)
    notes = taken.notes.copy()
    for outcome in outcomes:
        notes.update(f"questions answered without something: {text}" for text in outcome.lacking)
    milliseconds = [outcome.milliseconds for outcome in outcomes]
    return Row(
        setting=setting,
        source=source,
        asked_for=asked_for,
        constants=constants,
        identity=identity,
        stores=" + ".join(filter(None, (backend, taken.vector_store and f"vectors in {taken.vector_store}"))),
        scores=Scores.of([outcome.measured for outcome in outcomes]),
        categories={name: Scores.of(measured) for name, measured in sorted(by_category.items())},
        p50_ms=p50(milliseconds),
        p95_ms=p95(milliseconds),
        indexed_per_second=taken.memories / taken.seconds,
        notes=tuple(f"{count} {text}" for text, count in notes.items()),
        outcomes=tuple(outcomes),
    )


def comparison(fused: Row, *, keyword: Row, vectors: Row) -> Comparison:
    """A fused row beside its legs."""
    return Comparison(
        label=fused.label,
        differences=tuple(
            Difference(
                measure=name,
                fused=fused.scores.percent(name),
                keyword=keyword.scores.percent(name),
                vectors=vectors.scores.percent(name),
            )
            for name in COMPARED
        ),
    )


def tuned_of(row: Row, choice: Choice) -> Tuned:
    """A row beside what tuning makes of it."""
    return Tuned(
        setting=row.setting,
        source=row.source,
        configured=row.scores,
        held_out=Scores.of(choice.held_out),
        best=Scores.of(choice.best),
        best_values=choice.best_values,
        makes_a_difference=choice.makes_a_difference,
        folds=choice.folds,
    )


def measurements(taken: Taken) -> Sequence[Sequence[Measured]]:
    """The measures of each conversation's questions."""
    return [[outcome.measured for outcome in conversation] for conversation in taken.outcomes]
