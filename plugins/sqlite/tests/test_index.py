import json
from collections import Counter
from datetime import timedelta

import apsw
import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memspine.errors import ConflictError, NotFoundError
from memspine.model import (
    KeywordMatch,
    KeywordQuery,
    Memory,
    MemoryChanges,
    MemoryFilter,
    MemoryRef,
    MemoryType,
    NewMemory,
    Scope,
    SearchQuery,
)
from memspine.ranking import keyword_scores
from memspine.text import asks, memory_terms, query_terms, speaker_terms
from memspine_sqlite import keywords, lexical
from memspine_sqlite.connections import Settings
from memspine_sqlite.keywords import Tokens

from .tools import ALICE, ALL, BOB, EVERYONE, START, add, at, chance, ids_of, opened, run, writer_of

FAST = Settings(synchronous="OFF")
WORDS = ("walnut", "hazel", "garden", "running", "naïve", "日本", "C++", "the")


async def expected(store, terms, *, scope=ALICE, filter=ALL, now=START, limit=100):
    """What a search has to give, by reading every memory."""
    memories = (await store.list(ALL, scope=ALICE, now=now, limit=10_000)).memories
    inside = set(await ids_of(store, scope, now=now, filter=filter))
    counts = {
        m.id: Counter(memory_terms(m.content, key=m.key, metadata=m.metadata, created_at=m.created_at))
        for m in memories
    }
    frequencies = tuple(sum(term in count for count in counts.values()) for term in terms)
    matches = [
        KeywordMatch(
            id=m.id,
            owner=m.owner,
            session=m.session,
            created_at=m.created_at,
            length=counts[m.id].total(),
            frequencies=tuple(counts[m.id][term] for term in terms),
            speaker=tuple(place for place, term in enumerate(terms) if term in speaker_terms(m.metadata)),
            asks=asks(m.content),
        )
        for m in memories
        if m.id in inside and any(counts[m.id][term] for term in terms)
    ]
    found = await store.lexical(KeywordQuery(terms), scope=scope, filter=filter, now=now, limit=limit)
    assert found.statistics.documents == len(memories)
    assert found.statistics.total_length == sum(count.total() for count in counts.values())
    assert found.statistics.document_frequencies == frequencies
    assert found.matched == len(matches)
    assert list(found.matches) == [match for _, match in keyword_scores(matches, found.statistics)][:limit]
    named = {term for m in memories for term in speaker_terms(m.metadata)}
    assert await store.speakers((*terms, "nobody"), scope=scope, now=now) == named & set(terms)


words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
texts = st.tuples(words, st.sampled_from(["", "?"])).map("".join)
ids = st.sampled_from("abcdef")
calls = st.one_of(
    st.tuples(st.just("create"), ids, texts, st.sampled_from(["", "k1", "k2"]), st.sampled_from([None, 5, 50])),
    st.tuples(st.just("update"), ids, texts, st.sampled_from(["", "k1", "k2"])),
    st.tuples(st.just("speaker"), ids, texts, st.sampled_from([None, 5])),
    st.tuples(st.just("put"), ids, texts, texts, st.integers(1, 9)),
    st.tuples(st.just("delete"), ids),
    st.tuples(st.just("batch"), st.lists(st.tuples(ids, texts), max_size=5)),
    st.tuples(st.just("expire")),
    st.tuples(st.just("purge"), ids),
    st.tuples(st.just("delete_many"), st.sampled_from(WORDS)),
)


async def call(store, step, now):
    """Do one step; what a store has to refuse is no failure."""
    match step:
        case ("create", id, text, key, seconds):
            expires = None if seconds is None else now + timedelta(seconds=seconds)
            await add(store, id, text, key=key, expires_at=expires, now=now)
        case ("update", id, text, key):
            await store.update(id, MemoryChanges(content=text, key=key), scope=ALICE, now=now)
        case ("speaker", id, name, seconds):
            expires = None if seconds is None else now + timedelta(seconds=seconds)
            changes = MemoryChanges(metadata={"speaker": name}, expires_at=expires)
            await store.update(id, changes, scope=ALICE, now=now)
        case ("put", id, text, name, revision):
            whole = Memory(id=id, owner="alice", content=text, created_at=now, updated_at=now, revision=revision)
            await store.put([attrs.evolve(whole, metadata={"speaker": name})], scope=ALICE)
        case ("delete", id):
            await store.delete(id, scope=ALICE, now=now)
        case ("batch", pairs):
            new = [NewMemory(content=text, key=f"k{len(text) % 3}") for _, text in pairs]
            await store.create_many(new, scope=ALICE, ids=[id for id, _ in pairs], now=now)
        case ("expire",):
            await store.expire(scope=EVERYONE, now=now, limit=3)
        case ("purge", id):
            await store.purge([id], scope=ALICE, now=now)
        case ("delete_many", word):
            await store.delete_many(MemoryFilter(text=word), scope=ALICE, now=now, dry_run=False)


