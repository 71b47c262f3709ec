"""Capability lexical: how terms are stored, settled, removed and kept apart. What they find is in `lexical`."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, BOB, EVERYONE, at
from memspine.conformance.subject import Place
from memspine.conformance.vectors.tools import (
    TURNS,
    Claimed,
    cancelled,
    claim,
    claimed,
    mine,
    queue,
    record,
    space,
    waiting,
)
from memspine.contracts import TermRecord, VectorStore
from memspine.errors import ClosedError, NotFoundError, ScopeError
from memspine.model import GLOBAL_OWNER, KeywordMatches, KeywordQuery, MemoryFilter, MemoryRef, MemoryType, Scope


def terms(id: str, words: str = "walnut", *, owner: str = "alice", **fields: Any) -> TermRecord:
    """What a memory of these words holds."""
    values: dict[str, Any] = {
        "revision": 1,
        "session": "",
        "type": "factual",
        "created_at": at(0),
        "expires_at": None,
        "speaker": frozenset(),
        "asks": False,
    }
    return TermRecord(id=id, owner=owner, terms=Counter(words.split()), **values | fields)


async def indexed(store: VectorStore, *records: TermRecord, id: str = "space") -> VectorStore:
    """The store with a space that holds these terms."""
    await store.open_space(space(id))
    await store.index_terms(id, records=records)
    return store


async def ask(
    store: VectorStore,
    *words: str,
    scope: Scope = ALICE,
    seconds: float = 100,
    limit: int = 1000,
    id: str = "space",
    **query: Any,
) -> KeywordMatches:
    """What the index answers."""
    question = KeywordQuery(words, **query)
    return await store.lexical(id, question, scope=scope, filter=ALL, now=at(seconds), limit=limit)


async def found(store: VectorStore, *words: str, **options: Any) -> dict[str, tuple[int, ...]]:
    """How often each memory that is found holds each of the words."""
    return {match.id: match.frequencies for match in (await ask(store, *words, **options)).matches}


async def told(store: VectorStore, *words: str, **options: Any) -> KeywordMatches:
    """The answer with what may come in any order put into one."""
    answer = await ask(store, *words, before=2, after=2, **options)
    others = sorted(answer.others, key=lambda match: (match.owner, match.id))
    near = sorted(answer.neighbours, key=lambda one: (one.of, one.offset))
    return attrs.evolve(answer, others=tuple(others), neighbours=tuple(near))


async def state(store: VectorStore, *ids: str, seconds: float = 100) -> list[object]:
    """All that the index tells, of everybody, in these spaces."""
    words, names = ("walnut", "hazel", "ladder"), ("hazel", "almond")
    found: list[object] = []
    for id in ids:
        for scope in (ALICE, BOB, Scope.shared("alice")):
            found.append(await told(store, *words, scope=scope, id=id, seconds=seconds))
            found.append(await store.speakers(id, names, scope=scope, now=at(seconds)))
            found.append(await store.count(id, scope=scope, now=at(seconds)))
        found.append(await store.count(id, scope=EVERYONE, now=at(seconds)))
    return found


@clause("VS-130")
async def test_a_newer_revision_replaces_the_terms(store: VectorStore) -> None:
    """All of them, with speaker and asking; an older one is passed over, the same one replaces again."""
    said: dict[str, Any] = {"speaker": frozenset({"hazel"}), "asks": True}
    await indexed(store, terms("m", "walnut walnut garden", **said), terms("other", "garden"))
    await store.index_terms("space", records=[terms("m", "walnut ladder", revision=3, session="t")])
    for _ in range(2):
        answer = await ask(store, "walnut", "garden", "ladder")
        assert {m.id: (m.frequencies, m.session, m.asks) for m in answer.matches} == {
            "m": ((1, 0, 1), "t", False),
            "other": ((0, 1, 0), "", False),
        }
        assert (answer.statistics.documents, answer.statistics.total_length) == (2, 3)
        assert answer.statistics.document_frequencies == (1, 1, 1)
        assert await store.speakers("space", ["hazel"], scope=ALICE, now=at(0)) == frozenset()
        await store.index_terms("space", records=[terms("m", "walnut garden", revision=2, **said)])
    await store.index_terms("space", records=[terms("m", "hazel", revision=3)])
    assert await found(store, "walnut", "ladder", "hazel") == {"m": (0, 0, 1)}
    await store.index_terms("space", records=[])


@clause("VS-130")
async def test_of_one_call_the_newest_revision_stays(store: VectorStore) -> None:
    """In whatever order they stand; what has no terms at all is held as well."""
    records = [terms("m", "ladder", revision=2), terms("m", "walnut", revision=3), terms("m", "hazel", revision=1)]
    await indexed(store, *records, terms("empty", ""))
    assert await found(store, "walnut", "ladder", "hazel") == {"m": (1, 0, 0)}
    answer = await ask(store, "walnut", also=tuple(mine("empty")))
    assert [(match.id, match.length) for match in answer.others] == [("empty", 0)]
    assert answer.statistics.documents == 2
    assert await queue(store, "m", "empty", revision=3) == 1


@clause("VS-130")
async def test_any_number_is_indexed(store: VectorStore) -> None:
    """Thousands of memories in one call, and a memory of thousands of terms."""
    many = [terms(f"n{number}", f"walnut w{number}") for number in range(5000)]
    await indexed(store, *many, terms("long", " ".join(f"filler{n}" for n in range(20_000)) + " ladder" * 300))
    assert (await ask(store, "walnut", limit=3)).matched == 5000
    assert await found(store, "w4999", "filler19999") == {"n4999": (1, 0), "long": (0, 1)}
    assert await found(store, "ladder") == {"long": (300,)}


@clause("VS-130")
async def test_a_cancelled_call_is_whole_or_absent(store: VectorStore) -> None:
    """All of its memories are there and settled, or none is, and the store works on."""
    await indexed(store, id="other")
    for turns in TURNS:
        id = f"space{turns}"
        await store.open_space(space(id))
        ids = [f"m{n}" for n in range(30)]
        await store.enqueue(id, revisions=dict.fromkeys(mine(*ids), 1), position="p")
        done = await cancelled(store.index_terms(id, records=[terms(name) for name in ids]), turns=turns)
        await store.index_terms("other", records=[terms(f"after{turns}")])
        stored, left = len(await found(store, "walnut", id=id)), await waiting(store, id=id)
        assert (stored, left) in ([(30, 0)] if done else [(0, 30), (30, 0)])
    assert len(await found(store, "walnut", id="other")) == len(TURNS)


@clause("VS-130")
async def test_many_tasks_lose_no_terms(store: VectorStore) -> None:
    """Batches that arrive at once are all there, the newest revision of each memory."""
    await indexed(store)
    batches = [
        store.index_terms("space", records=[terms(f"m{n}", f"walnut w{n}"), terms("same", f"v{n}", revision=n)])
        for n in range(1, 31)
    ]
    await asyncio.gather(*batches)
    answer = await ask(store, "walnut")
    assert {match.id for match in answer.matches} == {f"m{n}" for n in range(1, 31)}
    assert answer.statistics.documents == 31
    assert await found(store, *(f"v{n}" for n in range(1, 31))) == {"same": (*[0] * 29, 1)}


@clause("VS-131")
async def test_what_is_indexed_is_queued_no_more(store: VectorStore) -> None:
    """Leased, postponed or free, at its revision or a newer one; what is queued at a newer revision stays."""
    await indexed(store, terms("held", revision=3))
    asked = {"held": 3, "leased": 1, "postponed": 1, "free": 1, "newer": 5, "stays": 1}
    assert [await queue(store, id, revision=revision) for id, revision in asked.items()] == [0, 1, 1, 1, 1, 1]
    assert await claimed(store, limit=2) == ["leased", "postponed"]
    await store.postpone("space", refs=mine("postponed"), holder="one", until=at(90), reason="slow")
    await store.index_terms(
        "space", records=[terms("leased"), terms("postponed"), terms("free", revision=2), terms("newer", revision=4)]
    )
    assert await claim(store) == [Claimed("newer", 5), Claimed("stays", 1)]
    await store.index_terms("space", records=[terms("newer", revision=4)])
    assert await claim(store) == [Claimed("newer", 5)], "its lease has ended"
    assert await queue(store, "leased", "free") == 0
    assert await queue(store, "leased", "held", revision=4) == 2
    assert await claimed(store, "two") == ["leased", "held"]
    await store.settle("space", revisions=dict(zip(mine("leased", "held"), (4, 2), strict=True)), holder="two")
    assert (await claim(store), list(await found(store, "walnut"))) == (
        [Claimed("held", 4)],
        ["free", "held", "newer", "postponed"],
    )


@clause("VS-131")
async def test_count_counts_what_is_indexed(store: VectorStore) -> None:
    """Living memories of the scope, whatever terms they hold."""
    await indexed(
        store,
        *(terms(f"m{n}", "walnut " * n) for n in range(3)),
        terms("session", session="s"),
        terms("expired", expires_at=at(10)),
        terms("x", owner="bob"),
        terms("common", owner=GLOBAL_OWNER),
    )
    scopes = (ALICE, Scope.of_session("alice", "s"), Scope.shared("alice"), BOB, EVERYONE, Scope.of_owner("al"))
    assert [await store.count("space", scope=scope, now=at(10)) for scope in scopes] == [4, 1, 5, 1, 6, 0]
    assert await store.count("space", scope=ALICE, now=at(9)) == 5


async def fill(store: VectorStore) -> None:
    """Two spaces of terms, and one of vectors, with memories of several owners that share ids, sessions, words."""
    for id in ("a", "b"):
        said = {"a": frozenset({"hazel"}), "b": frozenset({"almond", "hazel"})}[id]
        for owner in ("alice", "bob", GLOBAL_OWNER):
            await indexed(
                store,
                terms("m", "walnut walnut hazel", owner=owner, session="s", speaker=said),
                terms("n", "walnut ladder", owner=owner, session="s", created_at=at(1)),
                terms("o", f"hazel {id}", owner=owner, session="t", created_at=at(2), speaker=frozenset({"hazel"})),
                terms("p", "ladder", owner=owner, session="s", created_at=at(3), expires_at=at(50)),
                id=id,
            )
    await store.open_space(space("vectors"))
    await store.upsert("vectors", records=[record("m"), record("v")])


@clause("VS-132")
async def test_what_is_deleted_is_gone_everywhere(store: VectorStore) -> None:
    """From every space, statistics, neighbours and speakers included; nothing of others."""
    await fill(store)
    before = await state(store, "a", "b")
    await store.delete([])
    await store.delete([MemoryRef("carol", "m"), MemoryRef("alice", "unknown")])
    assert await state(store, "a", "b") == before
    await store.delete([*mine("m", "o"), *mine(*(f"x{number}" for number in range(40_000)))])
    for id in ("a", "b"):
        answer = await ask(store, "walnut", "hazel", id=id, before=5, after=5)
        assert [(match.id, match.frequencies) for match in answer.matches] == [("n", (1, 0))]
        assert (answer.statistics.documents, answer.statistics.total_length) == (1, 2)
        assert (answer.others, answer.neighbours) == ((), ())
        assert await store.speakers(id, ["hazel", "almond"], scope=ALICE, now=at(0)) == frozenset()
        assert set(await found(store, "walnut", id=id, scope=BOB)) == {"m", "n"}
        assert await queue(store, "m", "n", id=id) == 1
    await store.index_terms("a", records=[terms("m", "ladder")])
    assert await found(store, "walnut", "hazel", "ladder", id="a") == {"n": (1, 0, 1), "m": (0, 0, 1)}


@clause("VS-132", "VS-16")
async def test_what_is_purged_is_gone_everywhere(store: VectorStore) -> None:
    """The given ids of one owner, in a session what lies in it, or all that the owner has; each counts once."""
    await fill(store)
    inside = Scope.of_session("alice", "t")
    assert (await store.purge(["m", "o", "unknown"], scope=inside)).memories == 1
    for id in ("a", "b"):
        assert set(await found(store, "walnut", "hazel", id=id)) == {"m", "n"}
        assert (await ask(store, "walnut", id=id)).statistics.documents == 2
    receipt = await store.purge(["m"], scope=ALICE)
    assert receipt.memories == 1
    assert all(place.place and (place.status == "erased" or place.detail) for place in receipt.places)
    for id in ("a", "b"):
        assert set(await found(store, "walnut", "hazel", id=id)) == {"n"}
        assert set(await found(store, "walnut", "hazel", id=id, scope=BOB)) == {"m", "n", "o"}
    assert (await store.purge(None, scope=inside)).memories == 0
    assert (await store.purge(None, scope=ALICE)).memories == 3
    for id in ("a", "b"):
        assert (await ask(store, "walnut", "ladder", id=id, seconds=0)).statistics.documents == 0
        assert await store.speakers(id, ["hazel"], scope=ALICE, now=at(0)) == frozenset()
        assert await store.speakers(id, ["hazel"], scope=BOB, now=at(0)) == {"hazel"}
    assert await store.count("vectors", scope=ALICE, now=at(0)) == 0
    assert (await store.health(deep=True)).ok is True


@clause("VS-132", "VS-18")
async def test_what_has_expired_is_removed(store: VectorStore) -> None:
    """From every space, at most so many memories at once; nothing that lives, and nothing that is queued."""
    await fill(store)
    await store.upsert("vectors", records=[record("p", expires_at=at(40)), record("q", expires_at=at(60))])
    await queue(store, "p", "q", revision=2, id="a")
    alive = await state(store, "a", "b")
    assert await store.expire(now=at(39), limit=9) == 0
    assert [await store.expire(now=at(50), limit=2) for _ in range(3)] == [2, 1, 0]
    assert await state(store, "a", "b", seconds=0) == alive
    assert await store.expire(now=at(60), limit=9) == 1
    assert await store.count("vectors", scope=ALICE, now=at(0)) == 2
    assert await claimed(store, id="a") == ["p", "q"]


@clause("VS-132", "VS-4")
async def test_a_dropped_space_takes_its_terms_along(store: VectorStore) -> None:
    """The other spaces stay as they were; made again, it is empty."""
    await fill(store)
    before = await state(store, "b")
    await store.drop_space("a")
    with pytest.raises(NotFoundError):
        await ask(store, "walnut", id="a")
    assert await state(store, "b") == before
    await store.open_space(space("a"))
    assert (await ask(store, "walnut", id="a")).statistics.documents == 0
    assert await store.speakers("a", ["hazel"], scope=ALICE, now=at(0)) == frozenset()
    assert await store.count("a", scope=EVERYONE, now=at(0)) == 0
    assert await queue(store, "m", id="a") == 1


@clause("VS-133")
async def test_spaces_keep_their_terms_apart(store: VectorStore) -> None:
    """Terms, revisions, statistics, speakers, lines and counts are those of the one space."""
    await indexed(store, terms("m", "walnut", revision=5, session="s", speaker=frozenset({"hazel"})), id="a")
    await indexed(store, terms("m", "ladder ladder", revision=2, session="s"), terms("n", session="s"), id="b")
    await indexed(store, id="c")
    assert [await found(store, "walnut", "ladder", id=id) for id in "abc"] == [
        {"m": (1, 0)},
        {"m": (0, 2), "n": (1, 0)},
        {},
    ]
    statistics = [(await ask(store, "walnut", id=id)).statistics for id in "abc"]
    assert [(one.documents, one.total_length, *one.document_frequencies) for one in statistics] == [
        (1, 1, 1),
        (2, 3, 1),
        (0, 0, 0),
    ]
    near = [(await ask(store, "ladder", "walnut", limit=1, before=5, after=5, id=id)).neighbours for id in "abc"]
    assert [[one.id for one in some] for some in near] == [[], ["n"], []]
    spoken = [await store.speakers(id, ["hazel"], scope=ALICE, now=at(0)) for id in "abc"]
    assert spoken == [{"hazel"}, frozenset(), frozenset()]
    assert [await store.count(id, scope=ALICE, now=at(0)) for id in "abc"] == [1, 2, 0]
    assert [await queue(store, "m", revision=3, id=id) for id in "abc"] == [0, 1, 1]


@clause("VS-134")
async def test_terms_outlive_the_store(place: Place) -> None:
    """After opening again the index answers as before, and goes on from there."""
    async with place.open() as store:
        await fill(store)
        await store.delete(mine("o"))
        before = await state(store, "a", "b")
    async with place.open() as store:
        assert await state(store, "a", "b") == before
        await store.index_terms("a", records=[terms("m", "ladder", revision=2)])
        assert await found(store, "walnut", "ladder", id="a") == {"m": (0, 1), "n": (1, 1)}


@clause("VS-135")
async def test_unknown_spaces_and_everyone_are_refused(store: VectorStore) -> None:
    """By every call, also by those that have nothing to do; nobody asks for everyone."""
    await indexed(store, terms("m"))
    calls = (
        store.index_terms("unknown", records=[terms("n")]),
        store.index_terms("unknown", records=[]),
        store.index_terms("unknown", records=[terms("n")], holder="h"),
        store.index_terms("unknown", records=[], holder="h"),
        ask(store, "walnut", id="unknown"),
        ask(store, id="unknown"),
        store.speakers("unknown", ["walnut"], scope=ALICE, now=at(0)),
        store.speakers("unknown", [], scope=ALICE, now=at(0)),
    )
    for call in calls:
        with pytest.raises(NotFoundError):
            await call
    for call in (ask(store, "walnut", scope=EVERYONE), store.speakers("space", ["a"], scope=EVERYONE, now=at(0))):
        with pytest.raises(ScopeError):
            await call
    assert [space.id for space in await store.spaces()] == ["space"]


@clause("VS-135")
async def test_a_closed_index_says_so(place: Place) -> None:
    """After leaving the context every call raises ClosedError."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(place.open())
        await indexed(store, terms("m"))
    calls = (
        store.index_terms("space", records=[]),
        ask(store, "walnut"),
        store.speakers("space", ["walnut"], scope=ALICE, now=at(0)),
    )
    for call in calls:
        with pytest.raises(ClosedError):
            await call


