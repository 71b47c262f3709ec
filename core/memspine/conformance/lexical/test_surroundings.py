"""Capability lexical: the numbers of what is asked for by name, and of what stands around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import pytest

from memspine.conformance.backend.tools import add, pages
from memspine.conformance.clauses import clause
from memspine.conformance.lexical.indexed import opening_of
from memspine.conformance.lexical.tools import FILTERS, QUESTIONS, SCOPES, ask, fill, refs
from memspine.conformance.reference.keywords import terms_of
from memspine.conformance.samples import ALICE, ALL, BOB, at
from memspine.conformance.subject import Opening, Place
from memspine.contracts import MemoryBackend
from memspine.model import (
    GLOBAL_OWNER,
    KeywordMatch,
    Memory,
    MemoryChanges,
    MemoryFilter,
    MemoryRef,
    MemoryType,
    Neighbour,
    Scope,
)
from memspine.ranking import length_code
from memspine.text import asks, query_terms, speaker_terms

SHARED = Scope.shared("alice")


@pytest.fixture
def store(place: Place) -> Opening:
    """What keeps the keyword index, as a backend."""
    return opening_of(place)


def numbers(memory: Memory, terms: Iterable[str]) -> tuple[object, ...]:
    """What ranking needs of a memory, its length as an index may round it."""
    counts = terms_of(memory)
    frequencies = tuple(counts[term] for term in terms)
    return (memory.session, memory.created_at, frequencies, length_code(counts.total()))


SAID = (
    ("The walnut is ripe.", {"speaker": "Walnut Hazel"}),
    ("Who planted the walnut?  \n", {"speaker": "Hazel"}),
    ("walnut، من زرعها؟", {"speaker": "Łukasz Café"}),
    ("walnut，誰種的？", {"speaker": "東京"}),
    ("Who planted the walnut? I did.", {"speaker": 7}),
    ('She said: "walnut?"', {"speaker": ["Hazel"]}),
    ("walnut", {"note": "Hazel"}),
)
"""Contents and metadata of memories, with and without speakers and questions."""


def told(matches: Sequence[KeywordMatch]) -> dict[MemoryRef, tuple[object, ...]]:
    """What an answer says of memories."""
    return {
        ref: (match.session, match.created_at, match.frequencies, length_code(match.length))
        for ref, match in zip(refs(matches), matches, strict=True)
    }


def around(memories: Iterable[Memory], ref: MemoryRef, *, before: int, after: int) -> set[Neighbour]:
    """The neighbours of one of these memories, no two of which are of one moment."""
    inside = [memory for memory in memories if memory.owner == ref.owner]
    session = next(memory.session for memory in inside if memory.id == ref.id)
    line = [m.id for m in sorted(inside, key=lambda m: m.created_at) if m.session == session and session]
    place = line.index(ref.id) if session else 0
    near = {offset: place + offset for offset in range(-before, after + 1) if offset}
    return {Neighbour(of=ref, id=line[n], offset=offset) for offset, n in near.items() if 0 <= n < len(line)}


ASKED = (
    *(MemoryRef("alice", id) for id in ("m03", "page", "unknown", "m04", "expired", "m03", "foreign", "m00")),
    MemoryRef(GLOBAL_OWNER, "common"),
    MemoryRef("bob", "foreign"),
    MemoryRef("nobody", "m03"),
)


@clause("MB-124", "VS-124")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("name", FILTERS)
async def test_those_asked_for_are_told(store: MemoryBackend, scope: Scope, name: str) -> None:
    """All that the scope has, whatever the filter, with the numbers of a match; nothing else, and no match twice."""
    await fill(store)
    memories = {MemoryRef(memory.owner, memory.id): memory for memory in await pages(store, scope, now=at(100))}
    for question in QUESTIONS:
        terms = query_terms(question).terms
        for limit in (0, 3, 1000):
            found = await ask(store, *terms, scope=scope, filter=FILTERS[name], limit=limit, also=ASKED)
            expected = {ref for ref in ASKED if ref in memories}.difference(refs(found.matches))
            assert told(found.others) == {ref: numbers(memories[ref], terms) for ref in expected}
            assert found.neighbours == ()


@clause("MB-124", "VS-124")
async def test_one_without_a_term_is_told(store: MemoryBackend) -> None:
    """With frequencies of 0, also where nothing matches at all, and where nothing was asked."""
    await add(store, "a", "walnut tree", session="s", time=7)
    await add(store, "b", "hazel")
    (walnut,) = (memory for memory in await pages(store, now=at(100)) if memory.id == "a")
    for terms in (("hazel", "ladder"), ("ladder",), ()):
        found = await ask(store, *terms, also=[MemoryRef("alice", "a")])
        assert told(found.others) == {MemoryRef("alice", "a"): numbers(walnut, terms)}


@clause("MB-124", "VS-124")
async def test_any_number_may_be_asked_for(store: MemoryBackend) -> None:
    """Forty thousand, most of them unknown."""
    for id in ("n7", "n39999"):
        await add(store, id, "walnut")
    many = [MemoryRef("alice", f"n{number}") for number in range(40_000)]
    assert set(refs((await ask(store, "ladder", also=many)).others)) == {many[7], many[39_999]}


@clause("MB-125", "VS-125")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("name", FILTERS)
async def test_neighbours_are_named_and_told(store: MemoryBackend, scope: Scope, name: str) -> None:
    """Those around each of the matches and each that was asked for, whatever the filter and whatever they hold."""
    await fill(store)
    memories = {MemoryRef(memory.owner, memory.id): memory for memory in await pages(store, scope, now=at(100))}
    for limit, before, after in ((0, 1, 1), (2, 2, 0), (3, 0, 3), (1000, 1, 2)):
        terms = query_terms("C++ 東京").terms
        found = await ask(
            store, *terms, scope=scope, filter=FILTERS[name], limit=limit, also=ASKED, before=before, after=after
        )
        matched = refs(found.matches)
        middles = {ref for ref in (*matched, *ASKED) if ref in memories}
        expected = {n for ref in middles for n in around(memories.values(), ref, before=before, after=after)}
        assert set(found.neighbours) == expected
        named = {ref for ref in ASKED if ref in memories} | {MemoryRef(n.of.owner, n.id) for n in expected}
        assert told(found.others) == {ref: numbers(memories[ref], terms) for ref in named.difference(matched)}


@clause("MB-125", "VS-125")
async def test_neighbours_keep_to_their_session(store: MemoryBackend) -> None:
    """By time, and within one moment by arrival; what has expired or was deleted stands in no line."""
    for id, time in {"e": 9, "d": 1, "x": 2, "c": 2, "a": 2, "b": 3}.items():
        await add(store, id, "walnut tree" if id == "c" else "remark", session="s", created_at=at(time))
    await add(store, "other", "remark", session="t", created_at=at(2))
    for id in ("loose", "walnuts", "lost"):
        await add(store, id, "walnut ladder" if id == "walnuts" else "remark", created_at=at(2))
    await add(store, "foreign", "remark", session="s", created_at=at(2), scope=BOB)
    await add(store, "gone", "remark", session="s", created_at=at(2.5), expires_at=at(100))
    await add(store, "deleted", "remark", session="s", created_at=at(2.5))
    await store.delete("deleted", scope=ALICE, now=at(50))
    await store.update("x", MemoryChanges(content="a remark"), scope=ALICE, now=at(60))
    sides = ((1, 1, {-1: "x", 1: "a"}), (9, 0, {-2: "d", -1: "x"}), (0, 9, {1: "a", 2: "b", 3: "e"}))
    for before, after, expected in sides:
        for filter in (ALL, MemoryFilter(text="walnut"), MemoryFilter(created_from=at(2), created_before=at(2.001))):
            found = await ask(store, "tree", filter=filter, before=before, after=after)
            assert {n.offset: n.id for n in found.neighbours} == expected
            assert {n.of for n in found.neighbours} == {MemoryRef("alice", "c")}
            assert sorted(match.id for match in found.others) == sorted(expected.values())
            assert {match.frequencies for match in found.others} == {(0,)}
    lost = [MemoryRef("alice", "gone"), MemoryRef("alice", "deleted"), MemoryRef("bob", "foreign")]
    found = await ask(store, "nothing", also=lost, before=5, after=5)
    assert (found.neighbours, found.others) == ((), ())
    for scope in (ALICE, Scope.of_session("alice", "")):
        loose = await ask(store, "ladder", scope=scope, also=[MemoryRef("alice", "loose")], before=5, after=5)
        assert (loose.neighbours, [match.id for match in loose.others]) == ((), ["loose"])


@clause("MB-126", "VS-126")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
async def test_the_matches_stay_as_they_are(store: MemoryBackend, scope: Scope) -> None:
    """Whatever else is asked: the same matches, the same number of them, the same statistics."""
    await fill(store)
    episodic = MemoryFilter(types=(MemoryType.EPISODIC,))
    for question in QUESTIONS:
        terms = query_terms(question).terms
        for filter in (ALL, episodic):
            for limit in (0, 2, 1000):
                plain = await ask(store, *terms, scope=scope, filter=filter, limit=limit)
                assert (plain.others, plain.neighbours) == ((), ())
                found = await ask(store, *terms, scope=scope, filter=filter, limit=limit, also=ASKED, before=2, after=2)
                assert attrs.evolve(found, others=(), neighbours=()) == plain


@clause("MB-127", "VS-127")
async def test_equal_ids_stay_apart(store: MemoryBackend) -> None:
    """What is asked of one owner's memory is told of that one, and each has the neighbours of its own line."""
    common = Scope.of_owner(GLOBAL_OWNER)
    await add(store, "same", "walnut walnut", session="s", time=1)
    await add(store, "same", "walnut hazel ladder", session="s", time=2, scope=common)
    await add(store, "same", "walnut", session="s", time=3, scope=BOB)
    await add(store, "mine", "remark", session="s", time=4)
    await add(store, "ours", "remark", session="s", time=5, scope=common)
    own, ours = MemoryRef("alice", "same"), MemoryRef(GLOBAL_OWNER, "same")
    both = await ask(store, "walnut", scope=SHARED)
    assert {ref: match.frequencies for ref, match in zip(refs(both.matches), both.matches, strict=True)} == {
        own: (2,),
        ours: (1,),
    }
    for asked, frequencies in ((own, (2, 0)), (ours, (1, 1))):
        found = await ask(store, "walnut", "hazel", scope=SHARED, limit=0, also=[asked])
        assert [(ref, m.frequencies) for ref, m in zip(refs(found.others), found.others, strict=True)] == [
            (asked, frequencies)
        ]
    best = await ask(store, "hazel", scope=SHARED, also=[own, ours], before=5, after=5)
    assert refs(best.matches) == [ours]
    assert set(best.neighbours) == {Neighbour(of=own, id="mine", offset=1), Neighbour(of=ours, id="ours", offset=1)}
    assert set(refs(best.others)) == {own, MemoryRef("alice", "mine"), MemoryRef(GLOBAL_OWNER, "ours")}
    assert refs((await ask(store, "ladder", also=[ours])).others) == []


