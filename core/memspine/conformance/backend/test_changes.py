"""Capability changes: the feed and the tombstones."""

from __future__ import annotations

import pytest

from memspine.conformance.backend.tools import add, end_of_feed, feed, listed, record, tombstone
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, BOB, EVERYONE, at
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import ConflictError, CursorError, NotFoundError
from memspine.model import Memory, MemoryChanges, MemoryFilter, NewMemory, PutOutcome, SearchQuery, Tombstone

CHANGED = tuple[str, str, int, bool]


async def rows(store: MemoryBackend, **options: object) -> list[CHANGED]:
    """The feed without its cursors and times."""
    return [(c.id, c.owner, c.revision, c.deleted) for c in await feed(store, **options)]  # type: ignore[arg-type]


@clause("MB-110")
async def test_every_change_appends_one_row(store: MemoryBackend) -> None:
    """Creates, replacements, updates and deletes append one change each, in order, with their time."""
    await add(store, "a", key="k")
    await add(store, "other", time=1, key="k")
    await store.create_many([NewMemory(content="b"), NewMemory(content="c")], scope=BOB, ids=["b", "c"], now=at(2))
    await store.update("a", MemoryChanges(content="x"), scope=ALICE, now=at(3))
    await store.delete("a", scope=ALICE, now=at(4))
    await store.delete_many(ALL, scope=BOB, now=at(5), dry_run=False)
    await add(store, "a", time=6)
    assert await rows(store) == [
        ("a", "alice", 1, False),
        ("a", "alice", 2, False),
        ("b", "bob", 1, False),
        ("c", "bob", 1, False),
        ("a", "alice", 3, False),
        ("a", "alice", 4, True),
        ("b", "bob", 2, True),
        ("c", "bob", 2, True),
        ("a", "alice", 5, False),
    ]
    assert [change.changed_at for change in await feed(store)] == [at(n) for n in (0, 1, 2, 2, 3, 4, 5, 5, 6)]


@clause("MB-110")
async def test_a_put_appends_what_it_changed(store: MemoryBackend) -> None:
    """Applied records and tombstones are changes; stale ones, conflicts and what is there already are none."""
    if Capability.PUT not in store.capabilities:
        return
    records: list[Memory | Tombstone] = [
        record(revision=3), record(revision=2), record(revision=3), record(revision=3, content="x"),
        record(revision=5), tombstone(4), tombstone(6), tombstone(6), tombstone(2, id="b"),
    ]  # fmt: skip
    outcomes = await store.put(records, scope=ALICE)
    assert outcomes[:4] == (PutOutcome.APPLIED, PutOutcome.STALE, PutOutcome.APPLIED, PutOutcome.CONFLICT)
    assert await rows(store) == [
        ("a", "alice", 3, False),
        ("a", "alice", 5, False),
        ("a", "alice", 6, True),
        ("b", "alice", 2, True),
    ]


@clause("MB-110")
async def test_a_purge_appends_deletions(store: MemoryBackend) -> None:
    """Purging a live memory is a deletion at the next revision; one that was deleted before is no change any more."""
    if Capability.PURGE not in store.capabilities:
        return
    for id in ("live", "dead"):
        await add(store, id)
    await store.delete("dead", scope=ALICE, now=at(1))
    before = await rows(store)
    await store.purge(["live", "dead", "unknown"], scope=ALICE, now=at(2))
    assert await rows(store) == [*before, ("live", "alice", 2, True)]
    assert (await feed(store))[-1].changed_at == at(2)


@clause("MB-110")
async def test_nothing_else_appends_a_row(store: MemoryBackend) -> None:
    """Reading, telemetry, expiry, trimming and calls that fail leave the feed as it is."""
    await add(store, "a", key="k")
    await add(store, "b", expires_at=at(10))
    before = await rows(store)
    await store.get("a", scope=ALICE, now=at(1))
    await store.search(SearchQuery(text="words", limit=5), scope=ALICE, now=at(1))
    await store.record_access({"a": 1, "b": 1}, scope=ALICE, now=at(1))
    await store.delete_many(ALL, scope=ALICE, now=at(1), dry_run=True)
    await store.delete_many(MemoryFilter(key="none"), scope=ALICE, now=at(1), dry_run=False)
    await store.health(deep=True)
    assert await store.expire(scope=ALICE, now=at(20), limit=5) == 1
    with pytest.raises(ConflictError):
        await store.update("a", MemoryChanges(content="x"), scope=ALICE, now=at(2), expected_revision=9)
    with pytest.raises(NotFoundError):
        await store.delete("unknown", scope=ALICE, now=at(2))
    assert await rows(store) == before