CANARIES = ("Xylocopa9173-id", "Xylocopa9173-session", "xylocopa9173", "xylocopa9174", "xylocopa9175")
"""An id, a session, a term, an earlier term and a name that stand nowhere else."""


def leftovers(folder: Path) -> list[str]:
    """The canaries that stand in a file of the folder."""
    files = {file.name: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}
    return [f"{canary} in {name}" for name, data in files.items() for canary in CANARIES if canary.encode() in data]


@clause("VS-136")
async def test_no_term_is_left(place: Place) -> None:
    """After the receipt says erased, no file holds the id, the session, a name or a term, nor earlier ones."""
    id, session, word, earlier, name = CANARIES
    async with place.open() as store:
        await indexed(store, *(terms(f"other{n}", f"walnut w{n}") for n in range(60)))
        for revision, said in ((1, earlier), (2, word)):
            speaker = frozenset({name})
            one = terms(id, f"walnut {said} {said}", session=session, revision=revision, speaker=speaker)
            await store.index_terms("space", records=[one])
        await queue(store, id, revision=3)
        assert await claimed(store) == [id]
        assert await found(store, word, scope=Scope.of_session("alice", session)) == {id: (2,)}
        receipt = await store.purge([id], scope=ALICE)
        assert receipt.memories == 1
        if any(erased.status != "erased" for erased in receipt.places):
            return  # what the receipt says of the other places is all that it promises
        assert leftovers(place.folder) == [], "while the store is open"
        late = terms(id, word, session=session, revision=3, speaker=frozenset({name}))
        await store.index_terms("space", records=[late], holder="one")
        assert leftovers(place.folder) == [], "after what was claimed before came too late"
        assert len(await found(store, "walnut")) == 60
    assert leftovers(place.folder) == [], "after it was closed"


