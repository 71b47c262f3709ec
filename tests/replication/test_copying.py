"""Copying one store into another, and proving that nothing is missing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspine.contracts import Capability
from memspine.copying import calls, verify
from memspine.model import MemoryChanges, MemoryRef, NewMemory, Scope

from .stores import PLAIN, START, add, copied, held, place, store

OWNERS = ("ann", "bob")


async def past(backend):
    """All states that each memory has had, and the tombstones."""
    ids = [f"m{n}" for n in range(5)]
    scopes = [Scope.of_owner(owner) for owner in OWNERS]
    states = [await backend.history(id, scope=scope) for scope in scopes for id in ids]
    return states, [await backend.tombstones(ids, scope=scope) for scope in scopes]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "update", "delete", "recreate", "copy"]),
        st.sampled_from(OWNERS),
        st.integers(0, 4),
        st.sampled_from(["", "s", "t"]),
    ),
    max_size=30,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_a_copy_is_the_same(steps):
    """Whatever was done to the source before, between and after copies, the last copy leaves both equal: ids,
    revisions, contents, times, telemetry, tombstones and all states."""

    async def run():
        source, target = store(), store()
        now = START
        for step, owner, number, session in steps:
            now += timedelta(seconds=1)
            scope, id = Scope.of_owner(owner), f"m{number}"
            there = await source.get(id, scope=scope, now=now)
            if step == "copy":
                await copied(source, target)
            elif step in ("create", "recreate") and there is None:
                await source.create(NewMemory(content=f"{number}", session=session), scope=scope, id=id, now=now)
            elif step == "update" and there is not None:
                await source.update(id, MemoryChanges(content=f"{now}", session=session), scope=scope, now=now)
            elif step == "delete" and there is not None:
                await source.delete(id, scope=scope, now=now)
        await copied(source, target)
        assert await held(target) == await held(source)
        assert await past(target) == await past(source)
        report = await verify(place(source), place(target))
        assert (report.same, report.different) == (len(await held(source)), 0)

    asyncio.run(run())


def test_all_states_come_along():
    """Where both stores keep history, the target has every state that a memory has had, in order."""

    async def run():
        source, target = store(), store()
        await add(source, "m", "one")
        for n, text in enumerate(("two", "three"), 1):
            now = START + timedelta(days=n)
            await source.update("m", MemoryChanges(content=text), scope=Scope.of_owner("ann"), now=now)
        report = await copied(source, target)
        assert [loss.what for loss in report.losses] == ["vectors"]
        states = await target.history("m", scope=Scope.of_owner("ann"))
        assert [(state.memory.revision, state.memory.content) for state in states] == [
            (1, "one"),
            (2, "two"),
            (3, "three"),
        ]

    asyncio.run(run())


def test_what_is_written_meanwhile_follows(monkeypatch):
    """What is created, changed and deleted in the source while it is copied is in the target when the copy ends."""
    monkeypatch.setattr(calls, "PAGE_ROWS", 2)

    async def run():
        source, target = store(), store()
        for n in range(6):
            await add(source, f"m{n}", f"{n}")
        scope, done = Scope.of_owner("ann"), []
        put = target.put

        async def meanwhile(records, *, scope):
            if not done:
                done.append(1)
                await source.update("m0", MemoryChanges(content="changed"), scope=scope, now=START)
                await source.delete("m1", scope=scope, now=START)
                await add(source, "late", "late")
            return await put(records, scope=scope)

        target.put = meanwhile
        await copied(source, target)
        assert await held(target) == await held(source)
        assert await target.get("m1", scope=scope, now=START) is None

    asyncio.run(run())


def test_a_dry_run_says_what_would_be_done():
    """It counts as the copy does, and writes nothing."""

    async def run():
        source, target = store(), store()
        for n in range(3):
            await add(source, f"m{n}", f"{n}")
        await add(target, "m0", "0")
        await add(target, "m1", "another")
        foreseen = await copied(source, target, is_dry=True)
        assert len(await held(target)) == 2
        assert foreseen == await copied(source, target)
        assert (foreseen.copied, foreseen.unchanged, foreseen.conflicts) == (1, 1, 1)
        assert foreseen.conflicting == (MemoryRef("ann", "m1"),)
        assert (await held(target))[MemoryRef("ann", "m1")].content == "another"

    asyncio.run(run())


def test_a_plain_store_says_what_it_does_not_keep():
    """Into a store without `put` go contents, keys, sessions, metadata and times of creation, once; the report lists
    what does not, and comparing tells other times from another content."""

    async def run():
        source, target = store(), store(without=PLAIN)
        await add(source, "m", "one", key="k", session="s", metadata={"a": 1}, created_at=START - timedelta(days=9))
        await source.update("m", MemoryChanges(content="two"), scope=Scope.of_owner("ann"), now=START)
        report = await copied(source, target)
        assert [loss.what for loss in report.losses] == ["revisions", "history", "telemetry", "vectors"]
        assert (await copied(source, target)).unchanged == 1
        (memory,) = (await held(target)).values()
        original = (await held(source))[MemoryRef("ann", "m")]
        for field in ("id", "content", "key", "session", "metadata", "created_at", "expires_at"):
            assert getattr(memory, field) == getattr(original, field)
        different = await verify(place(source), place(target))
        assert [one.what for one in different.listed] == ["other times"]
        await target.update("m", MemoryChanges(content="three"), scope=Scope.of_owner("ann"), now=START)
        different = await verify(place(source), place(target))
        assert [one.what for one in different.listed] == ["another content"]

    asyncio.run(run())


@pytest.mark.parametrize("owner", OWNERS)
def test_of_one_owner_nothing_else_is_copied(owner):
    """With an owner, the memories of others are neither copied nor compared."""

    async def run():
        source, target = store(), store()
        for one in OWNERS:
            await add(source, "m", one, owner=one)
        await copied(source, target, owner=owner)
        assert list(await held(target)) == [MemoryRef(owner, "m")]
        assert (await verify(place(source), place(target), owner=owner)).different == 0
        report = await verify(place(source), place(target))
        (other,) = set(OWNERS) - {owner}
        assert [(one.ref, one.what) for one in report.listed] == [(MemoryRef(other, "m"), "only in the first")]

    asyncio.run(run())


@pytest.mark.parametrize("plain", [(), (0,), (1,), (0, 1)])
def test_revisions_are_left_out_where_they_are_not_kept(plain):
    """Two stores that hold the same at other revisions differ, unless one of them lacks `put`: then they are the same,
    another content is still found, and the report names each store that keeps none."""

    async def run():
        stores = [store(without=(Capability.PUT,) if number in plain else ()) for number in (0, 1)]
        for backend in stores:
            await add(backend, "m", "Juno eats duck")
            await add(backend, "n", f"of {stores.index(backend)}")
        await stores[1].delete("m", scope=Scope.of_owner("ann"), now=START)
        await add(stores[1], "m", "Juno eats duck")
        report = await verify(*map(place, stores))
        found = {one.ref.id: one.what for one in report.listed}
        assert found == {"n": "another content"} | ({} if plain else {"m": "another revision"})
        assert report.without_revisions == tuple("store" for _ in plain)

    asyncio.run(run())


IDS = st.integers(0, 3).map(lambda n: f"m{n}")
HELD = st.dictionaries(st.tuples(st.sampled_from(OWNERS), IDS), st.tuples(st.integers(0, 2), st.integers(0, 1)))


@given(HELD, HELD)
@settings(max_examples=100, deadline=None)
def test_every_difference_is_found_from_both_sides(mine, others):
    """Two stores are equal exactly when they hold the same revisions of the same memories with the same content."""

    async def run():
        first, second = store(), store()
        for backend, memories in ((first, mine), (second, others)):
            for (owner, id), (day, text) in memories.items():
                await add(backend, id, f"{text}", owner=owner, created_at=START + timedelta(days=day))
        expected = {ref: kind(mine.get(ref), others.get(ref)) for ref in mine.keys() | others.keys()}
        report = await verify(place(first), place(second))
        found = {tuple(one.ref): one.what for one in report.listed}
        assert found == {ref: what for ref, what in expected.items() if what}
        assert (report.same, report.different) == (len(expected) - len(found), len(found))
        assert (await verify(place(second), place(first))).different == report.different

    asyncio.run(run())


def kind(mine, other):
    """How a memory differs, from how it was made."""
    if mine is None or other is None:
        return "only in the second" if mine is None else "only in the first"
    if mine == other:
        return None
    return "other times" if mine[1] == other[1] else "another content"
