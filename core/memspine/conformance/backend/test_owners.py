"""Owner walls, sessions, shared scopes, and the crowd."""

from __future__ import annotations

import pytest

from memspine.conformance.backend.tools import add, listed, pages, said, snapshot
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, BOB, EVERYONE, NEAR_OWNERS, at
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import NotFoundError, ScopeError
from memspine.model import (
    GLOBAL_OWNER,
    KeywordQuery,
    MemoryChanges,
    MemoryFilter,
    MemoryRef,
    NewMemory,
    Scope,
    SearchQuery,
    Tombstone,
)

GLOBAL = Scope.of_owner(GLOBAL_OWNER)


@clause("MB-60")
async def test_reading_stays_inside_the_walls(store: MemoryBackend) -> None:
    """Another owner's memory is not got, listed, counted, found, or shown in history and feed."""
    await add(store, "of-bob", "walnut", scope=BOB, key="k", metadata={"speaker": "walnut"})
    assert await store.get("of-bob", scope=ALICE, now=at(1)) is None
    assert await store.get_many(["of-bob"], scope=ALICE, now=at(1)) == {}
    assert await listed(store, ALICE) == []
    assert (await store.count(ALL, scope=ALICE, now=at(1), by="owner")).total == 0
    assert await store.search(SearchQuery(text="walnut", limit=5), scope=ALICE, now=at(1)) == ()
    if Capability.LEXICAL in store.capabilities:
        found = await store.lexical(KeywordQuery(("walnut",)), scope=ALICE, filter=ALL, now=at(1), limit=5)
        assert (found.matches, found.matched, found.statistics.documents) == ((), 0, 0)
        asked = KeywordQuery(("walnut",), (MemoryRef("bob", "of-bob"), MemoryRef("alice", "of-bob")), before=1, after=1)
        found = await store.lexical(asked, scope=ALICE, filter=ALL, now=at(1), limit=5)
        assert (found.others, found.neighbours) == ((), ())
        assert await store.speakers(["walnut"], scope=ALICE, now=at(1)) == frozenset()
    if Capability.HISTORY in store.capabilities:
        assert await store.history("of-bob", scope=ALICE) == ()
    if Capability.CHANGES in store.capabilities:
        assert (await store.changes(scope=ALICE, limit=10)).changes == ()
        await store.delete("of-bob", scope=BOB, now=at(1))
        assert await store.tombstones(["of-bob"], scope=ALICE) == {}


@clause("MB-60")
async def test_writing_stays_inside_the_walls(store: MemoryBackend) -> None:
    """Another owner's memory is not updated, deleted, accessed, expired, trimmed or purged."""
    await add(store, "of-bob", "walnut", scope=BOB, key="k", expires_at=at(10_000_000))
    await add(store, "expired", scope=BOB, expires_at=at(10))
    before = await snapshot(store, "of-bob", scope=BOB, now=at(9))
    with pytest.raises(NotFoundError):
        await store.update("of-bob", MemoryChanges(content="x"), scope=ALICE, now=at(20))
    with pytest.raises(NotFoundError):
        await store.delete("of-bob", scope=ALICE, now=at(20))
    assert await store.delete_many(ALL, scope=ALICE, now=at(20), dry_run=False) == ()
    await store.record_access({"of-bob": 5}, scope=ALICE, now=at(20))
    assert await store.expire(scope=ALICE, now=at(20), limit=10) == 0
    if Capability.CHANGES in store.capabilities:
        assert await store.trim_changes(scope=ALICE, before=at(20), limit=10) == 0
    if Capability.HISTORY in store.capabilities:
        assert await store.trim_history(scope=ALICE, before=at(20), tombstones_before=at(20), limit=10) == 0
    if Capability.PURGE in store.capabilities:
        assert (await store.purge(["of-bob"], scope=ALICE, now=at(20))).memories == 0
        assert (await store.purge(None, scope=ALICE, now=at(20))).memories == 0
    if Capability.PUT in store.capabilities:
        await store.put([Tombstone(id="of-bob", owner="alice", revision=9, deleted_at=at(20))], scope=ALICE)
    after = await snapshot(store, "of-bob", scope=BOB, now=at(9))
    assert after.memories == before.memories
    assert after.histories == before.histories


@clause("MB-60")
async def test_owners_may_use_the_same_ids_and_keys(store: MemoryBackend) -> None:
    """Two owners' memories of one id and one key live apart."""
    for scope in (ALICE, BOB):
        written = await store.create(NewMemory(content=f"of {scope.owner}", key="k"), scope=scope, id="a", now=at(0))
        assert (written.created, written.memory.revision) == (True, 1)
    await store.update("a", MemoryChanges(content="changed"), scope=ALICE, now=at(1))
    (of_bob,) = await pages(store, BOB)
    assert (of_bob.content, of_bob.revision, of_bob.owner) == ("of bob", 1, "bob")
    await store.delete("a", scope=ALICE, now=at(2))
    assert await listed(store, BOB) == ["a"]
    found = await store.search(SearchQuery(text="bob", limit=5), scope=BOB, now=at(3))
    assert [hit.memory.owner for hit in found] == ["bob"]


