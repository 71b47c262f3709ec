"""Random lives of a store, compared step by step with a dictionary."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, TypeVar

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from memspine.conformance.backend.model import Model, Row, fits, place_order
from memspine.conformance.backend.tools import feed, pages
from memspine.conformance.clauses import clause
from memspine.conformance.samples import EVERYONE, SETTINGS, at, texts
from memspine.conformance.subject import Place
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import ConflictError, NotFoundError
from memspine.model import Memory, MemoryChanges, MemoryFilter, MemoryType, NewMemory, Scope, canonical_json

T = TypeVar("T")
# Few names, so that calls meet what others left.
OWNERS = ("a", "ab")
SESSIONS = ("", "s", "S")
IDS = ("x", "y", "X")

whole_scopes = st.sampled_from(OWNERS).map(Scope.of_owner)
session_scopes = st.builds(Scope.of_session, st.sampled_from(OWNERS), st.sampled_from(SESSIONS))
scopes = whole_scopes | whole_scopes | session_scopes
ids = st.sampled_from(IDS)
types = st.sampled_from(MemoryType)
keys = st.sampled_from(("", "", "k", "K"))
contents = st.sampled_from(("walnut", "Walnut tree", "hazel", "100%")) | texts(min_size=1, max_size=10)
values = st.none() | st.sampled_from((0, 1, 1.0, "", "food", [1, None]))
metadata = st.dictionaries(st.sampled_from(("category", "b")), values, max_size=2)
revisions = st.none() | st.integers(1, 3)
seconds = st.integers(-3, 30)
lives = st.none() | st.integers(-1, 6)
news = st.builds(
    NewMemory,
    content=contents,
    type=types,
    key=keys,
    session=st.sampled_from(SESSIONS),
    metadata=metadata,
    created_at=st.none() | seconds.map(at),
)
# One field at a time, or hardly anything would fit.
filters = st.one_of(
    st.just(MemoryFilter()),
    st.builds(MemoryFilter, types=st.lists(types, max_size=3, unique=True).map(tuple)),
    st.builds(MemoryFilter, key=keys),
    st.builds(MemoryFilter, category=st.just("food")),
    st.builds(MemoryFilter, text=st.sampled_from(("wal", "%", "TREE", "zz"))),
    st.builds(MemoryFilter, created_before=seconds.map(at)),
    st.builds(MemoryFilter, updated_before=seconds.map(at)),
)


def shown(memory: Memory) -> Row:
    """A memory as the model has it."""
    names = ("content", "type", "session", "key", "created_at", "updated_at", "expires_at", "revision")
    return {name: getattr(memory, name) for name in names} | {
        "metadata": canonical_json(dict(memory.metadata)),
        "accesses": memory.access_count,
    }


class Lives(RuleBasedStateMachine):
    """A backend and the model, given the same orders."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.model = Model()
        self.clock = 0

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for a call."""
        return self._runner.get_loop().run_until_complete(call)  # Runner.run prepares for signals, each time

    @property
    def now(self) -> datetime:
        """The time of the machine."""
        return at(self.clock)

    @initialize(first=st.lists(st.tuples(whole_scopes, ids, news, lives), min_size=2, max_size=6))
    def open(self, first: Sequence[tuple[Scope, str, NewMemory, int | None]]) -> None:
        """Begin with a few memories, so that every life has some."""
        self.store: MemoryBackend = self.run(self._stack.enter_async_context(self._place.another().open()))
        for scope, id, new, life in first:
            self.create(scope=scope, id=id, new=new, life=life)

    def teardown(self) -> None:
        """Close the store."""
        self.run(self._stack.aclose())
        self._runner.close()

    @rule(seconds=st.integers(0, 8))
    def time_passes(self, seconds: int) -> None:
        """Time moves on, or stands still."""
        self.clock += seconds

    @rule(scope=scopes, id=ids, new=news, life=lives)
    def create_one(self, scope: Scope, id: str, new: NewMemory, life: int | None) -> None:
        """Create, replace by key or id, or bring back to life."""
        self.create(scope=scope, id=id, new=new, life=life)

    def create(self, *, scope: Scope, id: str, new: NewMemory, life: int | None) -> None:
        """The same, of the store and of the model."""
        new = attrs.evolve(new, expires_at=None if life is None else at(self.clock + life))
        written = self.run(self.store.create(new, scope=scope, id=id, now=self.now))
        self.settle(written.memory)
        expected = self.model.create(new, scope=scope, id=id, now=self.now)
        assert (written.memory.id, written.created) == expected
        self.same(written.memory)

    @rule(scope=scopes, id=ids, changes=st.fixed_dictionaries({}, optional={
        "content": contents, "type": types, "key": keys, "session": st.sampled_from(SESSIONS), "metadata": metadata,
        "expires_at": st.none() | seconds.map(at)}), expected=revisions)  # fmt: skip
    def update(self, scope: Scope, id: str, changes: dict[str, Any], expected: int | None) -> None:
        """Update, or be told why not."""
        row = self.model.live(scope, self.now).get((scope.owner, id))
        call = self.store.update(id, MemoryChanges(**changes), scope=scope, now=self.now, expected_revision=expected)
        if row is None:
            with pytest.raises(NotFoundError):
                self.run(call)
        elif expected not in (None, row["revision"]) or not self.model.update((scope.owner, id), changes, now=self.now):
            with pytest.raises(ConflictError):
                self.run(call)
        else:
            self.same(self.run(call))

    @rule(scope=scopes, id=ids, expected=revisions)
    def delete(self, scope: Scope, id: str, expected: int | None) -> None:
        """Delete, or be told why not."""
        row = self.model.live(scope, self.now).get((scope.owner, id))
        call = self.store.delete(id, scope=scope, now=self.now, expected_revision=expected)
        if row is None:
            with pytest.raises(NotFoundError):
                self.run(call)
        elif expected not in (None, row["revision"]):
            with pytest.raises(ConflictError):
                self.run(call)
        else:
            tombstone = self.run(call)
            assert (tombstone.revision, tombstone.deleted_at) == (self.model.delete((scope.owner, id)), self.now)

    @rule(scope=scopes, filter=filters, dry_run=st.booleans())
    def delete_many(self, scope: Scope, filter: MemoryFilter, dry_run: bool) -> None:  # noqa: FBT001 - Hypothesis fills it
        """Delete what a filter names."""
        expected = [place for place, _ in self.expected(scope, filter)]
        deleted = self.run(self.store.delete_many(filter, scope=scope, now=self.now, dry_run=dry_run))
        assert list(deleted) == [id for _, id in expected]
        for place in expected if not dry_run else ():
            self.model.delete(place)

    @rule(scope=scopes, wanted=st.lists(ids, max_size=6))
    def get(self, scope: Scope, wanted: list[str]) -> None:
        """Read some memories by id."""
        live = self.model.live(scope, self.now)
        found = self.run(self.store.get_many(wanted, scope=scope, now=self.now))
        assert list(found) == [id for id in dict.fromkeys(wanted) if (scope.owner, id) in live]
        for memory in found.values():
            self.same(memory)
            assert self.run(self.store.get(memory.id, scope=scope, now=self.now)) == memory

    @rule(scope=scopes | st.just(EVERYONE), filter=filters, limit=st.integers(1, 4), newest_first=st.booleans())
    def list(self, scope: Scope, filter: MemoryFilter, limit: int, newest_first: bool) -> None:  # noqa: FBT001 - Hypothesis fills it
        """Page through a scope, and count it."""
        expected = [place for place, _ in self.expected(scope, filter)]
        found = self.run(pages(self.store, scope, filter=filter, now=self.now, limit=limit, newest_first=newest_first))
        for memory in found:
            self.same(memory)
        order = [id for _, id in (expected[::-1] if newest_first else expected)]
        assert [memory.id for memory in found] == order
        assert {(memory.owner, memory.id) for memory in found} == set(expected)
        counts = self.run(self.store.count(filter, scope=scope, now=self.now, by="owner"))
        assert (counts.total, dict(counts.groups)) == (len(expected), Counter(owner for owner, _ in expected))

    @rule(scope=scopes, counts=st.dictionaries(ids, st.integers(1, 3), max_size=3))
    def access(self, scope: Scope, counts: dict[str, int]) -> None:
        """Count recalls."""
        self.run(self.store.record_access(counts, scope=scope, now=self.now))
        for (_, id), row in self.model.live(scope, self.now).items():
            row["accesses"] += counts.get(id, 0)

    @rule(owner=st.none() | st.sampled_from(OWNERS))
    def expire(self, owner: str | None) -> None:
        """Sweep."""
        scope = EVERYONE if owner is None else Scope.of_owner(owner)
        gone = [
            place
            for place, row in self.model.rows.items()
            if owner in (None, place[0]) and row["expires_at"] is not None and row["expires_at"] <= self.now
        ]
        assert self.run(self.store.expire(scope=scope, now=self.now, limit=100)) == len(gone)
        for place in gone:
            self.model.drop(place)

    @invariant()
    def memories_agree(self) -> None:
        """Everything that is alive is there, as it was last written, and nothing else."""
        found = self.run(pages(self.store, EVERYONE, now=self.now))
        assert {(memory.owner, memory.id) for memory in found} == self.model.live(EVERYONE, self.now).keys()
        for memory in found:
            self.same(memory)

    @invariant()
    def feed_and_graves_agree(self) -> None:
        """The feed and the tombstones say what was done."""
        if Capability.CHANGES in self.store.capabilities:
            changes = self.run(feed(self.store))
            assert [(c.id, c.owner, c.revision, c.deleted) for c in changes] == self.model.feed
            for owner in OWNERS:
                stones = self.run(self.store.tombstones(IDS, scope=Scope.of_owner(owner)))
                expected = {id: revision for (who, id), revision in self.model.graves.items() if who == owner}
                assert {id: stone.revision for id, stone in stones.items()} == expected

    @rule(scope=st.sampled_from(OWNERS).map(Scope.of_owner), id=ids)
    def look_back(self, scope: Scope, id: str) -> None:
        """The history of a memory that never expired has every state."""
        place = (scope.owner, id)
        if Capability.HISTORY not in self.store.capabilities or place not in self.model.rows:
            return
        states = self.run(self.store.history(id, scope=scope))
        current = self.model.rows[place]
        expected = [*self.model.past.get(place, []), (current["revision"], current["content"])]
        said = [(state.memory.revision, state.memory.content) for state in states]
        assert said[len(said) - len(expected) :] == expected
        assert states[-1].replaced_at is None

    def expected(self, scope: Scope, filter: MemoryFilter) -> Any:
        """What a list has to show."""
        live = self.model.live(scope, self.now).items()
        return sorted((item for item in live if fits(item[1], filter)), key=place_order)

    def settle(self, memory: Memory) -> None:
        """Where no tombstones are promised, a memory that was deleted may begin again or go on; the model follows."""
        place = (memory.owner, memory.id)
        if Capability.CHANGES not in self.store.capabilities and place in self.model.buried:
            self.model.graves[place] = memory.revision - 1

    def same(self, memory: Memory) -> None:
        """The memory is the row of the model."""
        row = self.model.rows[memory.owner, memory.id]
        expected = {**row, "metadata": canonical_json(row["metadata"])}
        assert shown(memory) == expected


@clause("MB-11", "MB-30", "MB-34", "MB-35", "MB-40", "MB-44")
def test_a_backend_lives_as_a_dictionary_does(place: Place) -> None:
    """After any series of calls, over owners, sessions and time, a store says what a plain dictionary says."""
    run_state_machine_as_test(
        lambda: Lives(place),  # type: ignore[arg-type] # any factory will do
        settings=settings(SETTINGS, max_examples=80, stateful_step_count=40),
    )
