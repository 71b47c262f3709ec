import shutil
from collections import Counter

import apsw
import attrs
import pytest

from memspine.contracts import TermRecord
from memspine.model import GLOBAL_OWNER, KeywordQuery, MemoryFilter, MemoryRef, MemoryType, NewMemory, Scope
from memspine.text import asks, memory_terms, speaker_terms
from memspine_sqlite import erasing, keywords, schema
from memspine_sqlite.connections import Settings
from memspine_sqlite.keywords import Tokens
from memspine_sqlite.schema import STEPS, WITH_SPEAKERS

from .tools import ALICE, ALL, BOB, START, add, at, chance, files_with, ids_of, opened, run, value, writer_of
from .vectors import on, opened_vectors, record, refs, space

FAST = Settings(synchronous="OFF", busy_timeout_seconds=2)
CANARY = "qzcanaryxj"
WORDS = ("walnut", "hazel", "almond", "garden", "ladder", "東京", "C++")


def terms(id, *words, owner="alice", revision=1, session="", type="factual", **fields):
    """What a memory of these words holds."""
    return TermRecord(
        id=id,
        owner=owner,
        revision=revision,
        session=session,
        type=type,
        created_at=fields.get("created_at", START),
        expires_at=fields.get("expires_at"),
        terms=Counter(words),
        speaker=frozenset(fields.get("speaker", ())),
        asks=False,
    )


def record_of(memory):
    """What the kernel hands over of a memory."""
    held = memory_terms(memory.content, key=memory.key, metadata=memory.metadata, created_at=memory.created_at)
    return TermRecord(
        id=memory.id,
        owner=memory.owner,
        revision=memory.revision,
        session=memory.session,
        type=memory.type.value,
        created_at=memory.created_at,
        expires_at=memory.expires_at,
        terms=Counter(held),
        speaker=speaker_terms(memory.metadata),
        asks=asks(memory.content),
    )


async def found(store, *words, scope=ALICE, now=START, id="space"):
    """The ids of what holds one of the words, best first."""
    answer = await store.lexical(id, KeywordQuery(words), scope=scope, filter=ALL, now=now, limit=1000)
    return [match.id for match in answer.matches]


async def filled(backend, choice, *, count):
    """Memories of several owners, some of which expire."""
    memories = []
    for owner in ("alice", GLOBAL_OWNER, "bob"):
        new = [
            NewMemory(
                content=" ".join(choice.choices(WORDS, k=choice.randrange(1, 9))) + choice.choice(["", "?"]),
                type=choice.choice(list(MemoryType)),
                session=choice.choice(["", "s", "t"]),
                metadata={"speaker": choice.choice(["Hazel", "Ann Lee"])} if choice.random() < 0.5 else {},
                created_at=at(choice.randrange(30)),
                expires_at=at(50) if choice.random() < 0.2 else None,
            )
            for _ in range(count)
        ]
        ids = [f"m{number}" for number in range(count)]
        written = await backend.create_many(new, scope=Scope.of_owner(owner), ids=ids, now=START)
        memories += [one.memory for one in written]
    return memories


QUESTIONS = (
    KeywordQuery(("walnut",)),
    KeywordQuery(("hazel", "ladder", "nothing"), before=2, after=1),
    KeywordQuery(("東京", "garden"), also=(MemoryRef("alice", "m3"), MemoryRef(GLOBAL_OWNER, "m4")), before=1),
)
FILTERS = (ALL, MemoryFilter(types=(MemoryType.EPISODIC,)), MemoryFilter(created_from=at(5), created_before=at(20)))
SCOPES = (ALICE, BOB, Scope.shared("alice"), Scope.of_session("alice", "s"), Scope.of_owner("nobody"))