@pytest.mark.usefixtures("lists")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(calls, min_size=1, max_size=25))
def test_index_and_statistics_follow_every_change(tmp_path_factory, steps):
    """After any calls, matches and statistics are those of the memories that are alive, and the index is sound."""

    async def go():
        async with opened(tmp_path_factory.mktemp("store") / "store.db", FAST) as store:
            await add(store, "foreign", "walnut hazel garden", scope=BOB)
            for number, step in enumerate(steps):
                now = at(number * 3)
                try:
                    await call(store, step, now)
                except (NotFoundError, ConflictError):
                    continue
                await expected(store, query_terms("walnut hazel gardens naïve 日本 C++").terms, now=now)
            health = await store.health(deep=True)
            assert health.ok, health.detail

    run(go())


@pytest.mark.usefixtures("lists")
@pytest.mark.parametrize("walked", [0, 10**9], ids=["rows are read", "an index is walked"])
def test_filters_hold_inside_the_search(tmp_path, monkeypatch, walked):
    """Session and every field of a filter limit the matches, whichever way SQLite goes, and never the statistics."""
    monkeypatch.setattr(lexical, "_WALKED_PER_ROW", walked)
    choice = chance(1)

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            for number in range(120):
                await add(
                    store,
                    f"m{number}",
                    " ".join(choice.choices(WORDS, k=6)),
                    key=f"key {number}" if number % 3 else "",
                    session=f"s{number % 4}",
                    type=list(MemoryType)[number % 3],
                    metadata={"category": "x"} if number % 5 == 0 else {"category": 7},
                    created_at=at(number),
                    expires_at=at(400) if number % 7 == 0 else None,
                )
            await add(store, "foreign", "walnut", scope=BOB)
            await store.update("m50", MemoryChanges(content="walnut"), scope=ALICE, now=at(300))
            terms = query_terms("walnut gardens").terms
            for now in (at(350), at(500)):
                for scope in (ALICE, Scope.of_session("alice", "s1"), Scope.of_session("alice", "none")):
                    for filter in (
                        ALL,
                        MemoryFilter(types=(MemoryType.EPISODIC, MemoryType.FACTUAL)),
                        MemoryFilter(key="key 4"),
                        MemoryFilter(key=""),
                        MemoryFilter(category="x"),
                        MemoryFilter(text="HAZEL"),
                        MemoryFilter(created_from=at(20), created_before=at(90)),
                        MemoryFilter(updated_before=at(300), types=(MemoryType.FACTUAL,)),
                    ):
                        await expected(store, terms, scope=scope, filter=filter, now=now)

    run(go())


