"""One outage of each kind at each step of a life, and what was promised holds all the same."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest

from memspine.conformance.clauses import clause
from memspine.errors import BackendUnavailable, JournalError
from memspine.ids import keyed_id

from .book import Book
from .journals import made
from .worlds import ALL, PLAIN, Killed

KEYED = keyed_id("me", "k")


async def deliver(memory, book):
    try:
        report = await memory.maintain(["deliver"])
    except JournalError:
        return
    if report.complete and report.troubles:
        book.faults.append(f"complete, and yet {report.troubles}")


async def reconcile(memory, book):
    with suppress(BackendUnavailable, JournalError):
        await memory.reconcile("team")


STEPS = [
    lambda memory, book: book.write("a", "walnut one", memory.create("walnut one", id="a")),
    lambda memory, book: book.write(KEYED, "walnut key", memory.create("walnut key", key="k")),
    lambda memory, book: book.write("b", "walnut two", memory.create("walnut two", id="b")),
    deliver,
    lambda memory, book: book.get(memory, "a"),
    lambda memory, book: book.write("a", "walnut three", memory.update("a", content="walnut three")),
    lambda memory, book: book.write("b", None, memory.delete("b")),
    lambda memory, book: book.get(memory, "b"),
    lambda memory, book: book.see(memory.list()),
    lambda memory, book: book.see(memory.search("walnut", preview=True)),
    lambda memory, book: book.write(KEYED, "walnut again", memory.create("walnut again", key="k")),
    deliver,
    lambda memory, book: book.write("c", "walnut four", memory.create("walnut four", id="c")),
    lambda memory, book: book.write("c", "walnut five", memory.update("c", content="walnut five")),
    lambda memory, book: book.write(KEYED, None, memory.delete(KEYED)),
    deliver,
    reconcile,
    lambda memory, book: book.get(memory, "c"),
    lambda memory, book: book.get(memory, KEYED),
]  # fmt: skip


async def lived(world, book):
    """The steps, in as many processes as it takes."""
    steps = iter(STEPS)
    is_over = False
    while not is_over:
        try:
            async with world.open() as memory:
                for step in steps:
                    await step(memory, book)
            is_over = True
        except Killed:
            continue


async def faults_of(world, store, kind, *, at, lasts):
    """What was not as promised after an outage at the call of this number; None where there is no such call."""
    book = Book(elsewhere={"b": "walnut two"})
    await world.add("archive", "b", "walnut two")
    await world.add("archive", "a", "walnut of eve", owner="eve")
    await world.add("notes", "a", "walnut of eve", owner="eve")
    world[store].plan(kind, at=at, lasts=lasts)
    await lived(world, book)
    if len(world[store].calls) < at:
        return None
    world.up()
    async with world.open() as memory:
        report = await world.quiet(memory)
        if report.troubles:
            book.faults.append(f"troubles that stay: {report.troubles}")
        await book.check(world, memory, ["team"])
    return book.faults


MODES = {"refuse": ALL, "spool": ALL, "refuse without a feed": PLAIN, "spool without a feed": PLAIN}
OUTAGES = [
    *((store, kind, False) for store in ("notes", "team") for kind in ("refused", "lost", "hang", "killed", "done")),
    *((store, kind, True) for store in ("notes", "team") for kind in ("refused", "lost")),
    *(("journal", kind, False) for kind in ("refused", "killed", "done")),
    ("journal", "refused", True),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "outage", OUTAGES, ids=[f"{store} {kind} {'from then on' if lasts else 'once'}" for store, kind, lasts in OUTAGES]
)
@clause("CH-100", "CH-9", "CH-38", "CH-52")
async def test_an_outage_at_every_step(worlds, mode, outage):
    """Whatever fails at whichever call, once or from then on: when all is well again, what was acknowledged is in the
    primary and in every replica, what was deleted is nowhere, and nobody sees what is another's."""
    store, kind, lasts = outage
    found = {}
    for at in itertools.count(1):
        world = worlds(
            primary=MODES[mode],
            fallbacks=("archive",),
            is_quick=True,
            on_write_failure=mode.split()[0],
            deadline_seconds=0.05,
        )
        faults = await faults_of(world, store, kind, at=at, lasts=lasts)
        if faults is None:
            break
        if faults:
            found[at, world[store].calls[at - 1]] = faults
    assert at > 10
    assert [f"call {at}, {name}: {fault}" for (at, name), faults in found.items() for fault in faults] == []


@clause("CH-86")
async def test_a_chain_whose_journal_cannot_be_used(worlds):
    """With a journal of another chain the primary is read and written as ever, all that needs the journal raises, and
    the status tells why."""
    world = worlds()
    await made(world.settings["journal"]["path"])
    async with world.open() as memory:
        await memory.create("one", id="a")
        await memory.update("a", content="two")
        found = await memory.get("a")
        assert found.memory.content == "two"
        assert any("belongs to the chain" in line for line in found.degraded)
        assert len((await memory.search("two")).hits) == 1
        for call in (
            memory.delete("a"),
            memory.maintain(["deliver"]),
            memory.journal_entries(),
            memory.reconcile("team"),
        ):
            with pytest.raises(JournalError, match="belongs to the chain"):
                await call
        assert (await memory.get("a")).memory.content == "two"
        assert any("belongs to the chain" in line for line in (await memory.status()).problems)