@clause("MB-61")
async def test_owners_are_compared_exactly(store: MemoryBackend) -> None:
    """Prefixes, cases, blanks and wildcards make another owner."""
    names = ("a", *NEAR_OWNERS)
    for name in names:
        await add(store, "same", f"walnut of {name!r}", scope=Scope.of_owner(name), key="k")
    for name in names:
        scope = Scope.of_owner(name)
        (memory,) = await pages(store, scope)
        assert (memory.owner, memory.content, memory.revision) == (name, f"walnut of {name!r}", 1)
        assert dict((await store.count(ALL, scope=scope, now=at(1), by="owner")).groups) == {name: 1}
        found = await store.search(SearchQuery(text="walnut", limit=50), scope=scope, now=at(1))
        assert [hit.memory.owner for hit in found] == [name]
    assert dict((await store.count(ALL, scope=EVERYONE, now=at(1), by="owner")).groups) == dict.fromkeys(names, 1)
    assert await store.delete_many(ALL, scope=Scope.of_owner("%"), now=at(2), dry_run=False) == ("same",)
    assert (await store.count(ALL, scope=EVERYONE, now=at(2))).total == len(names) - 1


@clause("MB-61")
async def test_sessions_are_compared_exactly(store: MemoryBackend) -> None:
    """Prefixes, cases, blanks and wildcards make another session."""
    names = ("", "a", *NEAR_OWNERS)
    for number, name in enumerate(names):
        await add(store, f"m{number}", "walnut", session=name)
    for number, name in enumerate(names):
        scope = Scope.of_session("alice", name)
        assert await listed(store, scope) == [f"m{number}"], name
        found = await store.search(SearchQuery(text="walnut", limit=50), scope=scope, now=at(1))
        assert [hit.memory.id for hit in found] == [f"m{number}"]
    groups = (await store.count(ALL, scope=ALICE, now=at(1), by="session")).groups
    assert dict(groups) == dict.fromkeys(names, 1)


@clause("MB-62")
async def test_shared_reads_ones_own_and_the_global_memories(store: MemoryBackend) -> None:
    """get, get_many, list, count and search see both, and where both have an id, one's own comes first."""
    shared = Scope.shared("alice")
    await add(store, "both", "walnut of all", scope=GLOBAL)
    await add(store, "both", "walnut of alice")
    await add(store, "common", "walnut", scope=GLOBAL)
    await add(store, "mine", "walnut")
    await add(store, "foreign", "walnut", scope=BOB)
    got = await store.get("both", scope=shared, now=at(1))
    assert got is not None
    assert got.owner == "alice"
    many = await store.get_many(["common", "both", "foreign", "mine"], scope=shared, now=at(1))
    assert [(id, memory.owner) for id, memory in many.items()] == [
        ("common", GLOBAL_OWNER),
        ("both", "alice"),
        ("mine", "alice"),
    ]
    assert [(memory.id, memory.owner) for memory in await pages(store, shared)] == [
        ("both", "alice"),
        ("both", GLOBAL_OWNER),
        ("common", GLOBAL_OWNER),
        ("mine", "alice"),
    ]
    assert (await store.count(ALL, scope=shared, now=at(1))).total == 4
    found = await store.search(SearchQuery(text="walnut", limit=9), scope=shared, now=at(1))
    assert sorted(hit.memory.owner for hit in found) == ["alice", "alice", GLOBAL_OWNER, GLOBAL_OWNER]


@clause("MB-62")
async def test_shared_writes_nothing(store: MemoryBackend) -> None:
    """Writing calls raise ScopeError in the shared scope."""
    shared, now, can = Scope.shared("alice"), at(1), store.capabilities
    await add(store, "a")
    refused = [
        store.create(NewMemory(content="c"), scope=shared, id="b", now=now),
        store.create_many([NewMemory(content="c")], scope=shared, ids=["b"], now=now),
        store.update("a", MemoryChanges(content="x"), scope=shared, now=now),
        store.delete("a", scope=shared, now=now),
        store.delete_many(ALL, scope=shared, now=now, dry_run=False),
        store.record_access({"a": 1}, scope=shared, now=now),
        store.expire(scope=shared, now=now, limit=1),
    ]
    if Capability.PUT in can:
        refused.append(store.put([], scope=shared))
    if Capability.PURGE in can:
        refused.append(store.purge(["a"], scope=shared, now=now))
    for call in refused:
        with pytest.raises(ScopeError):
            await call
    assert await listed(store, EVERYONE) == ["a"]


