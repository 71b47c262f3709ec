"""update, delete, delete_many."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import attrs
import pytest

from memspine.conformance.backend.tools import POISONING, Poisoned, add, aged, listed, pages, said, snapshot, the
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, BOB, EVERYONE, at
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import ConflictError, MemspineError, NotFoundError, ScopeError
from memspine.model import KeywordQuery, MemoryChanges, MemoryFilter, MemoryType, NewMemory, Scope, SearchQuery

CHANGES: dict[str, dict[str, Any]] = {
    "content": {"content": "new"},
    "type": {"type": MemoryType.SEMANTIC},
    "session": {"session": "new"},
    "key": {"key": "new"},
    "no key": {"key": ""},
    "metadata": {"metadata": {"only": None}},
    "no metadata": {"metadata": {}},
    "expiry": {"expires_at": at(7000)},
    "no expiry": {"expires_at": None},
    "several": {"content": "new", "metadata": {"x": [1]}, "key": "new"},
    "nothing": {},
}


@clause("MB-30")
@pytest.mark.parametrize("name", CHANGES)
async def test_update_replaces_what_it_names(store: MemoryBackend, name: str) -> None:
    """The named fields are replaced, metadata whole; all others stay; one revision more, updated now."""
    old = await aged(store)
    changed = await store.update("a", MemoryChanges(**CHANGES[name]), scope=ALICE, now=at(20), expected_revision=1)
    expected = attrs.evolve(old, **CHANGES[name], updated_at=at(20), revision=2)
    assert said(changed) == said(expected)
    assert said(await the(store, "a")) == said(expected)


@clause("MB-31")
@pytest.mark.parametrize("id", ["unknown", "expired", "deleted", "foreign"])
async def test_what_is_absent_cannot_be_changed(store: MemoryBackend, id: str) -> None:
    """update and delete of what get would not return raise NotFoundError and change nothing."""
    await add(store, "expired", expires_at=at(10))
    await add(store, "deleted")
    await store.delete("deleted", scope=ALICE, now=at(1))
    await add(store, "foreign", scope=BOB)
    before = await snapshot(store, id)
    with pytest.raises(NotFoundError) as updating:
        await store.update(id, MemoryChanges(content="x"), scope=ALICE, now=at(10), expected_revision=7)
    with pytest.raises(NotFoundError) as deleting:
        await store.delete(id, scope=ALICE, now=at(10))
    assert updating.value.id == deleting.value.id == id
    assert await snapshot(store, id) == before


@clause("MB-32")
@pytest.mark.parametrize("revision", [0, 1, 3])
async def test_another_revision_is_a_conflict(store: MemoryBackend, revision: int) -> None:
    """update and delete with an expected revision that is not the stored one raise ConflictError, change nothing."""
    await add(store, "a")
    await store.update("a", MemoryChanges(content="second"), scope=ALICE, now=at(1))
    before = await snapshot(store, "a")
    with pytest.raises(ConflictError):
        await store.update("a", MemoryChanges(content="x"), scope=ALICE, now=at(2), expected_revision=revision)
    with pytest.raises(ConflictError):
        await store.delete("a", scope=ALICE, now=at(2), expected_revision=revision)
    assert await snapshot(store, "a") == before


@clause("MB-32")
async def test_the_right_revision_is_no_conflict(store: MemoryBackend) -> None:
    """update and delete with the stored revision are done."""
    await add(store, "a")
    changed = await store.update("a", MemoryChanges(content="x"), scope=ALICE, now=at(1), expected_revision=1)
    assert changed.revision == 2
    await store.delete("a", scope=ALICE, now=at(2), expected_revision=2)
    assert await listed(store) == []


@clause("MB-33")
async def test_a_taken_key_is_a_conflict(store: MemoryBackend) -> None:
    """An update to the key of another memory raises ConflictError and changes nothing; its own key is no conflict."""
    await add(store, "a", key="k")
    await add(store, "b", key="other")
    await add(store, "c", key="k", scope=BOB)
    before = await snapshot(store, "a", "b")
    with pytest.raises(ConflictError):
        await store.update("b", MemoryChanges(key="k", content="x"), scope=ALICE, now=at(1))
    assert await snapshot(store, "a", "b") == before
    await store.update("a", MemoryChanges(key="k"), scope=ALICE, now=at(2))
    await store.update("c", MemoryChanges(key="other"), scope=BOB, now=at(2))


@clause("MB-33")
async def test_the_key_of_an_expired_memory_is_free(store: MemoryBackend) -> None:
    """An update may take the key that only an expired memory has; then it is found by it."""
    await add(store, "a", key="k", expires_at=at(10))
    await add(store, "b")
    changed = await store.update("b", MemoryChanges(key="k"), scope=ALICE, now=at(10))
    assert changed.key == "k"
    assert await listed(store, filter=MemoryFilter(key="k"), now=at(10)) == ["b"]
    written = await store.create(NewMemory(content="n", key="k"), scope=ALICE, id="c", now=at(11))
    assert written.memory.id == "b"


@clause("MB-34")
async def test_a_deleted_memory_is_gone_everywhere(store: MemoryBackend) -> None:
    """After delete no call shows it, and its tombstone says the next revision and the time."""
    await add(store, "a", "walnut", key="k")
    await store.update("a", MemoryChanges(content="walnut cake"), scope=ALICE, now=at(1))
    tombstone = await store.delete("a", scope=ALICE, now=at(2))
    assert (tombstone.id, tombstone.owner) == ("a", "alice")
    assert (tombstone.revision, tombstone.deleted_at) == (3, at(2))
    await store.record_access({"a": 1}, scope=ALICE, now=at(3))
    assert await store.get("a", scope=ALICE, now=at(3)) is None
    assert await listed(store, EVERYONE) == []
    assert (await store.count(ALL, scope=ALICE, now=at(3))).total == 0
    assert await store.search(SearchQuery(text="walnut", limit=5), scope=ALICE, now=at(3)) == ()
    if Capability.LEXICAL in store.capabilities:
        found = await store.lexical(KeywordQuery(("walnut",)), scope=ALICE, filter=ALL, now=at(3), limit=5)
        assert (found.matched, found.statistics.documents) == (0, 0)
    with pytest.raises(NotFoundError):
        await store.delete("a", scope=ALICE, now=at(3))
    written = await store.create(NewMemory(content="n", key="k"), scope=ALICE, id="b", now=at(4))
    assert (written.memory.id, written.created) == ("b", True), "its key is free"


FILTERS = {
    "all": ALL,
    "type": MemoryFilter(types=(MemoryType.EPISODIC,)),
    "text": MemoryFilter(text="walnut"),
    "age": MemoryFilter(created_before=at(3)),
    "nothing": MemoryFilter(key="nobody has it"),
}


@clause("MB-35")
@pytest.mark.parametrize("scope", [ALICE, Scope.of_session("alice", "s")], ids=str)
@pytest.mark.parametrize("name", FILTERS)
async def test_delete_many_deletes_what_list_shows(store: MemoryBackend, name: str, scope: Scope) -> None:
    """Exactly the listed memories go, their ids come back in order; a dry run says the same and deletes nothing."""
    for number in range(8):
        type = MemoryType.EPISODIC if number % 2 else MemoryType.FACTUAL
        text = "walnut" if number % 3 else "hazel"
        await add(store, f"m{9 - number}", text, time=number // 2, type=type, session="s" if number < 5 else "")
    await add(store, "gone", "walnut", session="s", expires_at=at(50))
    await add(store, "m1", "walnut", scope=BOB, session="s")
    filter, now = FILTERS[name], at(100)
    expected = await listed(store, scope, filter=filter, now=now)
    before = await snapshot(store, *expected, now=now)
    assert list(await store.delete_many(filter, scope=scope, now=now, dry_run=True)) == expected
    assert await snapshot(store, *expected, now=now) == before
    rest = [memory for memory in await pages(store, now=now) if memory.id not in expected]
    assert list(await store.delete_many(filter, scope=scope, now=now, dry_run=False)) == expected
    assert [said(m) for m in await pages(store, now=now)] == [said(m) for m in rest]
    assert await listed(store, BOB) == ["m1"]
    assert await store.delete_many(filter, scope=scope, now=now, dry_run=False) == ()


@clause("MB-36")
async def test_a_call_that_raises_changes_nothing(store: MemoryBackend) -> None:
    """Whatever a call raises, everything is as it was."""
    await add(store, "a", key="k", metadata={"x": 1})
    await add(store, "b", key="l")
    before = await snapshot(store, "a", "b", "c")
    shared = Scope.shared("alice")
    failing: list[tuple[type[Exception] | tuple[type[Exception], ...], Coroutine[Any, Any, object]]] = [
        (POISONING, store.create(NewMemory(content="n", key="k", metadata=Poisoned()), scope=ALICE, id="c", now=at(1))),
        (POISONING, store.create(NewMemory(content="n", metadata=Poisoned()), scope=ALICE, id="c", now=at(1))),
        (POISONING, store.update("a", MemoryChanges(content="n", metadata=Poisoned()), scope=ALICE, now=at(1))),
        (ConflictError, store.update("a", MemoryChanges(content="n", key="l"), scope=ALICE, now=at(1))),
        (ConflictError, store.delete("a", scope=ALICE, now=at(1), expected_revision=9)),
        (ScopeError, store.create(NewMemory(content="n"), scope=shared, id="c", now=at(1))),
        (ScopeError, store.delete_many(ALL, scope=EVERYONE, now=at(1), dry_run=False)),
        (MemspineError, store.list(ALL, scope=ALICE, now=at(1), limit=5, cursor="nonsense")),
    ]
    for expected, call in failing:
        with pytest.raises(expected):
            await call
        assert await snapshot(store, "a", "b", "c") == before
