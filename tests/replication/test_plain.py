"""Copying into stores that give ids of their own, or take not everything."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspine.copying import whole
from memspine.copying.idmap import IdMap
from memspine.errors import BackendUnavailable, InvalidMemoryError
from memspine.model import MemoryChanges, MemoryRef, Scope

from .stores import PLAIN, START, Minting, Picky, add, copied, held, store, texts

SAID = st.lists(st.tuples(st.sampled_from(["ann", "bob"]), st.sampled_from(["a", "b", "c"])), max_size=8)


@given(SAID, st.integers(0, 8), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_nothing_is_doubled_where_ids_are_minted(said, breaks_after, loses_answer, keeps_map):
    """However often a copy breaks off, with an id map or without, the target has each memory as often as the source in
    the end, and each memory has one id there that no other has."""

    async def run():
        source, target = store(), store(without=PLAIN, kind=Minting)
        for number, (owner, text) in enumerate(said):
            await add(source, f"m{number}", text, owner=owner)
        target.breaks_after, target.loses_answer = breaks_after, loses_answer
        ids = IdMap()
        try:
            report = await copied(source, target, ids=ids)
        except BackendUnavailable:
            target.is_broken = False
            ids = ids if keeps_map else IdMap()
            report = await copied(source, target, ids=ids)
        assert report.copied + report.unchanged == report.renamed == report.total == len(said)
        assert await texts(target) == await texts(source)
        there = await held(target)
        for ref, id in ids:
            assert there[MemoryRef(ref.owner, id)].content == said[int(ref.id[1:])][1]
        assert len(ids) == len({(ref.owner, id) for ref, id in ids}) == len(said)
        again = await copied(source, target)
        assert (again.unchanged, again.copied) == (len(said), 0)

    asyncio.run(run())


def test_a_map_tells_a_changed_memory_from_a_new_one():
    """A memory that changed since it was copied is in conflict where the id map names it, and nothing is doubled."""

    async def run():
        source, target, ids = store(), store(without=PLAIN, kind=Minting), IdMap()
        await add(source, "m", "one")
        await copied(source, target, ids=ids)
        await source.update("m", MemoryChanges(content="two"), scope=Scope.of_owner("ann"), now=START)
        report = await copied(source, target, ids=IdMap(dict(ids)))
        assert report.conflicting == (MemoryRef("ann", "m"),)
        assert await texts(target) == [("ann", "one")]

    asyncio.run(run())


def test_what_a_service_tells_otherwise_is_found_again():
    """A service that tells 1.0 as 1 gets no second memory for it."""

    async def run():
        source, target = store(), store(without=PLAIN, kind=Minting)
        await add(source, "m", "one", metadata={"a": [{"b": 1.0}], "c": 0.5})
        await add(target, "7", "one", metadata={"a": [{"b": 1}], "c": 0.5})
        assert (await copied(source, target)).unchanged == 1

    asyncio.run(run())


def test_another_memory_of_the_same_key_stays():
    """A copy never replaces what has a memory's key in the target, though a create would."""

    async def run():
        source, target = store(), store(without=PLAIN)
        await add(source, "m", "mine", key="k")
        await add(target, "n", "theirs", key="k")
        assert (await copied(source, target)).conflicting == (MemoryRef("ann", "m"),)
        assert await texts(target) == [("ann", "theirs")]

    asyncio.run(run())


def test_equal_memories_keep_their_own_ids():
    """Where ids are kept, a memory that says the same as another one is not taken for it."""

    async def run():
        source, target = store(), store(without=PLAIN)
        await add(source, "a", "same")
        await add(source, "b", "same")
        await add(target, "b", "same")
        report = await copied(source, target)
        assert (report.copied, report.unchanged, report.renamed) == (1, 1, 0)
        assert [ref.id for ref in await held(target)] == ["a", "b"]

    asyncio.run(run())


@pytest.mark.parametrize("kind", [Picky, Minting])
@pytest.mark.parametrize("without", [(), PLAIN])
@given(refused=st.sets(st.integers(0, 11)))
@settings(max_examples=40, deadline=None)
def test_what_is_refused_stops_nothing_else(kind, without, refused):
    """Memories that the target refuses are reported with the reason, and all others are copied, once."""

    async def run():
        source, target = store(), store(without=without, kind=kind)
        for number in range(12):
            await add(source, f"m{number}", f"{'no' if number in refused else 'yes'} {number}")
        report = await copied(source, target)
        assert (report.refused, report.copied) == (len(refused), 12 - len(refused))
        assert {int(one.ref.id[1:]) for one in report.refusals} == refused
        assert all("too long" in one.reason for one in report.refusals)
        assert Counter(await texts(target)) == Counter(one for one in await texts(source) if "yes" in one[1])

    asyncio.run(run())


