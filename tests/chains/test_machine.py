"""Random lives of a chain: stores that come and go, processes that die, and what must hold all the same."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from memspine import times
from memspine.chain import Create, Delete, Update
from memspine.conformance.clauses import clause
from memspine.contracts import Capability
from memspine.delivery import chain_status
from memspine.errors import BackendUnavailable, ConflictError, NotFoundError
from memspine.ids import keyed_id
from memspine.journal import entries
from memspine.model import MemoryChanges, MemoryFilter, MemoryRef, NewMemory, Scope

from .conftest import MEMORY
from .switched import OUTAGES, World, store

OWNERS = ("a", "ab")
KEYS = ("k", "")
ARCHIVED = "archived"
EXAMPLES = int(os.environ.get("MEMSPINE_TEST_EXAMPLES", "40"))

owners = st.sampled_from(("a", "a", "a", "ab"))
keys = st.sampled_from(KEYS)
outages = st.sampled_from((None, None, "refused", "lost"))


def id_of(owner, key):
    return keyed_id(owner, key) if key else "plain"


class Lives(RuleBasedStateMachine):
    """A chain, and what may be true of each memory: the contents it may have, None for absent."""

    has_feed = True
    spools = True

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self.runner = asyncio.Runner()
        self.number = 0
        self.may_be = {MemoryRef(owner, id_of(owner, key)): {None} for owner in OWNERS for key in KEYS}
        self.was_there = set()
        self.provoked = set()
        self.edited = {}

    def teardown(self):
        try:
            self.settle()
            self.run(self.world.close())
        finally:
            self.runner.close()
            self.folder.cleanup()

    def run(self, awaitable):
        return self.runner.run(awaitable)

    @initialize()
    def begin(self):
        without = () if self.has_feed else (Capability.CHANGES, Capability.HISTORY)
        archive = store("archive", without=(Capability.PUT,))
        self.world = World(
            Path(self.folder.name) / "journal.db",
            store("primary", without=without),
            replicas=[store("replica")],
            fallbacks=[archive],
            spools=self.spools,
        )

        async def fill():
            for ref in self.may_be:
                scope = Scope.of_owner(ref.owner)
                await archive.create(NewMemory(content=ARCHIVED), scope=scope, id=ref.id, now=times.now())

        self.run(fill())
        for owner in OWNERS:
            for key in KEYS:
                self.create(owner=owner, key=key, outage=None)
        self.settle()

    # ── writing ──

    def write(self, ref, write, becomes, *, outage=None):
        """Do a write, with an outage of the primary for that long, and ask for its memory."""
        primary = self.world.primary
        before, primary.outage = primary.outage, outage or primary.outage
        self.submit(ref, write, becomes)
        primary.outage = before
        self.see(ref)
        self.see_all(ref.owner)
        if outage is not None and before == "up":
            self.run(self.world.chain.health())  # so that the primary is asked again

    def submit(self, ref, write, becomes):
        """Do a write and note what may be true after it. A write of what may be absent may turn out to be refused."""
        before = self.may_be[ref]
        try:
            answer = self.run(self.world.chain.submit(write))
        except BackendUnavailable as error:
            if error.outcome == "unknown":
                self.may_be[ref] = before | {becomes}
            return
        except (NotFoundError, ConflictError):
            assert None in before, "a memory that was acknowledged cannot be missing"
            return
        if answer.pending and not isinstance(write, Create) and None in before:
            self.provoked.add(ref)  # it may be refused when its turn comes
            self.may_be[ref] = before | {becomes}
        else:
            assert isinstance(write, Create) or before != {None}
            self.may_be[ref] = {becomes}
        if becomes is not None:
            self.was_there.add(ref)

    def content(self):
        self.number += 1
        return f"content {self.number}"

    @rule(owner=owners, key=keys, outage=outages)
    def create(self, owner, key, outage):
        ref, content = MemoryRef(owner, id_of(owner, key)), self.content()
        new = NewMemory(content=content, key=key)
        self.write(ref, Create(owner=owner, id=ref.id, memory=new, now=times.now()), content, outage=outage)

    @rule(owner=owners, key=keys)
    def create_for_a_moment(self, owner, key):
        """A memory that has expired before anything else happens: absent, without a deletion."""
        ref, now = MemoryRef(owner, id_of(owner, key)), times.now()
        new = NewMemory(content=self.content(), key=key, expires_at=now + timedelta(milliseconds=1))
        self.submit(ref, Create(owner=owner, id=ref.id, memory=new, now=now), None)
        self.was_there.discard(ref)  # so what the archive has of it may be seen
        time.sleep(0.003)

    @rule(place=st.sampled_from((0, 1)))
    def sweep(self, place):
        """One of the stores removes what has expired, the others have not yet."""
        swept = self.world.stores[place]
        outage, swept.outage = swept.outage, "up"
        self.run(swept.expire(scope=Scope.everyone(), now=times.now(), limit=100))
        swept.outage = outage

    @rule(owner=owners, key=keys, outage=outages)
    def update(self, owner, key, outage):
        ref, content = MemoryRef(owner, id_of(owner, key)), self.content()
        changes = MemoryChanges(content=content)
        write = Update(owner=owner, id=ref.id, changes=changes, expected_revision=None, now=times.now())
        self.write(ref, write, content, outage=outage)

    @rule(owner=owners, key=keys, outage=outages)
    def delete(self, owner, key, outage):
        ref = MemoryRef(owner, id_of(owner, key))
        write = Delete(owner=owner, id=ref.id, expected_revision=None, now=times.now())
        self.write(ref, write, None, outage=outage)

    # ── reading ──

    @rule(owner=owners, key=keys)
    def get(self, owner, key):
        self.see(MemoryRef(owner, id_of(owner, key)))

    @rule(owner=owners)
    def look(self, owner):
        self.see_all(owner)

    def see(self, ref):
        """A memory is what it may be, or older where a fallback has it, or somebody says why it is not there."""
        found = self.run(self.world.chain.get_many([ref.id], scope=Scope.of_owner(ref.owner), now=times.now()))
        memory = found.memories.get(ref.id)
        if memory is None:
            is_told = found.failures or ref.id in found.pending
            assert is_told or None in self.may_be[ref], "an acknowledged memory is missing, and nobody says why"
            return
        assert memory.owner == ref.owner
        if self.may_be[ref] == {None} and ref in self.was_there and ref not in self.provoked:
            raise AssertionError(f"{memory.content!r} was deleted and came back from {found.backends}")
        if found.backends[ref.id] == "primary" and ref not in self.provoked:
            assert memory.content in self.may_be[ref]

    def see_all(self, owner):
        """Nothing that was deleted is found, and nothing of others."""
        scope = Scope.of_owner(owner)
        try:
            answer = self.run(
                self.world.chain.search(
                    lambda backend: backend.list(MemoryFilter(), scope=scope, now=times.now(), limit=10)
                )
            )
        except BackendUnavailable:
            return
        memories = answer.value.memories
        hidden = self.run(self.world.chain.hidden(memories, scope=scope, backend=answer.backend))
        for memory in hidden.without(memories):
            ref = MemoryRef(memory.owner, memory.id)
            assert memory.owner == owner
            gone = self.may_be[ref] == {None} and ref in self.was_there and ref not in self.provoked
            assert not gone, f"{memory.content!r} was deleted and is found in {answer.backend}"

    # ── faults ──

    @rule(place=st.sampled_from((0, 0, 0, 1, 2)), outage=st.sampled_from(("up", *OUTAGES)))
    def switch(self, place, outage):
        self.world.stores[place].outage = outage
        if outage == "up":
            self.run(self.world.chain.health())

    @rule()
    def restart(self):
        self.run(self.world.close())
        self.world.start()

    @rule()
    def deliver(self):
        self.run(self.world.deliveries.run(seconds=None))

    @precondition(lambda self: self.has_feed)
    @rule(key=keys)
    def edit_the_replica(self, key):
        """Somebody else changes the replica."""
        ref, replica, content = MemoryRef("ab", id_of("ab", key)), self.world.replicas[0], self.content()
        outage, replica.outage = replica.outage, "up"
        try:
            changes, scope = MemoryChanges(content=content), Scope.of_owner(ref.owner)
            self.run(replica.update(ref.id, changes, scope=scope, now=times.now()))
            self.provoked.add(ref)
            self.edited[ref] = content
        except NotFoundError:
            pass
        finally:
            replica.outage = outage

    # ── the rule ──

    @rule()
    def settle(self):
        """All are up, and all is delivered: every acknowledged write is everywhere, but for what was provoked."""
        self.run(self.world.settle())
        listed = self.run(self.world.journal.read(lambda connection: entries.listed(connection, 1000)))
        for entry in listed:
            assert MemoryRef(entry.owner, entry.id) in self.provoked, entry
        for ref, may_be in self.may_be.items():
            self.compare(ref, may_be, is_listed=any((entry.owner, entry.id) == ref for entry in listed))
        status = self.run(chain_status(self.world.chain))
        assert status.backends[1].replica.behind == 0
        assert listed or not status.problems
        self.world.primary.outage = "refused"
        for ref in self.may_be.keys() - self.provoked:
            self.see_without_the_primary(ref)
        self.run(self.world.heal())

    def compare(self, ref, may_be, *, is_listed):
        """What the primary and the replica have of a memory by now."""
        primary, replica = self.held(self.world.primary, ref), self.held(self.world.replicas[0], ref)
        content = None if primary is None else primary.content
        there = None if replica is None else replica.content
        assert ref not in self.edited or there == self.edited[ref], "what others changed in the replica was overwritten"
        states = self.run(self.world.primary.history(ref.id, scope=Scope.of_owner(ref.owner)))
        contents = [state.memory.content for state in states if state.memory.expires_at is None]
        assert len(set(contents)) == len(contents), f"a write was done twice: {contents}"
        if ref not in self.provoked:
            assert content in may_be
            assert there == content
            if self.has_feed and primary is not None:
                assert (replica.revision, replica.content_hash) == (primary.revision, primary.content_hash)
        if ref not in self.provoked or not is_listed:
            self.may_be[ref] = {content}

    def held(self, store, ref):
        return self.run(store.get(ref.id, scope=Scope.of_owner(ref.owner), now=times.now()))

    def see_without_the_primary(self, ref):
        """The replica shows what it has, and no fallback what was deleted."""
        found = self.run(self.world.chain.get_many([ref.id], scope=Scope.of_owner(ref.owner), now=times.now()))
        (content,) = self.may_be[ref]
        if content is not None:
            assert (found.memories[ref.id].content, found.backends[ref.id]) == (content, "replica")
        elif ref in self.was_there:
            assert ref.id not in found.memories


class Refusing(Lives):
    spools = False


class WithoutFeed(Lives):
    has_feed = False


@clause("CH-100")
@pytest.mark.parametrize("lives", [Lives, Refusing, WithoutFeed])
def test_whatever_happens_nothing_acknowledged_is_lost(lives):
    """Whatever stores and processes do, once all are up every acknowledged write is in every replica, no deleted memory
    comes back, and nothing of one owner is seen by another."""
    run_state_machine_as_test(
        lives,
        settings=settings(
            max_examples=EXAMPLES,
            derandomize="MEMSPINE_TEST_EXAMPLES" not in os.environ,  # by hand, any lives
            stateful_step_count=40,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking such lives takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
