"""How long a question takes that is asked by words and by meaning."""

import asyncio
import statistics

import pytest

from .corpus import questions
from .models import SHIPPED, minilm
from .stores import UNCACHED, indexed, manager
from .timing import milliseconds, milliseconds_of

WARMING = 20


@pytest.mark.parametrize(
    ("size", "store", "step"), [(1_000, "thousand", 2), (10_000, "ten_thousand", 2), (100_000, "hundred_thousand", 6)]
)
def test_hybrid(bench, workshop, request, *, size, store, step):
    """A question through MemoryManager, beside the same by words alone over the same store."""
    path = workshop / f"hybrid-{size}.db"
    _, seconds = indexed(request.getfixturevalue(store), path, embedding=SHIPPED)
    both, words = asyncio.run(compare(path, questions()[::step]))
    path.unlink()
    measured, baseline = statistics.median(both), statistics.median(words)
    bench.record(
        f"hybrid-{size}",
        measured=measured,
        baseline=f"words alone {baseline:.2f} ms",
        ratio=measured / baseline,
    )
    bench.profile[f"hybrid {size}"] = {
        "p95": round(statistics.quantiles(both, n=20)[-1], 2),
        "p95 of words alone": round(statistics.quantiles(words, n=20)[-1], 2),
        "memories/s when indexed": round(size / seconds),
    }


async def compare(path, asked):
    """How long each question takes in a manager that runs for long, its vector made anew, and without its vector."""
    spent, beside = [], []
    both = manager(path, background=True, embedding=SHIPPED | UNCACHED)
    async with both, manager(path, background=True) as words:
        for question in asked[:WARMING]:  # the first fill caches
            await whole(both.search(question))
            await words.search(question)
        for question in asked:
            spent.append(await milliseconds(both.search(question)))
            beside.append(await milliseconds(words.search(question)))
    return spent, beside


async def whole(search):
    """An answer that lacks nothing."""
    result = await search
    assert not result.trace.degraded, result.trace.degraded
    assert {leg.leg for leg in result.trace.legs if leg.status == "ran"} >= {"keyword", "vector"}, result.trace.legs


def test_what_minilm_adds(bench, ten_thousand_minilm, minilm_or_skip):
    """A question whose vector has to be made, less one whose vector is remembered, beside the bare model."""
    folder = minilm_or_skip("minilm-query")
    from .bareminilm import BareMiniLM

    bare = BareMiniLM(folder, threads=1)
    added, alone = asyncio.run(add(ten_thousand_minilm, bare, questions()[::4], embedding=minilm(folder)))
    measured, baseline = statistics.median(added), statistics.median(alone)
    bench.record(
        "minilm-query",
        measured=measured,
        baseline=f"tokenizer and onnxruntime, 1 thread {baseline:.2f} ms",
        ratio=measured / baseline,
    )
    bench.profile["what MiniLM adds"] = {"p95": round(statistics.quantiles(added, n=20)[-1], 2)}


async def add(path, bare, asked, *, embedding):
    """Of each question, what making its vector adds to a search, and what the bare model takes."""
    added, alone = [], []
    fresh = manager(path, background=True, embedding=embedding | UNCACHED)
    async with fresh, manager(path, background=True, embedding=embedding) as known:
        for question in asked:
            await whole(known.search(question))
        for question in asked[:WARMING]:
            await whole(fresh.search(question))
            bare.run([question])
        for question in asked:
            took = await milliseconds(fresh.search(question))
            added.append(took - await milliseconds(known.search(question)))
            alone.append(milliseconds_of(lambda question=question: bare.run([question])))
    return added, alone
