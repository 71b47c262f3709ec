"""A report as text for a person, as Markdown for a README, and as data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from memspine_bench.metrics import OWN, Figure, Scores
from memspine_bench.report import Difference, Report, Row, Tuned

_NAMES: Final = {"mrr": "MRR", "ndcg@10": "NDCG@10"}
_OF_SESSIONS: Final = tuple(f"S_{name}" for name in OWN)
_IN_CATEGORIES: Final = ("any@5", "any@10", "all@10", "ndcg@10", "S_any@5", "S_all@10")
_IN_MARKDOWN: Final = ("any@1", "any@5", "any@10", "all@5", "all@10", "mrr", "ndcg@10", "S_any@5", "S_all@10")
Cells = Sequence[str]


def text(report: Report) -> str:
    """Everything, for a terminal."""
    blocks = [
        _lines(_facts(report)),
        _lines(_constants(report)),
        _block(
            "Memories, percent ± standard error", ["", *map(_named, OWN)], [_cells(row, OWN) for row in report.rows]
        ),
        _block("Sessions", ["", *map(_named, _OF_SESSIONS)], [_cells(row, _OF_SESSIONS) for row in report.rows]),
        _block("Speed", ["", "p50 ms", "p95 ms", "memories indexed/s"], map(_speed, report.rows)),
    ]
    blocks += (
        _block(f"{row.label}, by category", ["", "n", *map(_named, _IN_CATEGORIES)], _categories(row))
        for row in report.rows
        if row.asked_for
    )
    blocks += (
        _lines([f"{one.label} beside its legs:", *(f"  {_said(d)}" for d in one.differences)])
        for one in report.comparisons
    )
    blocks += (
        _lines([_table(["", *map(_named, (*OWN, "S_any@5", "S_all@10"))], _tuned(one)), *_folds(one)])
        for one in report.tuned
    )
    if notes := list(_notes(report)):
        blocks.append(_lines(["Notes:", *(f"  {note}" for note in notes)]))
    return "\n\n".join(blocks)


def markdown(report: Report) -> str:
    """The figures as tables, and below what they were taken with."""
    head = ["", *map(_named, _IN_MARKDOWN), "p50 ms", "p95 ms", "indexed/s"]
    rows = [[*_plain(row.label, row.scores, _IN_MARKDOWN), *_speed(row)[1:]] for row in report.rows]
    parts = [_markdown_table(head, rows)]
    if report.comparisons:
        compared = [
            [one.label, _named(d.measure), *map(_percent, (d.fused, d.keyword, d.vectors)), f"{_points(d):+.1f}"]
            for one in report.comparisons
            for d in one.differences
        ]
        parts.append(_markdown_table(["", "measure", "fused", "words", "meaning", "points over the better"], compared))
    for one in report.tuned:
        parts.append(_markdown_table(["", *map(_named, _IN_MARKDOWN)], _tuned(one, _IN_MARKDOWN, plain=True)))
        parts.append("\n".join(f"- {line.strip()}" for line in _folds(one)))
    below = [*_facts(report), *_constants(report), *_notes(report)]
    return "\n\n".join([*parts, "\n".join(f"- {_clean(line.strip())}" for line in below)])


def data(report: Report) -> dict[str, Any]:
    """Everything as JSON: percentages and points with one decimal."""
    return {
        "data": attrs.asdict(report.data),
        "machine": attrs.asdict(report.machine),
        "rows": [_row_data(row) for row in report.rows],
        "comparisons": [
            {"row": one.label, "measures": [_difference_data(d) for d in one.differences]} for one in report.comparisons
        ],
        "tuned": [_tuned_data(one) for one in report.tuned],
        "leftOut": list(report.left_out),
        "notes": list(report.notes),
    }


# ── parts ──


def _facts(report: Report) -> Iterator[str]:
    facts, machine = report.data, report.machine
    counted = ((facts.conversations, "conversation"), (facts.memories, "memory"), (facts.questions, "question"))
    what = ", ".join(_many(count, noun) for count, noun in counted)
    yield f"data: {facts.name or 'given by a program'}, {what}"
    if facts.sha256:
        yield f"SHA-256: {facts.sha256}"
    for limit in facts.limits:
        yield f"a quick look: {limit}"
    if facts.without_gold:
        yield f"questions without gold ids, left out: {facts.without_gold}"
    if facts.cut:
        yield f"texts that were longer than a memory may be, and were cut: {facts.cut}"
    yield f"versions: {', '.join(f'{name} {version}' for name, version in machine.versions.items())}"
    yield f"machine: {machine.cpu_count} CPUs, {machine.python}, {machine.platform}"
    yield f"time: {machine.started_at}, {machine.seconds:.1f} s"


def _constants(report: Report) -> Iterator[str]:
    """What all rows have in common, then what each has of its own."""
    common = dict(report.rows[0].constants)
    for row in report.rows:
        common = {key: value for key, value in common.items() if key in row.constants and row.constants[key] == value}
    if common:
        yield f"settings: {_pairs(common)}"
    for row in report.rows:
        own = {key: value for key, value in row.constants.items() if key not in common}
        parts = [_pairs(own)] if own else []
        if row.identity is not None:
            one = row.identity
            window = one.window_tokens or "no"
            parts.append(f"model {one.model}, revision {one.revision}, {one.dimension} numbers, {window} token window")
        yield "; ".join([f"{row.label}: stores {row.stores}", *parts])


def _notes(report: Report) -> Iterator[str]:
    yield from (f"not measured: {text}" for text in report.left_out)
    yield from report.notes
    yield from (f"{row.label}: {note}" for row in report.rows for note in row.notes)


def _categories(row: Row) -> Iterator[Cells]:
    for name, scores in row.categories.items():
        yield name, str(scores.questions), *(_figure(scores.figures[measure]) for measure in _IN_CATEGORIES)


def _tuned(one: Tuned, measures: Sequence[str] = (*OWN, "S_any@5", "S_all@10"), *, plain: bool = False) -> list[Cells]:
    rows = (
        (f"{one.label}, as configured", one.configured),
        ("tuned, held out", one.held_out),
        ("tuned on all, so optimistic", one.best),
    )
    return [_plain(name, scores, measures) if plain else _with_errors(name, scores, measures) for name, scores in rows]


def _folds(one: Tuned) -> Iterator[str]:
    if not one.makes_a_difference:
        yield "no value makes a difference to any question"
    yield f"best on all: {_pairs(one.best_values)}"
    for fold in one.folds:
        yield f"  without {fold.conversation}: {_pairs(fold.values)} ({fold.objective:.1f} on the others)"


def _said(difference: Difference) -> str:
    points = _points(difference)
    how = "as high as" if not points else f"{abs(points):.1f} points {'lower' if points < 0 else 'higher'} than"
    legs = f"keyword {difference.keyword:.1f}, vectors {difference.vectors:.1f}"
    return (
        f"{_named(difference.measure)} {difference.fused:.1f} is {how} the better leg, {difference.better_leg} ({legs})"
    )


def _points(difference: Difference) -> float:
    """Rounded, and never a negative zero."""
    return round(difference.points, 1) or 0.0


# ── tables ──


def _cells(row: Row, measures: Iterable[str]) -> Cells:
    return _with_errors(row.label, row.scores, measures)


def _with_errors(name: str, scores: Scores, measures: Iterable[str]) -> Cells:
    return [name, *(_figure(scores.figures[measure]) for measure in measures)]


def _plain(name: str, scores: Scores, measures: Iterable[str]) -> Cells:
    return [name, *(_percent(scores.percent(measure)) for measure in measures)]


def _speed(row: Row) -> Cells:
    return [row.label, f"{row.p50_ms:.1f}", f"{row.p95_ms:.1f}", f"{row.indexed_per_second:.0f}"]


def _figure(figure: Figure) -> str:
    return f"{figure.percent:.1f}" if figure.error is None else f"{figure.percent:.1f} ±{figure.error:.1f}"


def _percent(value: float) -> str:
    return f"{value:.1f}"


def _named(measure: str) -> str:
    of_sessions = measure.startswith("S_")
    own = measure.removeprefix("S_")
    return f"{'S_' if of_sessions else ''}{_NAMES.get(own, own)}"


def _block(title: str, head: Cells, rows: Iterable[Cells]) -> str:
    return f"{_clean(title)}\n{_table(head, rows)}"


def _table(head: Cells, rows: Iterable[Cells]) -> str:
    """Columns under their heads, the first to the left and all others to the right."""
    cells = [[_clean(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in cells
    )


def _markdown_table(head: Cells, rows: Iterable[Cells]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    bar = r"\|"
    return "\n".join(f"| {' | '.join(_clean(cell).replace('|', bar) for cell in line)} |" for line in lines)


def _lines(lines: Iterable[str]) -> str:
    return "\n".join("\n".join(map(_clean, line.split("\n"))) for line in lines)


def _many(count: int, noun: str) -> str:
    several = f"{noun.removesuffix('y')}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {noun if count == 1 else several}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False, default=str)}" for key, value in values.items())


def _clean(cell: str) -> str:
    """Names come from a file: none of them is a command to the terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in cell)