@pytest.mark.usefixtures("lists")
def test_ties_are_broken_by_id(tmp_path):
    """Of many memories with the same score those with the smallest ids come, in the order of ids, one's own first."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            names = [f"m{number:03}" for number in range(300)]
            chance(2).shuffle(names)
            new = [NewMemory(content="walnut") for _ in names]
            await store.create_many(new, scope=ALICE, ids=names, now=START)
            await store.create_many(new[:2], scope=Scope.of_owner("global"), ids=["m001", "m002"], now=START)
            await add(store, "zzz", "walnut walnut")
            found = await store.lexical(KeywordQuery(("walnut",)), scope=ALICE, filter=ALL, now=START, limit=5)
            assert [match.id for match in found.matches] == ["zzz", "m000", "m001", "m002", "m003"]
            assert found.matched == 301
            hits = await store.search(SearchQuery(text="walnut", limit=6), scope=Scope.shared("alice"), now=START)
            assert [(hit.memory.id, hit.memory.owner) for hit in hits] == [
                ("zzz", "alice"),
                ("m000", "alice"),
                ("m001", "alice"),
                ("m001", "global"),
                ("m002", "alice"),
                ("m002", "global"),
            ]

    run(go())


def test_tokens_are_the_owners_own():
    """A token belongs to one owner and one store, is always the same there, and holds nothing of the word."""
    mine, other = Tokens(b"a" * 16), Tokens(b"b" * 16)
    tokens = {
        store.token(owner, term) for store in (mine, other) for owner in (1, 16, 17) for term in ("café", "f", "z")
    }
    assert len(tokens) == 18
    assert mine.token(1, "café") == Tokens(b"a" * 16).token(1, "café")
    assert all(token.isascii() and token == token.lower() and token.isalnum() for token in tokens)
    assert mine.token(255, "walnut").startswith("ffz")
    assert "walnut" not in mine.token(255, "walnut")


def test_more_terms_than_are_remembered(monkeypatch):
    """Tokens stay the same when there are more terms than the store remembers."""
    monkeypatch.setattr(keywords, "_CACHED_TOKENS", 10)
    few, many = Tokens(b"a" * 16), Tokens(b"a" * 16)
    assert [few.token(1, f"term {n}") for n in range(50)] == [many.token(1, f"term {n}") for n in range(50)]


@pytest.mark.parametrize("call", ["update", "delete", "purge", "create"])
def test_an_entry_of_another_analysis_is_taken_out(tmp_path, monkeypatch, call):
    """A row whose words another release of Python or of the stemmer saw differently leaves no token behind."""

    def otherwise(content, **_):
        return ["strange", "strange", *content.split(), "stranger"]

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            monkeypatch.setattr(keywords, "memory_terms", otherwise)
            await add(store, "a", "walnut tree", key="k")
            await add(store, "b", "other tree")
            monkeypatch.undo()
            match call:
                case "update":
                    await store.update("a", MemoryChanges(content="hazel"), scope=ALICE, now=at(1))
                case "create":
                    await add(store, "x", "hazel", key="k")
                case "delete":
                    await store.delete("a", scope=ALICE, now=at(1))
                case "purge":
                    await store.purge(["a"], scope=ALICE, now=at(1))
            tokens = store.database.store("test").tokens
            held = writer_of(store).execute("SELECT term, doc >> 8 FROM vocabulary").fetchall()
            assert {term for term, row in held if row == 2} == {
                tokens.token(1, term) for term in ("strange", "stranger", "other", "tree")
            }
            left = {term for term, row in held if row == 1}
            fresh = {tokens.token(1, term) for term in memory_terms("hazel", key="k", metadata={}, created_at=START)}
            assert left == (fresh if call in {"update", "create"} else set())
            assert (await store.health(deep=True)).ok

    run(go())


def test_removing_many_at_once_leaves_nothing(tmp_path):
    """Deleting a large part of a store takes every token out of the index, as deleting one by one does."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            for start in range(0, 2000, 500):
                new = [NewMemory(content=f"walnut tree{n}", session=f"s{n % 2}") for n in range(start, start + 500)]
                await store.create_many(new, scope=ALICE, ids=[f"m{n}" for n in range(start, start + 500)], now=START)
            gone = await store.delete_many(ALL, scope=Scope.of_session("alice", "s1"), now=at(1), dry_run=False)
            assert len(gone) == 1000

            def left(connection):
                rows = {row for (row,) in connection.execute("SELECT DISTINCT doc >> 8 FROM vocabulary")}
                segments = connection.execute("SELECT count(DISTINCT segid) FROM keywords_idx").fetchone()[0]
                options = dict(connection.execute("SELECT k, v FROM keywords_config").fetchall())
                return len(rows), segments, options["secure-delete"]

            assert left(writer_of(store)) == (1000, 1, 1)
            await add(store, "new", "walnut")
            assert len(await store.delete_many(ALL, scope=ALICE, now=at(2), dry_run=False)) == 1001
            assert (left(writer_of(store)))[0] == 0
            assert (await store.health(deep=True)).ok

    run(go())