@pytest.mark.parametrize("has_numpy", [False, True])
def test_the_answers_are_the_backends(tmp_path, has_numpy):
    """Of the same memories the kept index tells the same as the backend's own, to the last number and in its order."""
    if has_numpy:
        pytest.importorskip("numpy")

    async def go():
        async with opened(tmp_path / "store.db", FAST) as backend:
            store = on(backend)
            await store.open_space(space())
            await store.open_space(space("other"))
            memories = await filled(backend, chance(5), count=600 if has_numpy else 60)
            await store.index_terms("other", records=[terms(f"x{n}", *WORDS) for n in range(50)])
            await store.index_terms("space", records=[record_of(memory) for memory in memories])
            for now in (START, at(50)):
                for scope in SCOPES:
                    names = await store.speakers("space", ["hazel", "ann", "walnut"], scope=scope, now=now)
                    assert names == await backend.speakers(["hazel", "ann", "walnut"], scope=scope, now=now)
                    for query in QUESTIONS:
                        for filter in FILTERS:
                            asked = {"scope": scope, "filter": filter, "now": now, "limit": 20}
                            assert await store.lexical("space", query, **asked) == await backend.lexical(query, **asked)
            assert (await store.health(deep=True)).ok
            assert (await backend.health(deep=True)).ok

    run(go())


def test_whatever_happens_the_index_agrees_with_its_documents(tmp_path):
    """Stored, replaced, deleted, expired and purged at random, it finds what is there, and a deep check is content."""

    async def go():
        choice = chance(7)
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            await store.open_space(space())
            there = {}
            for turn in range(80):
                ids = list(dict.fromkeys(f"m{choice.randrange(40)}" for _ in range(choice.randrange(1, 15))))
                step = choice.random()
                if step < 0.6:
                    records = [
                        terms(
                            id,
                            *choice.choices(WORDS, k=choice.randrange(4)),
                            revision=choice.randrange(1, turn + 2),
                            speaker=choice.sample(WORDS, k=choice.randrange(3)),
                            expires_at=at(turn + 1) if choice.random() < 0.1 else None,
                        )
                        for id in ids
                    ]
                    await store.index_terms("space", records=records)
                    there |= {r.id: r for r in records if r.id not in there or there[r.id].revision <= r.revision}
                elif step < 0.8:
                    await store.delete(refs(*ids))
                    there = {id: one for id, one in there.items() if id not in ids}
                elif step < 0.9:
                    gone = {id for id, one in there.items() if one.expires_at and one.expires_at <= at(turn)}
                    assert await store.expire(now=at(turn), limit=100) == len(gone)
                    there = {id: one for id, one in there.items() if id not in gone}
                else:
                    assert (await store.purge(ids, scope=ALICE)).memories == len(there.keys() & set(ids))
                    there = {id: one for id, one in there.items() if id not in ids}
                for word in WORDS:
                    assert set(await found(store, word)) == {id for id, one in there.items() if word in one.terms}
                spoken = {word for one in there.values() for word in one.speaker}
                assert await store.speakers("space", WORDS, scope=ALICE, now=START) == spoken
            assert (await store.health(deep=True)).ok

    run(go())


def test_no_word_of_a_memory_is_in_the_file(tmp_path):
    """The file of an index has neither terms nor names in the clear, and no two stores call a term the same."""

    async def go():
        for name in ("one", "two"):
            async with opened_vectors(tmp_path / f"{name}.db", FAST) as store:
                await store.open_space(space())
                await store.index_terms("space", records=[terms("a", CANARY, "walnut", speaker=[CANARY])])
                assert await found(store, CANARY) == ["a"]
                assert await store.speakers("space", [CANARY], scope=ALICE, now=START) == {CANARY}
                token = value(store, "SELECT token FROM kept_speakers")
                assert value(store, "SELECT tokens LIKE ? FROM kept_documents", f"{token}%")
                yield token
        assert files_with(tmp_path, CANARY, "walnut") == []

    async def tokens():
        return [token async for token in go()]

    one, two = run(tokens())
    assert one != two