# ── data ──


def _scores_data(scores: Scores) -> dict[str, Any]:
    figures = scores.figures.items()
    return {
        "questions": scores.questions,
        "percent": {name: round(figure.percent, 1) for name, figure in figures},
        "standardError": {name: None if figure.error is None else round(figure.error, 1) for name, figure in figures},
    }


def _row_data(row: Row) -> dict[str, Any]:
    return {
        "row": row.label,
        "setting": row.setting,
        "source": row.source,
        "askedFor": row.asked_for,
        "constants": dict(row.constants),
        "embedding": None if row.identity is None else attrs.asdict(row.identity),
        "stores": row.stores,
        "all": _scores_data(row.scores),
        "byCategory": {name: _scores_data(scores) for name, scores in row.categories.items()},
        "searchP50Ms": round(row.p50_ms, 2),
        "searchP95Ms": round(row.p95_ms, 2),
        "indexedPerSecond": round(row.indexed_per_second),
        "notes": list(row.notes),
    }


def _difference_data(difference: Difference) -> dict[str, Any]:
    return {
        "measure": difference.measure,
        "fused": round(difference.fused, 1),
        "keyword": round(difference.keyword, 1),
        "vectors": round(difference.vectors, 1),
        "betterLeg": difference.better_leg,
        "points": _points(difference),
    }


def _tuned_data(one: Tuned) -> dict[str, Any]:
    return {
        "row": one.label,
        "configured": _scores_data(one.configured),
        "heldOut": _scores_data(one.held_out),
        "best": _scores_data(one.best),
        "bestValues": dict(one.best_values),
        "makesADifference": one.makes_a_difference,
        "folds": [
            {"conversation": fold.conversation, "values": dict(fold.values), "objective": round(fold.objective, 1)}
            for fold in one.folds
        ],
    }