@clause("VS-137")
async def test_a_holder_indexes_what_is_leased_to_it(store: VectorStore) -> None:
    """What is leased to others or to nobody, or is not queued, stays as it was, queued and held."""
    await indexed(store, terms("held", "ladder"))
    await queue(store, "mine", "raised", "theirs", "free", "held", revision=2)
    assert await claimed(store, "one", limit=2) == ["mine", "raised"]
    assert await claimed(store, "two", limit=1) == ["theirs"]
    await queue(store, "raised", revision=3)
    records = [terms(id, revision=2) for id in ("mine", "raised", "theirs", "free", "held", "unknown")]
    for holder in ("nobody", ""):
        await store.index_terms("space", records=records, holder=holder)
        assert await found(store, "walnut", "ladder") == {"held": (0, 1)}
    for _ in range(2):
        await store.index_terms("space", records=records, holder="one")
        assert await found(store, "walnut") == {"mine": (1,), "raised": (1,)}
    assert (await ask(store, "walnut")).statistics.documents == 3
    await store.index_terms("space", records=[], holder="one")
    assert await claim(store, "three") == [Claimed("raised", 3), Claimed("free", 2), Claimed("held", 2)]
    await store.release("space", refs=mine("theirs"), holder="two")
    await store.index_terms("space", records=records, holder="two")
    assert await claim(store, "three") == [Claimed("theirs", 2)]
    await store.index_terms("space", records=[terms("x", owner="bob"), *records], holder="three")
    assert set(await found(store, "walnut")) == {"mine", "raised", "theirs", "free", "held"}
    assert await waiting(store) == 1, "what was raised"