@clause("MB-128", "VS-128")
async def test_who_said_it_and_whether_it_asks(store: MemoryBackend) -> None:
    """Of the best, of those that were asked for, and of neighbours: by the analysis of the kernel."""
    for number, (content, metadata) in enumerate(SAID):
        await add(store, f"m{number}", content, metadata=metadata, session="s", time=number)
    memories = {memory.id: memory for memory in await pages(store, now=at(100))}
    terms = ("hazel", "walnut", "cafe", "lukasz", "東京", "ladder")
    expected = {
        id: (
            tuple(place for place, term in enumerate(terms) if term in speaker_terms(memory.metadata)),
            asks(memory.content),
        )
        for id, memory in memories.items()
    }
    assert {said for _, said in expected.values()} == {True, False}
    assert len({speaker for speaker, _ in expected.values()}) > 3
    best = await ask(store, *terms)
    assert {match.id: (match.speaker, match.asks) for match in best.matches} == expected
    asked = await ask(store, *terms, limit=0, also=[MemoryRef("alice", id) for id in memories])
    assert {match.id: (match.speaker, match.asks) for match in asked.others} == expected
    near = await ask(store, *terms, limit=1, before=9, after=9)
    assert {match.id: (match.speaker, match.asks) for match in (*near.matches, *near.others)} == expected