@pytest.mark.parametrize("without", [(), PLAIN])
def test_a_target_that_is_down_is_no_refusal(without):
    """When the target does not work at all, the copy ends with its error and counts nothing as refused."""

    async def run():
        source, target = store(), store(without=without, kind=Picky)
        await add(source, "m", "yes")
        target.is_down = True
        with pytest.raises(BackendUnavailable, match="too long"):
            await copied(source, target)

    asyncio.run(run())


def test_a_target_that_takes_nothing_any_more_ends_the_copy(monkeypatch):
    """After very many refusals in a row the copy ends with the last one, instead of asking for each memory."""
    monkeypatch.setattr(whole, "REFUSED_IN_A_ROW_MAX", 3)

    async def run():
        source, target = store(), store(kind=Picky)
        for number in range(9):
            await add(source, f"m{number}", f"no {number}")
        with pytest.raises(BackendUnavailable, match="too long"):
            await copied(source, target)

    asyncio.run(run())


def test_a_key_that_was_let_go_is_no_conflict():
    """A memory whose key another one had in the target is copied when that one has let go of it in the source."""

    async def run():
        source, target = store(), store()
        scope = Scope.of_owner("ann")
        await add(source, "late", "one", key="k", created_at=START)
        await copied(source, target)
        await source.update("late", MemoryChanges(key=""), scope=scope, now=START)
        await add(source, "early", "two", key="k", created_at=START - timedelta(days=1))
        report = await copied(source, target)
        assert (report.copied, report.conflicts) == (2, 0)
        assert await held(target) == await held(source)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("lacks", "kind", "lost"),
    [
        ((), None, ["vectors"]),
        (PLAIN, Picky, ["revisions", "history", "telemetry", "vectors"]),
        (PLAIN, Minting, ["ids", "revisions", "history", "telemetry", "vectors"]),
    ],
)
@pytest.mark.parametrize("is_dry", [True, False])
def test_losses_are_exact(lacks, kind, lost, is_dry):
    """The report lists what the pair of stores cannot keep, and nothing else, for a dry run as for a copy."""

    async def run():
        source, target = store(), store(without=lacks, kind=kind or Picky)
        await add(source, "m", "one")
        report = await copied(source, target, is_dry=is_dry)
        assert [loss.what for loss in report.losses] == lost
        details = {loss.what: loss.detail for loss in report.losses}
        assert ("creation" in details.get("revisions", "")) == (kind is Minting)

    asyncio.run(run())


def test_states_whose_key_is_taken_are_told():
    """An earlier state that the target cannot take, because another memory has its key by now, is listed as lost."""

    async def run():
        source, target = store(), store()
        scope = Scope.of_owner("ann")
        await add(source, "late", "one", key="k", created_at=START)
        await source.update("late", MemoryChanges(key="j"), scope=scope, now=START)
        await add(source, "early", "two", key="k", created_at=START - timedelta(days=1))
        report = await copied(source, target)
        assert await held(target) == await held(source)
        assert next(str(loss) for loss in report.losses).startswith("history: earlier states of some memories (1 of")

    asyncio.run(run())


def test_a_state_that_is_refused_costs_no_memory():
    """A memory of which the target refuses an earlier state is copied as it is now, and the state is listed as lost."""

    async def run():
        source, target = store(), store(kind=Picky)
        await add(source, "m", "no")
        await source.update("m", MemoryChanges(content="yes"), scope=Scope.of_owner("ann"), now=START)
        report = await copied(source, target)
        assert (report.copied, report.refused) == (1, 0)
        assert await held(target) == await held(source)
        assert report.losses[0].detail.startswith("earlier states of some memories (1 of")

    asyncio.run(run())


def test_what_a_source_does_not_tell_is_lost():
    """A source without history and feed has its lacks in the report."""

    async def run():
        report = await copied(store(without=PLAIN), store())
        (history, _) = report.losses
        assert "does not keep" in history.detail
        assert "does not tell" in history.detail

    asyncio.run(run())


def test_since_is_a_time_that_has_passed():
    """A copy of what changes in the future is refused, and one with a time that has no offset."""

    async def run():
        source, target = store(), store()
        for since in (START.replace(year=9000), START.replace(tzinfo=None)):
            with pytest.raises(InvalidMemoryError):
                await copied(source, target, since=since)

    asyncio.run(run())


def test_deletions_since_a_time_come_along():
    """With `since`, what was deleted since then is deleted in the target, and what was deleted before stays."""

    async def run():
        source, target = store(), store()
        for id in ("old", "new", "kept"):
            await add(source, id, id)
        await copied(source, target)
        for id, days in (("old", 1), ("new", 3)):
            await source.delete(id, scope=Scope.of_owner("ann"), now=START + timedelta(days=days))
        report = await copied(source, target, since=START + timedelta(days=2))
        assert report.deleted == 1
        assert {ref.id for ref in await held(target)} == {"old", "kept"}

    asyncio.run(run())
