import pytest

from memspine.model import GLOBAL_OWNER, KeywordQuery, MemoryFilter, MemoryRef, MemoryType, NewMemory, Scope
from memspine.text import query_terms
from memspine_sqlite import neighbours
from memspine_sqlite.connections import Settings

from .tools import ALICE, START, at, chance, opened, run, writer_of

FAST = Settings(synchronous="OFF")
WORDS = "walnut almond garden spring letter river candle window".split()
NOW = at(50)


def made(seed, *, count=120):
    """Memories of two owners with few times, so that their arrival decides, some of which have expired."""
    choice = chance(seed)
    memories = {}
    for number in range(count):
        owner = choice.choice(["alice", GLOBAL_OWNER])
        memories[MemoryRef(owner, f"m{choice.randrange(10**6)}-{number % 40}")] = NewMemory(
            content=" ".join(choice.choices(WORDS, k=choice.randrange(1, 6))),
            session=choice.choice(["", "s", "t"]),
            type=choice.choice([MemoryType.FACTUAL, MemoryType.EPISODIC]),
            created_at=at(choice.randrange(6)),
            expires_at=choice.choice([None, None, at(40), at(60)]),
        )
    return memories


def around(memories, ref, *, before, after):
    """The neighbours of a memory as a plain loop finds them."""
    if not memories[ref].session:
        return []
    line = [
        place.id
        for place, other in sorted(memories.items(), key=lambda pair: pair[1].created_at)
        if place.owner == ref.owner and other.session == memories[ref].session and is_alive(other)
    ]
    here = line.index(ref.id)
    places = range(max(here - before, 0), min(here + after, len(line) - 1) + 1)
    return [(ref, line[place], place - here) for place in places if place != here]


def is_alive(memory):
    """Whether a memory is there at the time of the question."""
    return memory.expires_at is None or memory.expires_at > NOW


@pytest.mark.usefixtures("lists")
@pytest.mark.parametrize("scope", [ALICE, Scope.shared("alice"), Scope.of_session("alice", "s")], ids=str)
@pytest.mark.parametrize("filter", [MemoryFilter(), MemoryFilter(types=(MemoryType.FACTUAL,))], ids=["all", "some"])
def test_matches_tell_of_their_neighbours(tmp_path, scope, filter):
    """Neighbours and others are those that a plain loop finds, with the numbers that a search for them alone gives."""

    async def go():
        memories = made(4)
        async with opened(tmp_path / "store.db", FAST) as store:
            for ref, memory in memories.items():
                await store.create(memory, scope=Scope.of_owner(ref.owner), id=ref.id, now=START)
            terms = query_terms("walnut garden river").terms
            also = (*tuple(memories)[::5], MemoryRef("alice", "unknown"), MemoryRef("bob", next(iter(memories)).id))
            for limit, before, after in ((0, 1, 1), (4, 0, 0), (5, 2, 1), (30, 1, 3)):
                query = KeywordQuery(terms, also, before, after)
                said = await store.lexical(query, scope=scope, filter=filter, now=NOW, limit=limit)
                plain = await store.lexical(KeywordQuery(terms), scope=scope, filter=filter, now=NOW, limit=limit)
                every = await store.lexical(KeywordQuery(terms), scope=scope, filter=MemoryFilter(), now=NOW, limit=500)
                assert (said.matches, said.matched, said.statistics) == (plain.matches, plain.matched, plain.statistics)
                there = [ref for ref in also if is_there(memories, ref, scope)]
                matched = [MemoryRef(match.owner, match.id) for match in said.matches]
                wanted = [
                    near
                    for ref in dict.fromkeys((*matched, *there))
                    for near in around(memories, ref, before=before, after=after)
                ]
                assert [(one.of, one.id, one.offset) for one in said.neighbours] == wanted
                told = {MemoryRef(other.owner, other.id): other for other in said.others}
                assert len(told) == len(said.others)
                named = {*there, *(MemoryRef(of.owner, id) for of, id, _ in wanted)}
                assert set(told) == named - set(matched)
                numbers = {MemoryRef(match.owner, match.id): match for match in every.matches}
                for ref, other in told.items():
                    if ref in numbers:
                        assert other == numbers[ref]
                    else:
                        assert not any(other.frequencies)
                        assert (other.session, other.created_at) == (memories[ref].session, memories[ref].created_at)

    run(go())


def test_a_long_session_of_one_time_is_not_walked_through(tmp_path):
    """The neighbours of a memory are found through the index alone, however many memories have the same time."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            writer = writer_of(store)
            found = []
            for has_expired in (False, True):
                statement = neighbours.statement_around(has_before=True, has_after=True, has_expired=has_expired)
                found += writer.execute(
                    f"EXPLAIN QUERY PLAN {statement}", dict.fromkeys(("anchors", "before", "after", "at"), 1)
                ).fetchall()
            steps = [step[3] for step in found]
            assert not [step for step in steps if "TEMP B-TREE" in step]
            searches = [step.partition("memories_session ")[2] for step in steps if "SEARCH n" in step]
            assert set(searches) == {
                "(owner=? AND session=? AND created_at=? AND row<?)",
                "(owner=? AND session=? AND created_at<?)",
                "(owner=? AND session=? AND created_at=? AND row>?)",
                "(owner=? AND session=? AND created_at>?)",
            }
            assert len(searches) == 8

    run(go())


def is_there(memories, ref, scope):
    """Whether the scope has a memory."""
    memory = memories.get(ref)
    return (
        memory is not None
        and ref.owner in scope.owners
        and is_alive(memory)
        and scope.session in {None, memory.session}
    )