@clause("MB-128", "VS-128")
async def test_what_was_changed_is_told_anew(store: MemoryBackend) -> None:
    """After an update of speaker or content the answer knows what is there now."""
    await add(store, "a", "walnut?", metadata={"speaker": "Hazel"})
    await store.update("a", MemoryChanges(metadata={"speaker": "Walnut"}), scope=ALICE, now=at(1))
    (match,) = (await ask(store, "hazel", "walnut")).matches
    assert (match.speaker, match.asks) == ((1,), True)
    await store.update("a", MemoryChanges(content="walnut!", metadata={}), scope=ALICE, now=at(2))
    (match,) = (await ask(store, "hazel", "walnut")).matches
    assert (match.speaker, match.asks) == ((), False)


@clause("MB-129", "VS-129")
async def test_speakers_are_those_of_the_owners(store: MemoryBackend) -> None:
    """All that said a living memory of them, in whatever session; no word that is not in a name."""
    common, now = Scope.of_owner(GLOBAL_OWNER), at(100)
    await add(store, "a", "ladder", metadata={"speaker": "Hazel O'Brien"}, session="s")
    await add(store, "b", "ladder", metadata={"speaker": "hazel"})
    await add(store, "gone", metadata={"speaker": "Almond"}, expires_at=now)
    await add(store, "deleted", metadata={"speaker": "Spring"})
    await add(store, "changed", metadata={"speaker": "Garden"})
    await add(store, "foreign", metadata={"speaker": "Walnut"}, scope=BOB)
    await add(store, "ours", metadata={"speaker": "東京"}, scope=common)
    await store.delete("deleted", scope=ALICE, now=at(1))
    await store.update("changed", MemoryChanges(metadata={"speaker": "Orchard"}), scope=ALICE, now=at(1))
    names = ("hazel", "almond", "spring", "garden", "orchard", "walnut", "東京", "ladder", "%", "haz", "hazel")
    cases = {
        ALICE: {"hazel", "orchard"},
        Scope.of_session("alice", "s"): {"hazel", "orchard"},
        Scope.of_session("alice", "nothing"): {"hazel", "orchard"},
        BOB: {"walnut"},
        SHARED: {"hazel", "orchard", "東京"},
        Scope.of_owner("nobody"): set(),
    }
    for scope, expected in cases.items():
        assert await store.speakers(names, scope=scope, now=now) == frozenset(expected)
    assert await store.speakers((), scope=ALICE, now=now) == frozenset()
    assert "almond" in await store.speakers(names, scope=ALICE, now=at(99.999))
    await store.delete("a", scope=ALICE, now=at(101))
    assert "hazel" in await store.speakers(names, scope=ALICE, now=at(102)), "one of two is left"
    await store.delete("b", scope=ALICE, now=at(103))
    assert await store.speakers(names, scope=ALICE, now=at(104)) == frozenset({"orchard"})