def test_a_purge_leaves_no_token(tmp_path):
    """Not even the hashes of terms that a purged memory ever had are left, in the file and in its backups."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path, FAST) as backend:
            store = on(backend)
            await store.open_space(space())
            await store.index_terms("space", records=[terms(f"m{n}", "walnut", f"w{n}") for n in range(400)])
            for revision, word in enumerate((f"{CANARY}1", f"{CANARY}2"), 1):
                one = terms(CANARY, "walnut", word, revision=revision, session=f"{CANARY} s", speaker=[f"{CANARY}3"])
                await store.index_terms("space", records=[one])
            await backend.backup(tmp_path / "copy.db")
            tokens = Tokens(bytes.fromhex(schema.meta(writer_of(store), "secret")))
            hashes = [tokens.hashed(f"{CANARY}{n}") for n in (1, 2, 3)]
            assert {word for word, _ in files_with(tmp_path, *hashes)} >= {hashes[1], hashes[2]}
            receipt = await store.purge([CANARY], scope=ALICE)
            assert {place.status for place in receipt.places} == {"erased"}
            assert files_with(tmp_path, CANARY, *hashes) == []
            assert len(await found(store, "walnut")) == 400
        assert files_with(tmp_path, CANARY, *hashes) == []
        async with opened_vectors(tmp_path / "copy.db") as copy:
            assert len(await found(copy, "walnut")) == 400
            assert (await copy.health(deep=True)).ok

    run(go())


def test_a_purge_of_the_backend_takes_the_terms_along(tmp_path):
    """Memories that are purged from the file go from an index in it as well, whichever store is asked to."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as backend:
            store = on(backend)
            await store.open_space(space())
            for owner in (ALICE, BOB):
                written = await add(backend, "a", f"{CANARY} walnut", scope=owner, metadata={"speaker": CANARY})
                await store.index_terms(
                    "space", records=[record_of(written), terms(CANARY, "walnut", owner=owner.owner)]
                )
            await backend.purge(None, scope=ALICE, now=START)
            assert (await found(store, "walnut"), await found(store, "walnut", scope=BOB)) == ([], [CANARY, "a"])
            await store.purge(None, scope=BOB)
            assert value(store, "SELECT count(*) FROM kept_documents") == 0
            assert value(store, "SELECT count(*) FROM kept_owners") == 0
            assert await ids_of(backend, BOB) == ["a"]

    run(go())


def test_a_purge_that_was_cut_off_is_finished(tmp_path):
    """What a process removed before it died is erased by the next one that opens the store."""

    async def go():
        path = tmp_path / "store.db"
        async with opened_vectors(path, FAST) as store:
            await store.open_space(space())
            await store.index_terms("space", records=[terms(CANARY, "walnut"), terms("b", "walnut")])
            await store.database.write(
                lambda transaction: erasing.purge_vectors(transaction, [CANARY], scope=ALICE), backend="test"
            )
            shutil.copytree(tmp_path, tmp_path / "after")
        async with opened_vectors(tmp_path / "after" / "store.db") as store:
            assert await found(store, "walnut") == ["b"]
        assert files_with(tmp_path / "after", CANARY) == []

    run(go())


def test_a_purged_owner_leaves_no_name(tmp_path):
    """The name of an owner goes with the last of his terms, and stays as long as there are any."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            for id in ("space", "other"):
                await store.open_space(space(id))
                await store.index_terms(id, records=[terms("a", "walnut", owner=CANARY, session="s")])
            await store.upsert("space", records=[record("v", owner=CANARY)])
            whole = Scope.of_owner(CANARY)
            assert (await store.purge(["v"], scope=whole)).memories == 1
            assert files_with(tmp_path, CANARY) != []
            assert (await store.purge(None, scope=whole)).memories == 1
            assert files_with(tmp_path, CANARY) == []

    run(go())


def test_a_dropped_space_leaves_no_terms(tmp_path):
    """Dropping a space frees all of its rows, and touches none of another space."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            for id in ("space", "other"):
                await store.open_space(space(id))
                records = [terms(f"m{n}", "walnut", owner=owner, speaker=["ann"]) for n in range(9) for owner in "ab"]
                await store.index_terms(id, records=records)
            await store.drop_space("other")
            for table in ("kept_documents", "kept_vocabulary"):
                assert value(store, f"SELECT count(*) FROM {table}") == 18  # noqa: S608 - one of two names
            assert value(store, "SELECT count(*) FROM kept_owners") == value(
                store, "SELECT count(*) FROM kept_speakers"
            )
            await store.drop_space("space")
            counted = " + ".join(
                f"(SELECT count(*) FROM {table})"  # noqa: S608 - one of four names
                for table in ("kept_documents", "kept_vocabulary", "kept_owners", "kept_speakers")
            )
            assert value(store, f"SELECT {counted}") == 0
            assert (await store.health(deep=True)).ok

    run(go())


