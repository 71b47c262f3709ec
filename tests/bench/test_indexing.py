"""How fast memories get their vectors."""

import statistics

from .goals import number
from .models import SHIPPED, bare_static, minilm, texts
from .stores import Layout, build, indexed
from .timing import milliseconds_of

ROUNDS = 3


def test_indexing_with_the_shipped_model(bench, ten_thousand, workshop):
    """10 000 memories from the store and back into it, beside the model alone."""
    given, model = texts(10_000), bare_static()
    spent, beside = [], []
    for turn in range(ROUNDS):
        path = workshop / f"indexing-{turn}.db"
        spent.append(indexed(ten_thousand, path, embedding=SHIPPED)[1] * 1000)
        path.unlink()
        beside.append(milliseconds_of(lambda: model.embed(given, as_documents=True)))
    record(bench, "indexing-static", 10_000, spent, beside)


def test_indexing_with_minilm(bench, minilm_or_skip, workshop):
    """500 memories from the store and back into it, beside onnxruntime with as many threads."""
    folder, count = minilm_or_skip("indexing-minilm"), 500
    from .bareminilm import BareMiniLM

    store = build(workshop / "indexing-minilm.db", Layout({"me": count}))
    given, model = texts(count), BareMiniLM(folder, threads=2)
    model.run_all(given[:50])
    spent, beside = [], []
    for turn in range(ROUNDS):
        path = workshop / f"indexing-minilm-{turn}.db"
        spent.append(indexed(store, path, embedding=minilm(folder))[1] * 1000)
        beside.append(milliseconds_of(lambda: model.run_all(given)))
    record(bench, "indexing-minilm", count, spent, beside)


def record(bench, row, count, spent, beside):
    measured, alone = (count * 1000 / statistics.median(times) for times in (spent, beside))
    bench.record(row, measured=measured, baseline=f"bare model {number(alone)}/s", ratio=measured / alone)
