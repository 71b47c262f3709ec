"""What fallbacks and the journal cost: while all is well, while the primary is away, and when it is back."""

import asyncio
import contextlib
import itertools
import shutil
import sqlite3
import statistics
import time

import pytest

from memspine import MemoryManager
from memspine.journal.schema import STATEMENTS

from .corpus import new_memories
from .goals import number
from .outages import SWITCHED, Outage
from .stores import BACKEND, BATCH, Layout, build
from .timing import milliseconds, milliseconds_of

BLOCKS, CREATES = 4, 600
SPOOLED = 500
GETS, DELETED = 10_000, 20
TRIED_SECONDS = 1.0
OUTAGES = 3
DRAINED = 10_000
WARM = 20
PRAGMAS = ("synchronous = FULL", "secure_delete = ON", "journal_mode = TRUNCATE")  # as the journal is opened
WAITING = (
    "SELECT kind, state, operation, replica, owner, id, body, noted_at, is_tried, error FROM entries ORDER BY number"
)
APPEND = (
    "INSERT INTO entries (kind, state, operation, replica, owner, id, body, noted_at, is_tried, error) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@pytest.fixture
def outage():
    """The switch of the primary."""
    return Outage()


@pytest.fixture
def opened(monkeypatch, outage):
    """Makes a manager over a primary that can be switched, with a replica or without, and a journal beside it."""
    plugins = outage.plugins(monkeypatch)

    def make(primary, *, replica=None, plugin=SWITCHED, background=False, **memory):
        backends = {"first": {"plugin": plugin, "path": str(primary)}}
        if replica is not None:
            backends["second"] = {"plugin": BACKEND, "path": str(replica), "replicate": True}
        document = {
            "memory": {"owner": "me", "primary": "first", "fallbacks": [*backends][1:], **memory},
            "backends": backends,
            "vectors": {"enabled": False},
            "journal": {"path": str(journal_of(primary))},
        }
        return MemoryManager(document, plugins=plugins, background=background)

    return make


def create(memory, new):
    """The call that a caller makes."""
    return memory.create(new.content, session=new.session, metadata=new.metadata, created_at=new.created_at)


# ── all is well ──


def test_create_with_replica(bench, opened, thousand, workshop):
    """Creates of two long-lived managers by turns, one of which delivers them to a replica meanwhile."""
    alone, chained = (shutil.copy(thousand, workshop / f"chain-{name}.db") for name in ("alone", "first"))
    replica = workshop / "chain-second.db"
    without, beside = asyncio.run(by_turns(opened, alone, chained, replica))
    measured, baseline = statistics.median(beside), statistics.median(without)
    bench.record("create-replica", measured=measured, baseline=f"without {baseline:.2f} ms", ratio=measured / baseline)
    bench.profile["create with a replica"] = {
        "p95": round(statistics.quantiles(beside, n=20)[-1], 2),
        "p95 without": round(statistics.quantiles(without, n=20)[-1], 2),
        "mean": round(statistics.mean(beside), 2),
        "mean without": round(statistics.mean(without), 2),
    }


async def by_turns(opened, alone, chained, replica):
    """The times of creates without a replica, and with one."""
    without, beside = [], []
    memories = new_memories(2 * BLOCKS * CREATES + 2 * WARM, start=1_000)
    async with (
        opened(alone, plugin=BACKEND, background=True) as single,
        opened(chained, plugin=BACKEND, replica=replica, background=True) as chain,
    ):
        await chain.maintain(["deliver"])
        for memory in (single, chain):
            for new in itertools.islice(memories, WARM):
                await create(memory, new)
        for _ in range(BLOCKS):
            for memory, spent in ((single, without), (chain, beside)):
                spent += [await milliseconds(create(memory, new)) for new in itertools.islice(memories, CREATES)]
                await delivered(chain)  # so that what is owed does not disturb the other's turn
        (status,) = [one.replica for one in (await chain.status()).backends if one.replica]
        assert (status.stage, status.behind) == ("following", 0), status
    async with opened(replica, plugin=BACKEND) as second:
        assert (await second.count()).total == 1_000 + WARM + BLOCKS * CREATES
    return without, beside


async def delivered(chain):
    """Wait until the background has nothing to do."""
    while not (await chain.maintain(["deliver"])).complete:  # noqa: ASYNC110 - the background tells nobody
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)


# ── the primary is away ──


def test_spooled_create(bench, opened, outage, workshop):
    """Creates that wait for a primary which refuses, each beside a bare commit of the row that it adds to the
    journal."""
    twin, primary = workshop / "spooling-twin.db", workshop / "spooling.db"
    memories = list(new_memories(SPOOLED))
    outage.state = "refused"
    asyncio.run(spool(opened(twin, on_write_failure="spool"), memories))
    with contextlib.closing(sqlite3.connect(journal_of(twin))) as journal:
        rows = journal.execute(WAITING).fetchall()
    assert len(rows) == SPOOLED
    connection = bare(workshop / "spooling-bare.db")
    spent, beside = asyncio.run(spool(opened(primary, on_write_failure="spool"), memories, connection, rows))
    connection.close()
    measured, baseline = statistics.median(spent), statistics.median(beside)
    bench.record("create-spooled", measured=measured, baseline=f"its row {baseline:.2f} ms", ratio=measured / baseline)
    bench.profile["create that waits"] = {"p95": round(statistics.quantiles(spent, n=20)[-1], 2)}


