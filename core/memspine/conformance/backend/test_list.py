"""list, count, cursors and filters."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest

from memspine.conformance.backend.tools import LATER, add, listed, pages
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, EVERYONE, at
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import CursorError, ScopeError
from memspine.model import (
    GLOBAL_OWNER,
    KeywordQuery,
    MemoryChanges,
    MemoryFilter,
    MemoryType,
    NewMemory,
    Scope,
    SearchQuery,
)


async def fill(store: MemoryBackend, count: int = 12) -> list[str]:
    """Memories written in no order, several at each time; returns their ids in (created_at, id) order."""
    places = {f"m{(n * 7) % count:02}": n // 3 for n in range(count)}
    for id, time in sorted(places.items(), key=lambda item: item[0][::-1]):
        await add(store, id, created_at=at(time))
    return sorted(places, key=lambda name: (places[name], name))


@clause("MB-40")
@pytest.mark.parametrize("limit", [1, 2, 5, 11, 12, 13, 10_000])
async def test_list_is_in_order_page_by_page(store: MemoryBackend, limit: int) -> None:
    """(created_at, id) order, or exactly reversed, whatever the page size."""
    expected = await fill(store)
    assert await listed(store, limit=limit) == expected
    assert await listed(store, limit=limit, newest_first=True) == expected[::-1]


@clause("MB-40")
async def test_a_limit_of_zero_gives_an_empty_page(store: MemoryBackend) -> None:
    """Nothing was asked for, nothing comes; an empty store gives an empty page too."""
    assert (await store.list(ALL, scope=ALICE, now=at(9), limit=10)).memories == ()
    await fill(store, 3)
    assert (await store.list(ALL, scope=ALICE, now=at(9), limit=0)).memories == ()


@clause("MB-41")
@pytest.mark.parametrize("limit", [1, 3, 4])
@pytest.mark.parametrize("newest_first", [False, True], ids=["oldest", "newest"])
async def test_cursors_visit_everything_once(store: MemoryBackend, limit: int, newest_first: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """What was there throughout is seen exactly once while others are created, deleted and changed in between."""
    ids = await fill(store)
    doomed = set(ids[1::3])
    seen: list[str] = []
    cursor = None
    for turn in range(100):
        page = await store.list(ALL, scope=ALICE, now=at(90), limit=limit, cursor=cursor, newest_first=newest_first)
        seen += [memory.id for memory in page.memories]
        if page.cursor is None:
            break
        cursor = page.cursor
        last = page.memories[-1]
        for id in doomed & {last.id}:  # the very memory that the cursor points at
            await store.delete(id, scope=ALICE, now=at(80))
            doomed.remove(id)
        await add(store, f"new{turn}", created_at=at(turn % 5))
        await store.update(ids[0], MemoryChanges(content=f"changed {turn}"), scope=ALICE, now=at(85))
    steady = Counter(id for id in seen if id in set(ids) - set(ids[1::3]))
    assert steady == Counter(set(ids) - set(ids[1::3]))
    assert max(Counter(seen).values()) == 1


@clause("MB-41")
@pytest.mark.parametrize("scope", [EVERYONE, Scope.shared("a")], ids=str)
async def test_cursors_tell_owners_apart(store: MemoryBackend, scope: Scope) -> None:
    """Memories of several owners with the same id and creation are each visited once."""
    for owner in ("a", GLOBAL_OWNER):
        for id in ("x", "y"):
            await add(store, id, scope=Scope.of_owner(owner))
    for newest_first in (False, True):
        found = await pages(store, scope, limit=1, newest_first=newest_first)
        expected = {("x", "a"), ("x", GLOBAL_OWNER), ("y", "a"), ("y", GLOBAL_OWNER)}
        assert len(found) == 4
        assert {(memory.id, memory.owner) for memory in found} == expected


@clause("MB-41")
async def test_the_last_page_has_no_cursor(store: MemoryBackend) -> None:
    """No cursor leads to an empty page when the last memory was on the page before."""
    await fill(store, 6)
    first = await store.list(ALL, scope=ALICE, now=at(90), limit=3)
    assert first.cursor is not None
    last = await store.list(ALL, scope=ALICE, now=at(90), limit=3, cursor=first.cursor)
    assert (len(last.memories), last.cursor) == (3, None)
    assert (await store.list(ALL, scope=ALICE, now=at(90), limit=6)).cursor is None


MALFORMED = (
    "", "nonsense", "0", "MTIz", "🥜", "ä", "\ud800", "null", "[]", "a" * 5000, "'; --",
    "WyJuIiwwLCJcdWQ4MDAiLCIiXQ", "WyJvIiwwLCJcdWQ4MDAiLCIiXQ",  # lists that hold a lone surrogate
)  # fmt: skip


@clause("MB-42")
@pytest.mark.parametrize("cursor", MALFORMED, ids=ascii)
async def test_a_malformed_cursor_is_refused(store: MemoryBackend, cursor: str) -> None:
    """A cursor that the store did not make raises CursorError, in both directions."""
    await fill(store, 3)
    for newest_first in (False, True):
        with pytest.raises(CursorError):
            await store.list(ALL, scope=ALICE, now=at(9), limit=2, cursor=cursor, newest_first=newest_first)


@clause("MB-42")
async def test_a_cursor_of_the_other_direction_is_refused(store: MemoryBackend) -> None:
    """A list cannot turn around in its middle."""
    await fill(store, 6)
    for newest_first in (False, True):
        page = await store.list(ALL, scope=ALICE, now=at(90), limit=2, newest_first=newest_first)
        with pytest.raises(CursorError):
            await store.list(ALL, scope=ALICE, now=at(90), limit=2, cursor=page.cursor, newest_first=not newest_first)


async def fill_for_filters(store: MemoryBackend) -> None:
    """Memories that differ in every field a filter knows."""
    episodic, procedural = MemoryType.EPISODIC, MemoryType.PROCEDURAL
    await add(store, "a", "Die Straße", key="k", metadata={"category": "food"}, created_at=at(10), time=100)
    await add(store, "b", "100 % sure_thing", type=episodic, metadata={"category": "Food"}, created_at=at(20), time=200)
    await add(store, "c", 'it\'s "quoted" *', type=procedural, key="K", metadata={"category": 1}, created_at=at(30))
    await add(store, "d", "nothing", key="a_b%c", metadata={"category": None}, created_at=at(40))
    await add(store, "e", "ΟΔΟΣ back\\slash", metadata={"categories": "food"}, session="s", created_at=at(40))
    await add(store, "f", "ten 10 percent", metadata={"category": "1"}, created_at=at(50), time=300)


FILTERS = {
    "no filter": (ALL, "abcdef"),
    "one type": (MemoryFilter(types=(MemoryType.EPISODIC,)), "b"),
    "two types": (MemoryFilter(types=(MemoryType.EPISODIC, MemoryType.PROCEDURAL)), "bc"),
    "a type that nobody has": (MemoryFilter(types=(MemoryType.SEMANTIC,)), ""),
    "key": (MemoryFilter(key="k"), "a"),
    "key by case": (MemoryFilter(key="K"), "c"),
    "no key": (MemoryFilter(key=""), "bef"),
    "key with wildcards": (MemoryFilter(key="a_b%c"), "d"),
    "a wildcard as key": (MemoryFilter(key="%"), ""),
    "category": (MemoryFilter(category="food"), "a"),
    "category by case": (MemoryFilter(category="Food"), "b"),
    "category of another kind": (MemoryFilter(category="1"), "f"),
    "category null": (MemoryFilter(category="None"), ""),
    "text in content": (MemoryFilter(text="noth"), "d"),
    "text folds case": (MemoryFilter(text="STRASSE"), "a"),
    "text folds its own case": (MemoryFilter(text="οδος"), "e"),
    "text in key": (MemoryFilter(text="B%C"), "d"),
    "percent is a character": (MemoryFilter(text="0 %"), "b"),
    "percent alone": (MemoryFilter(text="%"), "bd"),
    "underscore is a character": (MemoryFilter(text="sure_"), "b"),
    "underscore alone": (MemoryFilter(text="_"), "bd"),
    "star is a character": (MemoryFilter(text="*"), "c"),
    "single quote": (MemoryFilter(text="it's"), "c"),
    "double quote": (MemoryFilter(text='"quoted"'), "c"),
    "back-slash": (MemoryFilter(text="\\"), "e"),
    "text nowhere": (MemoryFilter(text="food"), ""),
    "created from": (MemoryFilter(created_from=at(40)), "def"),
    "created before": (MemoryFilter(created_before=at(40)), "abc"),
    "created between": (MemoryFilter(created_from=at(20), created_before=at(50)), "bcde"),
    "updated before": (MemoryFilter(updated_before=at(200)), "acde"),
    "updated before, later": (MemoryFilter(updated_before=at(200.001)), "abcde"),
    "all together": (
        MemoryFilter(types=(MemoryType.FACTUAL,), key="k", category="food", text="die", created_before=at(11)),
        "a",
    ),
    "all but one": (MemoryFilter(types=(MemoryType.FACTUAL,), key="k", category="food", created_before=at(10)), ""),
}


@clause("MB-43")
@pytest.mark.parametrize("name", FILTERS)
async def test_every_field_of_a_filter_holds(store: MemoryBackend, name: str) -> None:
    """Each field that is set has to hold, in list, count and paging alike."""
    await fill_for_filters(store)
    filter, expected = FILTERS[name]
    assert await listed(store, filter=filter, limit=2) == [*expected]
    assert (await store.count(filter, scope=ALICE, now=LATER)).total == len(expected)


SCOPES = (
    ALICE,
    Scope.of_owner("nobody"),
    Scope.of_session("alice", "s"),
    Scope.of_session("alice", ""),
    Scope.shared("alice"),
    EVERYONE,
)


GROUPINGS: tuple[Literal["type", "session", "owner"] | None, ...] = (None, "type", "session", "owner")


@clause("MB-44")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
async def test_count_agrees_with_list(store: MemoryBackend, scope: Scope) -> None:
    """In all, by type, by session and by owner, for every filter; empty groups are left out."""
    await fill_for_filters(store)
    await add(store, "a", "Straße", scope=Scope.of_owner(GLOBAL_OWNER), session="s")
    await add(store, "g", "of another", scope=Scope.of_owner("bob"), type=MemoryType.SEMANTIC)
    await add(store, "h", "expired", session="t", expires_at=at(400))
    for name, (filter, _) in FILTERS.items():
        found = await pages(store, scope, filter=filter)
        for by in GROUPINGS:
            counts = await store.count(filter, scope=scope, now=LATER, by=by)
            assert counts.total == len(found), name
            assert dict(counts.groups) == (Counter(str(getattr(memory, by)) for memory in found) if by else {}), name


@clause("MB-45")
async def test_everyone_is_for_list_and_count(store: MemoryBackend) -> None:
    """The scope of everyone sees all owners in list and count."""
    for owner in ("a", "b", GLOBAL_OWNER):
        await add(store, f"of-{owner}", scope=Scope.of_owner(owner))
    assert await listed(store, EVERYONE) == ["of-a", "of-b", f"of-{GLOBAL_OWNER}"]
    counts = await store.count(ALL, scope=EVERYONE, now=at(1), by="owner")
    assert (counts.total, dict(counts.groups)) == (3, {"a": 1, "b": 1, GLOBAL_OWNER: 1})
    assert await store.expire(scope=EVERYONE, now=at(1), limit=10) == 0


@clause("MB-45")
async def test_everyone_is_for_nothing_else(store: MemoryBackend) -> None:
    """Every other call raises ScopeError in the scope of everyone."""
    now, can = at(1), store.capabilities
    refused = [
        store.create(NewMemory(content="c"), scope=EVERYONE, id="a", now=now),
        store.create_many([NewMemory(content="c")], scope=EVERYONE, ids=["a"], now=now),
        store.get("a", scope=EVERYONE, now=now),
        store.get_many(["a"], scope=EVERYONE, now=now),
        store.update("a", MemoryChanges(content="x"), scope=EVERYONE, now=now),
        store.delete("a", scope=EVERYONE, now=now),
        store.delete_many(ALL, scope=EVERYONE, now=now, dry_run=True),
        store.search(SearchQuery(text="a", limit=1), scope=EVERYONE, now=now),
        store.record_access({"a": 1}, scope=EVERYONE, now=now),
    ]
    if Capability.PUT in can:
        refused.append(store.put([], scope=EVERYONE))
    if Capability.CHANGES in can:
        refused.append(store.tombstones(["a"], scope=EVERYONE))
    if Capability.LEXICAL in can:
        refused.append(store.lexical(KeywordQuery(("a",)), scope=EVERYONE, filter=ALL, now=now, limit=1))
        refused.append(store.speakers(["a"], scope=EVERYONE, now=now))
    if Capability.HISTORY in can:
        refused.append(store.history("a", scope=EVERYONE))
    if Capability.PURGE in can:
        refused.append(store.purge(None, scope=EVERYONE, now=now))
    for call in refused:
        with pytest.raises(ScopeError):
            await call
