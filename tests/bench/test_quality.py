"""How well questions find their memories, as `memspine bench retrieval` measures it."""

import pytest

from memspine_bench import SETTINGS, evaluate, read_data

from .corpus import NO_DATA, SHARED, conversations
from .goals import KINDS, MEASURES, MINILM, MODELS
from .models import minilm
from .table import SHOWN, Quality

SESSIONS = {"short": ("S_any@5", "S_all@10"), "long": ("S_all@10",)}


@pytest.mark.parametrize("kind", KINDS)
def test_quality(bench, evaluation, minilm_model, without_shared, *, kind):
    """Every setting finds what it should, with each model, and fusing loses little against the better leg."""
    if evaluation is None or conversations(kind) is None:
        rows = [f"{row}-{model}-{kind}" for row in ("hybrid", "sessions", "legs") for model in MODELS]
        bench.missing(f"quality-{kind}", *rows, reason=NO_DATA)
        without_shared(NO_DATA)
    folder, reason = minilm_model
    report = evaluate(
        read_data(SHARED / "data" / f"conversations-{kind}.json"),
        settings=list(SETTINGS),
        sources=[model for model in MODELS if folder or model != MINILM],
        overrides=[{"embedding": {MINILM: minilm(folder)[MINILM]}}] if folder else [],
    )
    assert not report.left_out, report.left_out
    bench.quality[kind] = quality(report)
    bench.profile[f"quality {kind}"] = {
        row.label: {"p50": round(row.p50_ms, 1), "indexed/s": round(row.indexed_per_second), "notes": row.notes}
        for row in report.rows
    } | {"seconds": round(report.machine.seconds)}
    keyword = percents(report.row("keyword"), MEASURES)
    bench.record(f"quality-{kind}", measured=keyword, baseline=baselines(evaluation, conversations(kind)))
    for model in MODELS:
        if model == MINILM and not folder:
            bench.missing(*(f"{row}-{model}-{kind}" for row in ("hybrid", "sessions", "legs")), reason=reason)
        else:
            record(bench, report, kind, model)


def record(bench, report, kind, model):
    """The rows of one model, each beside its two legs."""
    hybrid = report.row("hybrid", model)
    legs = {"words": report.row("keyword"), "meaning": report.row("vectors", model)}
    for name, measures in (("hybrid", MEASURES), ("sessions", SESSIONS[kind])):
        beside = " · ".join(f"{leg} {shown(percents(row, measures))}" for leg, row in legs.items())
        bench.record(f"{name}-{model}-{kind}", measured=percents(hybrid, measures), baseline=beside)
    (comparison,) = [one for one in report.comparisons if one.label == hybrid.label]
    worst = min(comparison.differences, key=lambda difference: difference.points)
    bench.record(
        f"legs-{model}-{kind}",
        measured=worst.points,
        baseline=f"{worst.measure}: words {worst.keyword:.1f} · meaning {worst.vectors:.1f}",
    )


def quality(report):
    """The report as a part of the table."""
    names = [name.replace("NDCG", "ndcg") for name in SHOWN]
    any10 = report.row("keyword").scores.figures["any@10"]
    return Quality(
        rows={label(row): tuple(row.scores.percent(name) for name in names) for row in report.rows},
        questions=report.data.questions,
        error=any10.error,
    )


def label(row):
    """How the table calls a row."""
    called = {MINILM: "onnx, MiniLM"}.get(row.source, row.source)
    return f"{row.setting} ({called})" if row.source else row.setting


def percents(row, measures):
    return tuple(round(row.scores.percent(name), 1) for name in measures)


def shown(values):
    return " / ".join(f"{value:.1f}" for value in values)


def baselines(evaluation, chosen):
    """What SQLite's own ranking comes to."""
    return " · ".join(
        f"{name} {shown(baseline(evaluation, chosen, stop=stop))}"
        for name, stop in (("FTS5 bm25, OR", False), ("without stop words", True))
    )


def baseline(evaluation, chosen, *, stop):
    """The measures of a baseline, whose databases are in memory and are closed with it."""
    made = []

    def make():
        made.append(evaluation.Fts(stop=stop))
        return made[-1]

    result = evaluation.evaluate(chosen, make)
    for system in made:
        system.db.close()
    return tuple(result["all"][name] for name in MEASURES)
