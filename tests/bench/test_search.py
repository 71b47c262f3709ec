"""How long a question takes."""

import asyncio
import re
import statistics

import apsw
import pytest

from memspine import times
from memspine.model import KeywordQuery, MemoryFilter, Scope
from memspine.ranking import keyword_scores
from memspine.text import query_terms

from .corpus import EVALUATION, NO_DATA, conversations, new_memories, questions
from .statements import recorded
from .stores import Layout, backend, build, manager
from .timing import milliseconds, milliseconds_of

CANDIDATES = 40  # what the kernel asks a store for when the caller wants 10 and there are only words


@pytest.fixture(autouse=True)
def _needs_data(bench, without_shared):
    if EVALUATION is None or conversations("short") is None or conversations("long") is None:
        bench.missing("search-10000", "search-100000", "index", "index-alone", reason=NO_DATA)
        without_shared(NO_DATA)


@pytest.mark.parametrize(("size", "step"), [(10_000, 1), (100_000, 4)])
def test_search(bench, workshop, request, size, step):
    """A question through MemoryManager, beside the same over the same texts in a bare FTS5 table."""
    path = request.getfixturevalue("ten_thousand" if size == 10_000 else "hundred_thousand")
    table = full_text_table(workshop / f"{size}-bare.db", size)
    product, bare = asyncio.run(compare(path, table, questions()[::step]))
    table.close()
    measured, baseline = statistics.median(product), statistics.median(bare)
    bench.record(
        f"search-{size}",
        measured=measured,
        baseline=f"FTS5 bm25, OR without stop words {baseline:.2f} ms",
        ratio=measured / baseline,
    )
    parts = asyncio.run(profile(path, questions()[:: step * 4]))
    p95 = statistics.quantiles(product, n=20)[-1]
    bench.profile[f"search {size}"] = {
        "p95": round(p95, 2),
        "p95 of bare FTS5": round(statistics.quantiles(bare, n=20)[-1], 2),
        **parts,
        "rest of the kernel": round(measured - sum(parts.values()), 3),
    }


def full_text_table(path, size):
    """The texts as FTS5 keeps them by itself."""
    connection = apsw.Connection(str(path))
    for pragma in ("journal_mode = WAL", "cache_size = -16384"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize='porter unicode61')")
    with connection:
        rows = ((f"{memory.metadata['speaker']}: {memory.content}",) for memory in new_memories(size))
        connection.executemany("INSERT INTO t VALUES (?)", rows)
    return connection


def match_expression(question):
    """A question as `eval_retrieval.Fts(stop=True)` asks it."""
    words = [word for word in re.findall(r"\w+", question.lower()) if word not in EVALUATION.STOP]
    return " OR ".join(f'"{word}"' for word in words) or '""'


async def compare(path, table, asked):
    statement = "SELECT rowid, text FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10"
    product, bare = [], []
    async with manager(path) as memory:
        for turn, question in enumerate(asked[:20] + asked):
            match = match_expression(question)
            took = await milliseconds(memory.search(question))
            beside = milliseconds_of(lambda match=match: table.execute(statement, (match,)).fetchall())
            if turn >= 20:  # the first fill caches
                product.append(took)
                bare.append(beside)
    return product, bare


async def profile(path, asked):
    """The medians of the parts of a search, asked for one by one."""
    scope, now = Scope.of_owner("me"), times.now()
    spent = {"analysis": [], "lexical": [], "hydrate": [], "ranking": []}
    async with backend(path) as store:
        for question in asked:
            spent["analysis"].append(milliseconds_of(lambda question=question: query_terms(question)))
            query = KeywordQuery(query_terms(question).terms)
            found = []

            async def ask(query=query, found=found):
                found.append(await store.lexical(query, scope=scope, filter=MemoryFilter(), now=now, limit=CANDIDATES))

            spent["lexical"].append(await milliseconds(ask()))
            (matches,) = found
            ids = [match.id for match in matches.matches]
            spent["hydrate"].append(await milliseconds(store.get_many(ids, scope=scope, now=now)))
            spent["ranking"].append(
                milliseconds_of(lambda matches=matches: keyword_scores(matches.matches, matches.statistics))
            )
    return {name: round(statistics.median(values), 3) for name, values in spent.items()}


def test_index_of_a_small_owner(bench, workshop, request):
    """The statements that read the keyword index, for an owner of 1 000, in a store of 1 000 000 and in one of 1 000.

    They are the backend's own, recorded while it answers and run again on a bare connection.
    """
    asked = questions()[::2]
    million = request.getfixturevalue("million")  # not before it is known whether there is data to ask for
    alone = build(workshop / "thousand.db", Layout({"small": 1_000}))
    (among_many, big), (by_itself, own) = (index_statements(path, asked) for path in (million, alone))
    large, small = [], []
    for turn in range(4):
        for there, here in zip(among_many, by_itself, strict=True):
            took, beside = (milliseconds_of(lambda c=c, s=s: ask(c, s)) for c, s in ((big, there), (own, here)))
            if turn:  # the first fills caches
                large.append(took)
                small.append(beside)
    big.close()
    own.close()
    measured, baseline = statistics.median(large), statistics.median(small)
    beside = f"in a store of 1 000: {baseline:.3f} ms"
    bench.record("index", measured=measured, baseline=beside, ratio=measured / baseline)
    bench.record("index-alone", measured=measured - baseline, baseline=beside, ratio=measured / baseline)
    bench.profile["index statements"] = {"of a question": round(statistics.mean(map(len, among_many)), 1)}


def index_statements(path, asked):
    """What the backend asks its index for each question, and a bare connection to the same file."""

    async def record():
        found = []
        with recorded() as seen:
            async with backend(path) as store:
                for question in asked:
                    before = {number: len(mine) for number, mine in seen.items()}
                    query = KeywordQuery(query_terms(question).terms)
                    await store.lexical(
                        query, scope=Scope.of_owner("small"), filter=MemoryFilter(), now=times.now(), limit=CANDIDATES
                    )
                    new = [pair for number, mine in seen.items() for pair in mine[before.get(number, 0) :]]
                    found.append([(sql, values) for sql, values in new if "FROM vocabulary" in sql])
        return found

    found = asyncio.run(record())
    assert any(found), "the backend read no index"
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.execute("PRAGMA cache_size = -16384")
    connection.execute("PRAGMA query_only = ON")
    return found, connection


def ask(connection, statements):
    for sql, values in statements:
        connection.execute(sql, values).fetchall()
