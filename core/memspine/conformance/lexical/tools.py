"""What the tests of keyword indexes are written with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memspine.conformance.backend.tools import add
from memspine.conformance.samples import ALICE, ALL, BOB, at
from memspine.contracts import MemoryBackend
from memspine.model import (
    GLOBAL_OWNER,
    KeywordMatch,
    KeywordMatches,
    KeywordQuery,
    KeywordStatistics,
    MemoryFilter,
    MemoryRef,
    MemoryType,
    Scope,
)
from memspine.ranking import CODE_LENGTHS, keyword_scores, length_code

WORDS = ("walnut", "hazel", "almond", "spring", "garden", "planting", "trains", "café", "C++", "東京", "ladder")
QUESTIONS = ("walnut", "café in the garden", "who was planting walnuts?", "C++ 東京", "train ladder spring hazel")


def rounded(length: int) -> int:
    """A length as an index may keep it."""
    return CODE_LENGTHS[length_code(length)]


async def fill(store: MemoryBackend) -> None:
    """Memories that share words in many ways, two of them as long as a page."""
    for number in range(24):
        words = [WORDS[(number * step + step) % len(WORDS)] for step in range(1, 2 + number % 5)]
        metadata = {"speaker": "Hazel Walnut"} if number % 7 == 3 else {"note": "walnut"}
        type = MemoryType.EPISODIC if number % 3 == 0 else MemoryType.FACTUAL
        key, session = f"walnut/{number}" if number % 6 == 5 else "", "s" if number % 2 else ""
        await add(
            store, f"m{number:02}", " ".join(words), time=number, metadata=metadata, type=type, key=key, session=session
        )
    await add(store, "page", "walnut " + " ".join(f"filler{n}" for n in range(150)))
    await add(store, "pages", "garden " * 70 + " ".join(f"filler{n}" for n in range(900)))
    await add(store, "expired", "walnut garden", expires_at=at(50))
    await add(store, "foreign", "walnut garden hazel", scope=BOB)
    await add(store, "common", "walnut garden hazel", scope=Scope.of_owner(GLOBAL_OWNER))


async def ask(
    store: MemoryBackend,
    *terms: str,
    scope: Scope = ALICE,
    filter: MemoryFilter = ALL,
    limit: int = 1000,
    also: Iterable[MemoryRef] = (),
    before: int = 0,
    after: int = 0,
) -> KeywordMatches:
    """Ask, and check what holds for every answer."""
    query = KeywordQuery(terms, tuple(also), before, after)
    found = await store.lexical(query, scope=scope, filter=filter, now=at(100), limit=limit)
    told = refs(found.matches) + refs(found.others)
    assert len(set(told)) == len(told), "each memory is told once"
    assert {MemoryRef(n.of.owner, n.id) for n in found.neighbours} <= set(told), "each neighbour is told"
    assert len({(n.of, n.offset) for n in found.neighbours}) == len(found.neighbours)
    return found


def refs(matches: Sequence[KeywordMatch]) -> list[MemoryRef]:
    """Which memories these are."""
    return [MemoryRef(match.owner, match.id) for match in matches]


SCOPES = (ALICE, Scope.of_session("alice", "s"), Scope.shared("alice"), Scope.of_owner("nobody"))
FILTERS = {
    "all": ALL,
    "type": MemoryFilter(types=(MemoryType.EPISODIC,)),
    "age": MemoryFilter(created_from=at(5), created_before=at(15)),
    "text": MemoryFilter(text="garden"),
}


def in_order(matches: Iterable[KeywordMatch], statistics: KeywordStatistics) -> list[str]:
    """The ids as the ranking of the kernel orders them."""
    return [match.id for _, match in keyword_scores(tuple(matches), statistics)]