@clause("MB-111")
@pytest.mark.parametrize("limit", [1, 2, 5, 100])
async def test_reading_resumes_behind_any_cursor(store: MemoryBackend, limit: int) -> None:
    """From each cursor that was given, of a page or of a change, the rest of the feed follows, each change once."""
    start = (await store.changes(scope=EVERYONE, limit=limit)).cursor
    for number in range(5):
        await add(store, f"m{number}")
    whole = await feed(store, limit=limit)
    assert [change.id for change in whole] == [f"m{number}" for number in range(5)]
    assert await feed(store, cursor=start, limit=limit) == whole
    for place, change in enumerate(whole):
        assert await feed(store, cursor=change.cursor, limit=limit) == whole[place + 1 :]
    page = await store.changes(scope=EVERYONE, limit=limit)
    assert await feed(store, cursor=page.cursor, limit=limit) == whole[limit:]
    assert page.more is (limit < 5)


@clause("MB-111")
async def test_the_end_of_the_feed_keeps_its_cursor(store: MemoryBackend) -> None:
    """At the end the page is empty, its cursor leads to what comes next and no further."""
    await add(store, "a")
    end = await end_of_feed(store)
    page = await store.changes(scope=EVERYONE, limit=10, cursor=end)
    assert (page.changes, page.more) == ((), False)
    await add(store, "b")
    for cursor in (end, page.cursor):
        assert [change.id for change in await feed(store, cursor=cursor)] == ["b"]


@clause("MB-111")
async def test_an_owner_sees_their_own_changes(store: MemoryBackend) -> None:
    """In an owner's scope the feed is the owner's alone, page by page, with cursors that work."""
    for number in range(4):
        await add(store, f"a{number}")
        await add(store, f"b{number}", scope=BOB)
        await add(store, f"c{number}", scope=BOB)
    for limit in (1, 3, 100):
        assert [change.id for change in await feed(store, ALICE, limit=limit)] == ["a0", "a1", "a2", "a3"]
    first = await store.changes(scope=ALICE, limit=2)
    assert [change.id for change in await feed(store, ALICE, cursor=first.cursor)] == ["a2", "a3"]
    end = await end_of_feed(store, ALICE)
    await add(store, "b9", scope=BOB)
    assert (await store.changes(scope=ALICE, limit=5, cursor=end)).changes == ()


@clause("MB-112")
async def test_tombstones_are_those_of_what_stayed_deleted(store: MemoryBackend) -> None:
    """Deleted ids have one, unknown, living, expired and recreated ones have none."""
    for id in ("deleted", "living", "again", "many"):
        await add(store, id)
    await add(store, "expired", expires_at=at(1))
    stones = [await store.delete(id, scope=ALICE, now=at(2)) for id in ("deleted", "again")]
    await store.delete_many(MemoryFilter(created_from=at(0)), scope=ALICE, now=at(3), dry_run=True)
    await add(store, "again", time=4)
    await store.expire(scope=ALICE, now=at(5), limit=5)
    ids = ["again", "unknown", "living", "expired", "deleted"]
    assert await store.tombstones(ids, scope=ALICE) == {"deleted": stones[0]}
    await store.delete_many(ALL, scope=ALICE, now=at(6), dry_run=False)
    found = await store.tombstones([*ids, "many"], scope=ALICE)
    assert sorted(found) == ["again", "deleted", "living", "many"]
    assert found["many"].deleted_at == at(6)
    assert await store.tombstones([], scope=ALICE) == {}


@clause("MB-113")
@pytest.mark.parametrize("cursor", ["", "nonsense", "-1", "🥜", "999999999999", "1.5", "a" * 5000, "'; --"])
async def test_a_malformed_cursor_is_refused(store: MemoryBackend, cursor: str) -> None:
    """A cursor that the feed never gave raises CursorError."""
    await add(store, "a")
    with pytest.raises(CursorError):
        await store.changes(scope=EVERYONE, limit=5, cursor=cursor)


@clause("MB-113")
async def test_a_cursor_before_what_was_trimmed_is_refused(store: MemoryBackend) -> None:
    """Whoever missed trimmed changes learns it; who had read them, and the end of the feed, read on."""
    for number in range(6):
        await add(store, f"m{number}", time=number)
    whole = await feed(store)
    assert await store.trim_changes(scope=EVERYONE, before=at(4), limit=3) == 3
    assert await store.trim_changes(scope=EVERYONE, before=at(4), limit=3) == 1
    assert await store.trim_changes(scope=EVERYONE, before=at(4), limit=3) == 0
    for change in whole[:3]:
        with pytest.raises(CursorError):
            await store.changes(scope=EVERYONE, limit=5, cursor=change.cursor)
    assert await feed(store, cursor=whole[3].cursor) == whole[4:]
    assert await store.trim_changes(scope=EVERYONE, before=at(100), limit=100) == 2
    end = whole[-1].cursor
    assert (await store.changes(scope=EVERYONE, limit=5, cursor=end)).changes == ()
    await add(store, "next")
    assert [change.id for change in await feed(store, cursor=end)] == ["next"]
    assert len(await listed(store)) == 7