def test_the_same_words_are_not_indexed_again(tmp_path, monkeypatch):
    """A newer revision with the terms of the one before writes nothing into the index."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            await store.open_space(space())
            one = terms("a", "walnut", "hazel")
            await store.index_terms("space", records=[one])
            monkeypatch.setattr(keywords, "add", lambda _, entries, **__: list(map(pytest.fail, map(str, entries))))
            await store.index_terms("space", records=[attrs.evolve(one, revision=2, session="s", asks=True)])
            answer = await store.lexical(
                "space", KeywordQuery(("hazel",)), scope=Scope.of_session("alice", "s"), filter=ALL, now=START, limit=9
            )
            assert [(match.id, match.asks, match.length) for match in answer.matches] == [("a", True, 2)]
            assert (await store.health(deep=True)).ok

    run(go())


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("UPDATE kept_documents SET terms = terms + 1 WHERE id = 'a'", "the kept keyword index holds 3 tokens"),
        ("INSERT INTO kept_keywords (kept_keywords) VALUES ('delete-all')", "the kept keyword index holds 0 tokens"),
        ("UPDATE kept_owners SET documents = documents + 1", "the statistics of 1 owners do not agree"),
        ("UPDATE kept_owners SET total_length = 0", "the statistics of 1 owners do not agree"),
        ("DELETE FROM kept_speakers", "the counts of speakers do not agree"),
    ],
)
def test_a_deep_check_finds_a_damaged_index(tmp_path, harm, said):
    """A deep check tells when index, documents, statistics and speakers do not agree; a shallow one does not look."""

    async def go():
        async with opened_vectors(tmp_path / "store.db") as store:
            await store.open_space(space())
            await store.index_terms("space", records=[terms("a", "walnut", "hazel", speaker=["ann"]), terms("b", "x")])
            assert (await store.health(deep=True)).ok
            writer_of(store).execute(harm)
            assert (await store.health()).ok
            health = await store.health(deep=True)
            assert not health.ok
            assert said in health.detail

    run(go())


def test_a_store_from_before_the_release_is_brought_up(tmp_path):
    """A store of version 2 that keeps no terms yet gets their tables, and loses nothing."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path, attrs.evolve(FAST, steps=STEPS[:WITH_SPEAKERS])) as backend:
            store = on(backend)
            await add(backend, "a", "walnut", metadata={"speaker": "Ann"})
            await store.open_space(space())
            await store.upsert("space", records=[record("a")])
        connection = apsw.Connection(str(path))
        for table in ("kept_vocabulary", "kept_keywords", "kept_documents", "kept_owners", "kept_speakers"):
            connection.execute(f"DROP TABLE {table}")
        connection.close()
        async with opened(path, FAST) as backend:
            store = on(backend)
            await store.index_terms("space", records=[terms("b", "walnut")])
            assert await found(store, "walnut") == ["b"]
            assert await store.count("space", scope=ALICE, now=START) == 2
            assert await backend.speakers(["ann"], scope=ALICE, now=START) == {"ann"}
            answer = await backend.lexical(KeywordQuery(("walnut",)), scope=ALICE, filter=ALL, now=START, limit=9)
            assert [match.id for match in answer.matches] == ["a"]
            assert (await store.health(deep=True)).ok
            assert (await backend.health(deep=True)).ok

    run(go())


def test_what_a_document_takes(tmp_path):
    """A memory of twenty terms takes less in the file than twice its terms as text would."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            await store.open_space(space())
            choice, sizes = chance(1), []
            for start in (0, 4000):
                records = [
                    terms(
                        f"{n:036x}", *(f"word{choice.randrange(2000)}" for _ in range(20)), session=f"session {n // 40}"
                    )
                    for n in range(start, start + 4000)
                ]
                await store.index_terms("space", records=records)
                sizes.append(value(store, "PRAGMA page_count") * value(store, "PRAGMA page_size"))
            assert (sizes[1] - sizes[0]) / 4000 < 20 * 12 + 500

    run(go())