@clause("VS-137")
async def test_what_was_removed_since_is_not_indexed(store: VectorStore) -> None:
    """Whether it was deleted or purged, and also when it was queued again."""
    await indexed(store)
    for n, remove in enumerate((store.delete(mine("m")), store.purge(["m"], scope=ALICE))):
        await queue(store, "m", revision=n + 1)
        assert await claimed(store) == ["m"]
        await remove
        for left in (0, 1):
            await store.index_terms("space", records=[terms("m", revision=9)], holder="one")
            assert (await found(store, "walnut"), await waiting(store)) == ({}, left)
            await queue(store, "m")
        await store.delete(mine("m"))


@clause("VS-137")
async def test_leases_are_looked_at_in_the_step_that_indexes(store: VectorStore) -> None:
    """A memory that is deleted meanwhile is not there afterwards."""
    await indexed(store)
    for n in range(20):
        (ref,) = mine(f"m{n}")
        await queue(store, ref.id)
        assert await claimed(store) == [ref.id]
        calls = [store.index_terms("space", records=[terms(ref.id)], holder="one"), store.delete([ref])]
        await asyncio.gather(*(calls if n % 2 else reversed(calls)))
        assert await found(store, "walnut") == {}


@clause("VS-120")
async def test_only_what_an_index_knows_is_filtered(store: VectorStore) -> None:
    """Key, category, text and the time of an update are not its matter."""
    await indexed(store, terms("m", type="episodic"), terms("n", created_at=at(5)))
    unknown: dict[str, Any] = {"key": "k", "category": "c", "text": "t", "updated_before": at(-9)}
    known: dict[str, Any] = {"types": (MemoryType.EPISODIC,), "created_before": at(5), "created_from": at(0)}
    for fields, expected in ((unknown, ["m", "n"]), (unknown | known, ["m"])):
        answer = await store.lexical(
            "space", KeywordQuery(("walnut",)), scope=ALICE, filter=MemoryFilter(**fields), now=at(9), limit=9
        )
        assert [match.id for match in answer.matches] == expected
        assert answer.statistics.documents == 2


@clause("VS-121")
async def test_strangers_change_nothing(store: VectorStore) -> None:
    """However many terms others have, before and after, the answer is the same to the last number."""
    words = ("walnut", "hazel", "ladder")
    await fill(store)
    before = await told(store, *words, id="a", limit=2)
    await indexed(
        store,
        *(
            terms(f"s{n}", words[n % 3] + " walnut" * (n % 4), owner=f"stranger{n % 7}", session="s")
            for n in range(500)
        ),
        id="a",
    )
    assert await told(store, *words, id="a", limit=2) == before
    assert set(await found(store, "walnut", id="a", scope=Scope.of_owner("stranger"))) == set()