def misses(path, token):
    """How many pages SQLite has to read to answer for one token."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    keywords.documents_text(connection, "nothing")
    before = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
    found = json.loads(keywords.documents_text(connection, token))
    after = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
    connection.close()
    return after - before, len(found)


def test_other_owners_cost_nothing(tmp_path):
    """Reading the index for an owner touches about as many pages when others store a hundred times as much."""

    async def go(path, *, others):
        async with opened(path, FAST) as store:
            new = [NewMemory(content=f"walnut tree{n} in the garden") for n in range(100)]
            await store.create_many(new, scope=ALICE, ids=[f"m{n}" for n in range(100)], now=START)
            for owner in range(others):
                scope = Scope.of_owner(f"other {owner}")
                await store.create_many(new, scope=scope, ids=[f"m{n}" for n in range(100)], now=START)
            return store.database.store("test").tokens.token(1, "walnut")

    alone = misses(tmp_path / "alone.db", run(go(tmp_path / "alone.db", others=0)))
    crowded = misses(tmp_path / "crowded.db", run(go(tmp_path / "crowded.db", others=100)))
    assert alone[1] == crowded[1] == 100
    assert crowded[0] <= alone[0] + 4


def test_no_call_of_an_owner_reads_the_whole_store(tmp_path):
    """Every statement that a call in the scope of an owner runs finds its rows through an index."""
    statements = {}

    def watch(connection):
        connection.exec_trace = lambda _, sql, values: bool(statements.setdefault(sql, values)) or True

    async def go():
        apsw.connection_hooks.append(watch)
        try:
            async with opened(tmp_path / "store.db", FAST) as store:
                statements.clear()
                session = Scope.of_session("alice", "s")
                await add(store, "a", "walnut", key="k", session="s", expires_at=at(5))
                await add(store, "a", "walnut", key="k", session="s", expires_at=at(5))
                await add(store, "b", "walnut", metadata={"speaker": "Ann"})
                for scope in (ALICE, session):
                    for filter in (ALL, MemoryFilter(key="k", types=(MemoryType.FACTUAL,), created_from=START)):
                        page = await store.list(filter, scope=scope, now=START, limit=1)
                        await store.list(
                            filter, scope=scope, now=START, limit=1, cursor=page.cursor, newest_first=False
                        )
                        await store.list(filter, scope=scope, now=START, limit=1, newest_first=True)
                        await store.count(filter, scope=scope, now=START, by="type")
                        query = KeywordQuery(("walnut",), also=(MemoryRef("alice", "b"),), before=1, after=1)
                        await store.lexical(query, scope=scope, filter=filter, now=START, limit=1)
                    await store.speakers(("walnut", "ann"), scope=scope, now=START)
                await store.list(ALL, scope=EVERYONE, now=START, limit=5)
                await store.get_many(["a", "b"], scope=ALICE, now=START)
                await store.record_access({"a": 1}, scope=ALICE, now=START)
                await store.history("a", scope=ALICE)
                await store.tombstones(["a"], scope=ALICE)
                await store.changes(scope=ALICE, limit=5)
                await store.trim_changes(scope=EVERYONE, before=START, limit=5)
                await store.trim_history(scope=EVERYONE, before=at(9), tombstones_before=at(9), limit=5)
                await store.update("b", MemoryChanges(content="x"), scope=ALICE, now=START)
                await store.delete("b", scope=ALICE, now=START)
                await store.expire(scope=ALICE, now=at(9), limit=5)
                await store.expire(scope=EVERYONE, now=at(9), limit=5)
                return plans(writer_of(store))
        finally:
            apsw.connection_hooks.remove(watch)

    def plans(connection):
        connection.exec_trace = None
        found = []
        for sql, values in statements.items():
            if sql.split()[0] in {"SELECT", "UPDATE", "DELETE", "INSERT"} and "sqlite_schema" not in sql:
                steps = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values or ())
                found.extend((step[3], sql) for step in steps)
        return found

    found = run(go())
    assert len({sql for _, sql in found}) > 20
    allowed = (
        "SCAN json_each",
        "SCAN j VIRTUAL TABLE",
        "SCAN keywords",
        "SCAN vocabulary",
        "SCAN CONSTANT ROW",
        "SCAN (subquery",
    )
    scans = [(plan, sql) for plan, sql in found if plan.startswith("SCAN") and not plan.startswith(allowed)]
    everyone = [(plan, sql) for plan, sql in scans if "FROM memories CROSS JOIN owners" in sql or "FROM owners" in sql]
    assert [pair for pair in scans if pair not in everyone] == []
    assert all("USING INDEX" in plan for plan, sql in everyone if "CROSS JOIN" in sql), everyone
