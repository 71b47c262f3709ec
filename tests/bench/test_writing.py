"""What the product adds to the SQL that it runs."""

import asyncio
import gc
import shutil
import statistics

from memspine import times
from memspine.ids import IdSource
from memspine.intake import Intake
from memspine.model import Scope

from .corpus import new_memories
from .goals import number
from .statements import bare, pragmas, recorded, run, transactions, writer, writes
from .stores import backend, manager
from .timing import hop_milliseconds, milliseconds, milliseconds_of

CREATES = 500
BATCHES, BATCH = 50, 1_000


def test_create(bench, workshop, ten_thousand):
    """One create in a store of 10 000, beside the same statements with the same kind of values on bare apsw."""
    product, twin, copy, lean, direct = (
        shutil.copy(ten_thousand, workshop / f"create-{name}.db") for name in ("a", "b", "c", "d", "e")
    )
    memories = list(new_memories(CREATES, start=10_000))
    found = asyncio.run(record(twin, memories))
    sql = transactions(found)
    assert len(sql) == CREATES
    connections = [bare(path, pragmas(found)) for path in (copy, lean)]
    spent, beside, needed = asyncio.run(create(product, memories, connections, sql))
    for connection in connections:
        connection.close()
    measured, baseline = statistics.median(spent), statistics.median(beside)
    bench.record("create", measured=measured, baseline=f"its SQL {baseline:.3f} ms", ratio=measured / baseline)
    store, hop = asyncio.run(create_directly(direct, memories))
    bench.profile["create"] = {
        "p95": round(statistics.quantiles(spent, n=20)[-1], 3),
        "manager and chain": round(measured - store, 3),
        "hop to a thread and back": round(hop, 3),
        "the backend's Python, text analysis included": round(store - hop - baseline, 3),
        "SQL": round(baseline, 3),
        "SQL that writes, alone": round(statistics.median(needed), 3),
        "statements": [" ".join(statement.split()[:4]) for statement, _ in sql[-1]],
    }


async def record(path, work):
    """What the writing connection ran while memories, or batches of them, were stored."""
    with recorded() as seen:
        async with manager(path) as memory:
            for item in work:
                await (memory.create_many(item) if isinstance(item, list) else create_one(memory, item))
    return writer(seen)


def create_one(memory, new):
    """The call that a caller makes."""
    return memory.create(new.content, session=new.session, metadata=new.metadata, created_at=new.created_at)


async def create(path, memories, connections, sql):
    copy, lean = connections
    spent, beside, needed = [], [], []
    async with manager(path) as memory:
        for new, statements in zip(memories, sql, strict=True):
            spent.append(await milliseconds(create_one(memory, new)))
            beside.append(milliseconds_of(lambda statements=statements: run(copy, statements)))
            only = [pair for pair in statements if not pair[0].startswith("SELECT")]
            needed.append(milliseconds_of(lambda only=only: run(lean, only)))
    return spent, beside, needed


async def create_directly(path, memories):
    """The medians of a create by the backend without manager and chain, and of the way into a thread and back."""
    scope, ids, spent = Scope.of_owner("me"), IdSource(), []
    async with backend(path) as store:
        for new in memories:
            now = times.now()
            checked = Intake().memory(new, now=now)
            spent.append(await milliseconds(store.create(checked, scope=scope, id=ids.new(now), now=now)))
    return statistics.median(spent), await hop_milliseconds()


def test_bulk_import(bench, workshop):
    """50 000 memories in batches of 1 000, beside bare executemany of the rows that result, already analysed."""
    batches = [list(new_memories(BATCH, start=n * BATCH)) for n in range(BATCHES)]
    product, twin, copy = (workshop / f"bulk-{name}.db" for name in ("a", "b", "c"))
    for path in (product, twin, copy):
        asyncio.run(empty(path))
    found = asyncio.run(record(twin, batches))
    rows = [writes(statements) for statements in transactions(found)]
    assert len(rows) == BATCHES
    connection = bare(copy, pragmas(found))
    del found
    gc.freeze()  # else the product would pay for walking over a million recorded values again and again
    spent, beside = asyncio.run(bulk(product, batches, connection, rows))
    gc.unfreeze()
    stored = connection.execute("SELECT count(*) FROM memories").fetchone()[0]
    connection.close()
    assert stored == BATCHES * BATCH, "the baseline did not write the same rows"
    # Over all batches: merging the index and writing the log back, which only some of them meet, belong to an import.
    measured, baseline = (BATCHES * BATCH * 1000 / sum(times) for times in (spent, beside))
    bench.record("bulk", measured=measured, baseline=f"{number(baseline)}/s", ratio=measured / baseline)
    medians = [BATCH * 1000 / statistics.median(times) for times in (spent, beside)]
    bench.profile["bulk"] = {
        "memories/s in the median batch, and bare": [round(rate) for rate in medians],
        "ratio of the medians": round(medians[0] / medians[1], 2),
    }


async def empty(path):
    async with manager(path) as memory:
        await memory.count()


async def bulk(path, batches, connection, rows):
    spent, beside = [], []
    async with manager(path) as memory:
        for batch, statements in zip(batches, rows, strict=True):
            spent.append(await milliseconds(memory.create_many(batch)))
            beside.append(milliseconds_of(lambda statements=statements: write(connection, statements)))
    return spent, beside


def write(connection, statements):
    connection.execute("BEGIN IMMEDIATE")
    for sql, values in statements:
        connection.executemany(sql, values)
    connection.execute("COMMIT")