async def spool(manager, memories, connection=None, rows=()):
    """The times of creates that wait, and of committing their rows."""
    spent, beside = [], []
    async with manager as memory:
        for new, row in itertools.zip_longest(memories, rows):
            spent.append(await milliseconds(create(memory, new)))
            if connection is not None:
                beside.append(milliseconds_of(lambda row=row: commit(connection, row)))
        last = (await memory.journal_entries())[-1]
        assert last.number == len(memories), last
    return spent, beside


def bare(path):
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in STATEMENTS:
        connection.execute(statement)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def commit(connection, row):
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(APPEND, row)
    connection.execute("COMMIT")


def journal_of(primary):
    """The file that a chain notes in."""
    return primary.with_suffix(".journal")


def test_get_while_hanging(bench, opened, outage, thousand, workshop):
    """Gets that a replica answers because the primary hangs and is left alone, beside gets of a manager that has
    the replica alone."""
    primary, replica = shutil.copy(thousand, workshop / "hanging.db"), workshop / "answering.db"
    spent, beside = asyncio.run(get_by_turns(opened, outage, primary, replica))
    measured, baseline = (statistics.quantiles(times, n=100)[-1] for times in (spent, beside))
    bench.record(
        "get-hanging", measured=measured, baseline=f"replica alone {baseline:.2f} ms", ratio=measured / baseline
    )
    bench.profile["get while the primary hangs"] = {
        "p50": round(statistics.median(spent), 3),
        "p50 of the replica alone": round(statistics.median(beside), 3),
        "longest": round(max(spent), 1),
    }


async def get_by_turns(opened, outage, primary, replica):
    """The times of gets from a chain whose primary hangs, and from its replica alone."""
    spent, beside = [], []
    # A short deadline, because now and then a get tries the primary again and waits for that long.
    chained = opened(primary, replica=replica, deadline_seconds=TRIED_SECONDS)
    async with chained as chain, opened(replica, plugin=BACKEND) as single:
        await chain.maintain(["deliver"])
        ids = [memory.id for memory in (await chain.list(limit=1_000)).memories]
        for id in ids[:DELETED]:
            await chain.delete(id)
        await chain.maintain(["deliver"])
        outage.state = "hangs"
        while not any("left alone" in reason for reason in (await chain.get(ids[-1])).degraded):
            pass  # each of these waits for the primary
        for id in itertools.islice(itertools.cycle(ids[DELETED:]), GETS):
            beside.append(await milliseconds(single.get(id)))
            spent.append(await milliseconds(chain.get(id)))
        outage.state = "up"
    return spent, beside


def test_first_get(bench, opened, outage, thousand, workshop):
    """The first get after the primary began to hang, which nobody has noticed yet; the longest of some."""
    primary, replica = shutil.copy(thousand, workshop / "first-get.db"), workshop / "first-get-replica.db"
    deadline, spent = asyncio.run(first_gets(opened, outage, primary, replica))
    bench.record(
        "get-first", measured=max(spent), baseline=f"deadline {number(deadline)} ms", ratio=max(spent) / deadline
    )


async def first_gets(opened, outage, primary, replica):
    """The deadline and what first gets took, in milliseconds."""
    spent = []
    for _ in range(OUTAGES):
        outage.state = "up"
        async with opened(primary, replica=replica) as chain:
            await chain.maintain(["deliver"])
            (memory,) = (await chain.list(limit=1)).memories
            await chain.get(memory.id)
            outage.state = "hangs"
            spent.append(await milliseconds(chain.get(memory.id)))
            assert (await chain.get(memory.id)).backend == "second"
            deadline = chain.config.memory.deadline_seconds * 1000
            outage.state = "up"
    return deadline, spent


# ── it is back ──


def test_drain(bench, opened, outage, workshop):
    """10 000 creates that waited for a primary, done when it is back, beside a bulk import of as many."""
    spent = []
    build(workshop / "imported-beside.db", Layout({"me": DRAINED}), spent=spent)
    imported = sum(count for count, _ in spent) / sum(seconds for _, seconds in spent)
    took = asyncio.run(drain(opened(workshop / "drained.db", on_write_failure="spool"), outage))
    measured = DRAINED * 1000 / took
    bench.record("drain", measured=measured, baseline=f"bulk import {imported:,.0f}/s", ratio=measured / imported)


async def drain(manager, outage):
    """How many milliseconds doing all that waits takes."""
    async with manager as memory:
        await memory.count()  # opened: it is the writes that are measured
        outage.state = "refused"
        memories = new_memories(DRAINED)
        while batch := list(itertools.islice(memories, BATCH)):
            for result in await memory.create_many(batch):
                assert result.pending
        outage.state = "up"
        await memory.health()
        began = time.perf_counter()
        report = await memory.maintain(["deliver"])
        took = (time.perf_counter() - began) * 1000
        assert (report.executed, report.complete) == (DRAINED, True), report
        assert (await memory.count()).total == DRAINED
    return took