@clause("MB-63")
async def test_a_session_limits_every_call(store: MemoryBackend) -> None:
    """Reading, updating, deleting and counting see that session alone."""
    inside, outside = Scope.of_session("alice", "s"), Scope.of_session("alice", "")
    await add(store, "in", "walnut", session="s")
    await add(store, "out", "walnut")
    for scope, own, other in ((inside, "in", "out"), (outside, "out", "in")):
        assert await store.get(other, scope=scope, now=at(1)) is None
        assert list(await store.get_many(["in", "out"], scope=scope, now=at(1))) == [own]
        assert await listed(store, scope) == [own]
        assert dict((await store.count(ALL, scope=scope, now=at(1), by="session")).groups) == {scope.session: 1}
        found = await store.search(SearchQuery(text="walnut", limit=9), scope=scope, now=at(1))
        assert [hit.memory.id for hit in found] == [own]
        with pytest.raises(NotFoundError):
            await store.update(other, MemoryChanges(content="x"), scope=scope, now=at(1))
        with pytest.raises(NotFoundError):
            await store.delete(other, scope=scope, now=at(1))
        await store.record_access({other: 1}, scope=scope, now=at(1))
    assert [(memory.revision, memory.access_count) for memory in await pages(store)] == [(1, 0), (1, 0)]
    assert await store.delete_many(ALL, scope=inside, now=at(2), dry_run=False) == ("in",)
    assert await listed(store) == ["out"]


@clause("MB-63")
async def test_a_session_holds_what_is_created_in_it(store: MemoryBackend) -> None:
    """What is created in the scope of a session belongs to it, whatever the memory says."""
    scope = Scope.of_session("alice", "s")
    written = await store.create(NewMemory(content="c", session="other"), scope=scope, id="a", now=at(0))
    assert written.memory.session == "s"
    (other,) = await store.create_many([NewMemory(content="c")], scope=scope, ids=["b"], now=at(0))
    assert other.memory.session == "s"
    assert await listed(store, scope) == ["a", "b"]


CROWD_OWNERS = ("alic", "alice2", "Alice", GLOBAL_OWNER, "alice.b", "%")
CROWD_WORDS = ("walnut", "hazel", "almond", "spring", "garden", "planted", "train", "weather", "ladder", "orchard")


async def answers(store: MemoryBackend) -> list[object]:
    """All that an owner can see of their memories."""
    now = at(500)
    found: list[object] = [said(memory) for memory in await pages(store, ALICE, now=now)]
    for question in ("walnut", "walnut garden in spring", "who planted the hazel?", "ladder orchard almond train"):
        for filter in (ALL, MemoryFilter(text="garden")):
            hits = await store.search(SearchQuery(text=question, limit=20, filter=filter), scope=ALICE, now=now)
            found.append([(hit.memory.id, hit.score) for hit in hits])
    if Capability.LEXICAL in store.capabilities:
        asked = (MemoryRef("alice", "m07"), MemoryRef("alice", "m39"), MemoryRef("bob", "m07"))
        terms = KeywordQuery(("walnut", "garden", "plant"), asked, before=1, after=2)
        found.append(await store.lexical(terms, scope=ALICE, filter=ALL, now=now, limit=5))
        found.append(await store.speakers(CROWD_WORDS, scope=ALICE, now=now))
    found += [dict((await store.count(ALL, scope=ALICE, now=now, by="type")).groups)]
    return found


@clause("MB-64")
async def test_a_crowd_changes_nothing_for_an_owner(store: MemoryBackend, crowd: int) -> None:
    """However many memories other owners add, an owner's scores, orders and counts stay to the bit."""
    for number in range(40):
        words = [CROWD_WORDS[(number * step) % len(CROWD_WORDS)] for step in (1, 3, 7)]
        await add(store, f"m{number:02}", f"{' '.join(words)} remark {number}", time=number, key=f"k{number}")
    before = await answers(store)
    batch = min(2000, -(-crowd // len(CROWD_OWNERS)))
    for start in range(0, crowd, batch):
        numbers = range(start, min(start + batch, crowd))
        owner = CROWD_OWNERS[start // batch % len(CROWD_OWNERS)]
        strangers = [
            NewMemory(content=f"{CROWD_WORDS[n % 5]} {CROWD_WORDS[n % 7]} remark {n}", key="" if n % 10 else f"k{n}")
            for n in numbers
        ]
        await store.create_many(strangers, scope=Scope.of_owner(owner), ids=[f"m{n:02}" for n in numbers], now=at(99))
    assert await answers(store) == before
    assert (await store.count(ALL, scope=EVERYONE, now=at(500))).total == crowd + 40
