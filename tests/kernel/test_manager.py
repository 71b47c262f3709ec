"""The façade: owners, checked input, telemetry, history, and what it says about itself."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memspine import MemoryManager
from memspine.contracts import Secret
from memspine.errors import (
    BackendUnavailable,
    CapabilityError,
    ClosedError,
    ConfigError,
    ConflictError,
    InvalidMemoryError,
    NotFoundError,
    ScopeError,
    UnknownPluginError,
)
from memspine.model import Memory, MemoryFilter, MemoryType, NewMemory


def with_manager(settings, test, **options):
    async def run():
        async with MemoryManager(settings, **options) as memory:
            return await test(memory)

    return asyncio.run(run())


def test_what_was_created_is_got_listed_and_found(settings):
    """A created memory comes back from get, list and search, with the backend's name."""

    async def test(memory):
        made = await memory.create("Juno eats duck.", type="episodic", metadata={"speaker": "Mara"})
        assert (made.created, made.backend, made.memory.type) == (True, "store", MemoryType.EPISODIC)
        assert (await memory.get(made.memory.id)).memory == made.memory
        page = await memory.list()
        assert (page.total, page.memories, page.cursor) == (1, (made.memory,), None)
        assert (await memory.search("duck")).hits[0].memory == made.memory

    with_manager(settings, test)


def test_a_key_makes_create_repeatable(settings):
    """Two creates with one key are one memory with one id; its metadata is merged."""

    async def test(memory):
        first = await memory.create("tea", key="drink", metadata={"a": 1, "b": 1})
        second = await memory.create("coffee", key="drink", metadata={"b": 2, "a": None})
        assert second.memory.id == first.memory.id
        assert (second.created, second.memory.revision, second.memory.metadata) == (False, 2, {"b": 2})

    with_manager(settings, test)


def test_owners_do_not_see_each_other(settings):
    """An id of another owner is as unknown as one that never was, for reading and writing."""

    async def test(memory):
        id = (await memory.create("secret", owner="a")).memory.id
        for call in (
            memory.get(id, owner="b"),
            memory.update(id, content="x", owner="b"),
            memory.delete(id, owner="b"),
            memory.history(id, owner="b"),
        ):
            with pytest.raises(NotFoundError):
                await call
        assert (await memory.search("secret", owner="b")).hits == ()
        assert (await memory.list(owner="b")).total == 0
        assert (await memory.get(id, owner="a")).memory.content == "secret"

    with_manager(settings, test)


def test_the_shared_owner_is_read_by_all_and_written_by_management(settings):
    """Memories of `global` join a shared search; writing them takes the management role."""

    async def test(memory):
        with pytest.raises(ScopeError):
            await memory.create("office hours are nine to five", owner="global")
        await memory.create("office hours are nine to five", owner="global", management=True)
        assert (await memory.search("office", owner="a")).hits == ()
        assert len((await memory.search("office", owner="a", shared=True)).hits) == 1

    with_manager(settings, test)


def test_everyone_is_for_management(settings):
    """Listing all owners is refused without the management role."""

    async def test(memory):
        await memory.create("x", owner="a")
        await memory.create("y", owner="b")
        with pytest.raises(ScopeError):
            await memory.list(everyone=True)
        assert (await memory.list(everyone=True, management=True)).total == 2
        assert (await memory.count(everyone=True, management=True, by="owner")).groups == {"a": 1, "b": 1}

    with_manager(settings, test)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("content", {"content": ""}),
        ("content", {"content": "x" * 100_001}),
        ("content", {"content": 7}),
        ("key", {"content": "x", "key": "k" * 513}),
        ("type", {"content": "x", "type": "opinion"}),
        ("owner", {"content": "x", "owner": ""}),
        ("id", {"content": "x", "id": "a/b"}),
        ("id", {"content": "x", "id": "i" * 129}),
        ("metadata", {"content": "x", "metadata": ["list"]}),
        ("metadata", {"content": "x", "metadata": {"a": float("nan")}}),
        ("metadata", {"content": "x", "metadata": {"a": ["x" * 40_000, "y" * 40_000]}}),
        ("metadata.a", {"content": "x", "metadata": {"a": object()}}),
        ("expires_at", {"content": "x", "expires_at": datetime(2026, 1, 1)}),  # noqa: DTZ001 - the point of the case
        ("created_at", {"content": "x", "created_at": "2026-01-01"}),
    ],
)
def test_unusable_input_is_one_clear_error_and_nothing_is_stored(settings, field, arguments):
    """Each unusable value raises InvalidMemoryError with its field, in one line, and the store stays empty."""

    async def test(memory):
        with pytest.raises(InvalidMemoryError) as caught:
            await memory.create(**arguments)
        assert caught.value.field == field
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400
        assert (await memory.list()).total == 0

    with_manager(settings, test)


def test_deep_metadata_is_refused(settings):
    """Metadata deeper than 32 levels raises, also when it is far deeper than the interpreter's own stack."""

    async def test(memory):
        deep: object = 1
        for _ in range(5000):
            deep = [deep]
        with pytest.raises(InvalidMemoryError, match="32 levels"):
            await memory.create("x", metadata={"a": deep})

    with_manager(settings, test)


@hypothesis_settings(max_examples=50, deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=()), min_size=1, max_size=40))
def test_any_text_is_stored_or_refused_with_a_reason(text):
    """Whatever Unicode holds, NUL and lone surrogates included, is stored clean and found equal, and never breaks."""

    async def test(memory):
        made = await memory.create(text)
        made.memory.content.encode()
        assert "\0" not in made.memory.content
        assert (await memory.get(made.memory.id)).memory.content == made.memory.content
        if "\0" in text:
            assert any("NUL" in note for note in made.notes)

    with_manager({"backends": {"store": {"plugin": "reference"}}}, test)


def test_a_batch_is_stored_whole_or_not_at_all(settings):
    """create_many names the index of an unusable item and stores nothing; otherwise it keeps the order."""

    async def test(memory):
        with pytest.raises(InvalidMemoryError) as caught:
            await memory.create_many([NewMemory(content="a"), NewMemory(content="")])
        assert caught.value.index == 1
        assert (await memory.list()).total == 0
        results = await memory.create_many([NewMemory(content=f"m{n}") for n in range(20)])
        assert [result.memory.content for result in results] == [f"m{n}" for n in range(20)]
        page = await memory.list(newest_first=False)
        assert [m.content for m in page.memories] == [f"m{n}" for n in range(20)]

    with_manager(settings, test)


def test_ids_and_memories_of_a_batch_have_to_be_as_many(settings):
    """A batch with more or fewer ids than memories is refused before anything is stored."""

    async def test(memory):
        with pytest.raises(InvalidMemoryError, match="ids"):
            await memory.create_many([NewMemory(content="a"), NewMemory(content="b")], ids=["only-one"])
        assert (await memory.list()).total == 0

    with_manager(settings, test)


def test_updates_expect_a_revision(settings):
    """An update with a stale revision is refused; one with nothing to change is an error of the caller."""

    async def test(memory):
        id = (await memory.create("a", expires_at=datetime(2099, 1, 1, tzinfo=UTC))).memory.id
        updated = await memory.update(id, content="b", expected_revision=1)
        assert updated.memory.revision == 2
        with pytest.raises(ConflictError):
            await memory.update(id, content="c", expected_revision=1)
        assert (await memory.update(id, expires_at=None)).memory.expires_at is None
        with pytest.raises(InvalidMemoryError):
            await memory.update(id)

    with_manager(settings, test)


def test_restore_brings_back_a_state_and_a_deleted_memory(settings):
    """restore makes an earlier state the newest revision, and revives a deleted memory under its id."""

    async def test(memory):
        made = (await memory.create("first", metadata={"a": 1})).memory
        await memory.update(made.id, content="second", metadata={})
        back = await memory.restore(made.id, revision=1)
        assert (back.memory.content, back.memory.metadata, back.memory.revision) == ("first", {"a": 1}, 3)
        tombstone = await memory.delete(made.id)
        again = await memory.restore(made.id, revision=2)
        assert (again.memory.content, again.memory.created_at) == ("second", made.created_at)
        assert again.memory.revision > tombstone.revision
        with pytest.raises(NotFoundError):
            await memory.restore(made.id, revision=99)
        keyed = (await memory.create("tea", key="drink")).memory
        await memory.delete(keyed.id)
        await memory.create("coffee", key="drink", id="another")
        with pytest.raises(ConflictError):
            await memory.restore(keyed.id, revision=1)
        assert (await memory.get("another")).memory.content == "coffee"

    with_manager(settings, test)


def test_delete_many_is_dry_unless_told(settings):
    """delete_many by default only tells which memories it would delete."""

    async def test(memory):
        await memory.create("a", metadata={"category": "x"})
        await memory.create("b")
        ids = await memory.delete_many(MemoryFilter(category="x"))
        assert (len(ids), (await memory.list()).total) == (1, 2)
        assert await memory.delete_many(MemoryFilter(category="x"), dry_run=False) == ids
        assert (await memory.list()).total == 1

    with_manager(settings, test)


def test_purge_leaves_nothing_and_names_the_places(settings):
    """After a purge no call gives the content, and the receipt lists each place, fallbacks too."""
    settings["backends"]["other"] = {"plugin": "reference"}
    settings["memory"] = {"primary": "store", "fallbacks": ["other"]}

    async def test(memory):
        id = (await memory.create("canary")).memory.id
        receipt = await memory.purge([id])
        assert receipt.memories == 1
        assert {place.place for place in receipt.places} >= {"fallback other"}
        assert (await memory.search("canary")).hits == ()
        with pytest.raises(NotFoundError):
            await memory.get(id)

    with_manager(settings, test)


def test_recalls_are_counted_and_previews_are_not(settings):
    """A search counts as an access once it is flushed; a preview, a get and a list do not."""

    async def test(memory):
        id = (await memory.create("duck")).memory.id
        await memory.search("duck", preview=True)
        await memory.get(id)
        await memory.search("duck")
        await memory.search("duck")
        await memory.flush()
        found = (await memory.get(id)).memory
        assert found.access_count == 2
        assert (found.revision, found.last_accessed_at is not None) == (1, True)

    with_manager(settings, test, background=False)


def test_expired_memories_are_absent_and_swept(settings):
    """An expired memory is found by nothing, and maintenance removes it for good."""

    async def test(memory):
        soon = datetime.now(UTC) + timedelta(milliseconds=30)
        id = (await memory.create("gone", expires_at=soon)).memory.id
        await asyncio.sleep(0.05)
        with pytest.raises(NotFoundError):
            await memory.get(id)
        assert (await memory.search("gone")).hits == ()
        report = await memory.maintain()
        assert (report.removed["expire"], report.complete) == (1, True)

    with_manager(settings, test)


def test_maintenance_stops_at_its_budget(settings):
    """With no time at all maintenance does nothing and says that there is more."""

    async def test(memory):
        assert not (await memory.maintain(budget_seconds=0)).complete

    with_manager(settings, test)


def test_what_a_store_cannot_do_is_said(settings, tmp_path):
    """A call that needs a capability the store lacks raises CapabilityError with its name."""

    async def test(memory):
        with pytest.raises(CapabilityError) as caught:
            await memory.backup(tmp_path / "copy.db")
        assert caught.value.capability == "backup"

    with_manager(settings, test)


def test_a_manager_is_used_inside_its_with(settings):
    """Before and after its `with`, every call raises ClosedError; entering twice and leaving twice is harmless."""

    async def run():
        memory = MemoryManager(settings)
        with pytest.raises(ClosedError):
            await memory.list()
        await memory.initialize()
        await memory.initialize()
        await memory.create("x")
        await memory.shutdown()
        await memory.shutdown()
        with pytest.raises(ClosedError):
            await memory.list()

    asyncio.run(run())


def test_constructing_does_nothing():
    """Making a manager reads no file and opens no store, so that a missing file is an error of entering it."""
    memory = MemoryManager("no-such-file.toml")
    with pytest.raises(ConfigError):
        asyncio.run(memory.initialize())


def test_unknown_shapes_and_strategies_are_named(settings):
    """A shape that no plugin knows lists those that are installed; an unknown strategy lists the known ones."""

    async def test(memory):
        with pytest.raises(UnknownPluginError, match=r"openai\.chat"):
            await memory.inject({"messages": []}, shape="openai.chta")
        with pytest.raises(InvalidMemoryError, match="semantic"):
            await memory.search("x", strategy="magic")

    with_manager(settings, test)


def test_many_tasks_lose_nothing(settings):
    """A hundred concurrent creates leave a hundred memories."""

    async def test(memory):
        await asyncio.gather(*(memory.create(f"memory {n}") for n in range(100)))
        assert (await memory.list()).total == 100

    with_manager(settings, test)


@pytest.mark.parametrize("limit", [-1, 10_001, 1.5, True, "7"])
def test_limits_are_checked(settings, limit):
    """A limit that is negative, too large or no whole number raises InvalidMemoryError."""

    async def test(memory):
        with pytest.raises(InvalidMemoryError):
            await memory.list(limit=limit)
        with pytest.raises(InvalidMemoryError):
            await memory.search("x", limit=limit)

    with_manager(settings, test)


def test_an_expiry_that_has_passed_is_refused(settings):
    """Neither create nor update takes an expiry in the past: with a key it would destroy the memory that lives."""

    async def test(memory):
        past = datetime.now(UTC) - timedelta(seconds=1)
        id = (await memory.create("lives", key="k")).memory.id
        for call in (memory.create("new", key="k", expires_at=past), memory.update(id, expires_at=past)):
            with pytest.raises(InvalidMemoryError, match="after now"):
                await call
        assert (await memory.get(id)).memory.content == "lives"

    with_manager(settings, test)


def test_restoring_leaves_a_passed_expiry_out(settings):
    """A state whose expiry has passed comes back without it and with a note, and is there afterwards."""

    async def test(memory):
        soon = datetime.now(UTC) + timedelta(milliseconds=30)
        id = (await memory.create("first", expires_at=soon)).memory.id
        await memory.update(id, content="second", expires_at=None)
        await asyncio.sleep(0.05)
        back = await memory.restore(id, revision=1)
        assert "expiry" in back.notes[0]
        assert (await memory.get(id)).memory.content == "first"

    with_manager(settings, test)


def test_a_miss_during_an_outage_is_an_outage(tmp_path):
    """With a store that cannot be opened, get and get_many raise BackendUnavailable, never "not found" or nothing."""
    (tmp_path / "broken.db").write_bytes(b"no database at all" * 100)
    settings = {
        "memory": {"primary": "broken", "fallbacks": ["store"]},
        "backends": {
            "broken": {"plugin": "sqlite", "path": str(tmp_path / "broken.db")},
            "store": {"plugin": "reference"},
        },
    }

    async def test(memory):
        with pytest.raises(BackendUnavailable, match="no SQLite database"):
            await memory.get("missing")
        with pytest.raises(BackendUnavailable):
            await memory.get_many(["missing"])
        assert "no SQLite database" in (await memory.search("x")).trace.degraded[0]

    with_manager(settings, test)


@pytest.mark.parametrize(
    "change",
    [
        {"content": ""},
        {"content": "x" * 100_001},
        {"created_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - the point of the case
        {"revision": 0},
        {"id": "a/b"},
        {"metadata": {"a": float("inf")}},
    ],
)
def test_whole_records_pass_the_same_door(settings, change):
    """put refuses what create refuses, with the index of the record, and stores nothing of the call."""

    async def test(memory):
        good = (await memory.create("good")).memory
        records = [attrs.evolve(good, id="other"), attrs.evolve(good, **{"id": "third", **change})]
        with pytest.raises(InvalidMemoryError) as caught:
            await memory.put(records)
        assert caught.value.index == 1 or "created_at" in str(caught.value)
        assert (await memory.list()).total == 1

    with_manager(settings, test)


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.purge("juno"),
        lambda memory: memory.get_many("juno"),
        lambda memory: memory.create_many(["juno"]),
        lambda memory: memory.delete_many(None),
        lambda memory: memory.count(by="colour"),
        lambda memory: memory.list(cursor=5),
        lambda memory: memory.delete("x", expected_revision="1"),
        lambda memory: memory.maintain(["everything"]),
        lambda memory: memory.list(session="a", shared=True),
        lambda memory: memory.list(owner="a", everyone=True, management=True),
        lambda memory: memory.create("x", metadata={"a": 10**5000}),
        lambda memory: memory.create("x", metadata={"e\u0301": 1, "\u00e9": 2}),
        lambda memory: memory.inject({"messages": []}, shape="openai.chat", limit=-1),
        lambda memory: memory.inject({"messages": []}, shape="openai.chat", placement="sideways"),
        lambda memory: memory.inject({"messages": []}, shape="openai.chat", max_tokens=-1),
    ],
)
def test_mistakes_of_the_caller_are_named(settings, call):
    """An argument of the wrong kind is InvalidMemoryError in one line, never an outage, a crash or a guess."""

    async def test(memory):
        with pytest.raises(InvalidMemoryError) as caught:
            await call(memory)
        assert "\n" not in str(caught.value)

    with_manager(settings, test)


def test_recalls_are_not_lost_by_leaving(tmp_path):
    """Counts that were not written yet are written when the manager is left, background task or not."""
    settings = {"backends": {"store": {"plugin": "sqlite", "path": str(tmp_path / "m.db")}}}

    async def recall(memory):
        id = (await memory.create("duck", key="k")).memory.id
        await memory.search("duck")
        return id

    async def count(memory):
        return (await memory.list()).memories[0].access_count

    with_manager(settings, recall)
    with_manager(settings, recall, background=False)
    assert with_manager(settings, count) == 2


def test_counts_survive_a_failed_write(settings):
    """Counts whose writing failed are kept, health tells of the trouble, and it is over once they are written."""

    async def test(memory):
        id = (await memory.create("duck")).memory.id
        backend = await memory._open.chain.primary.opened()  # noqa: SLF001 - no public way to break a store
        real = backend.record_access

        async def fails(counts, *, scope, now):
            raise BackendUnavailable("store", "disk error")

        await memory.search("duck")
        backend.record_access = fails
        with pytest.raises(BackendUnavailable):
            await memory.flush()
        backend.record_access = real
        await memory.flush()
        assert (await memory.get(id)).memory.access_count == 1

    with_manager(settings, test, background=False)


def test_a_store_that_is_still_opening_does_not_hold_up_the_fallback(tmp_path):
    """While the primary waits for another process at its opening, a fallback of the same plugin answers in time."""
    import apsw

    locked = tmp_path / "locked.db"
    for path in (locked, tmp_path / "free.db"):
        with_manager({"backends": {"s": {"plugin": "sqlite", "path": str(path)}}}, lambda memory: memory.create("duck"))
    holder = apsw.Connection(str(locked))
    holder.execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE held (x)").fetchall()
    settings = {
        "memory": {"primary": "locked", "fallbacks": ["free"], "deadline_seconds": 0.5},
        "backends": {
            "locked": {"plugin": "sqlite", "path": str(locked), "busy_timeout_seconds": 2.0},
            "free": {"plugin": "sqlite", "path": str(tmp_path / "free.db")},
        },
    }

    async def test(memory):
        result = await memory.search("duck")
        assert (result.trace.backend, len(result.hits)) == ("free", 1)

    try:
        with_manager(settings, test, background=False)
    finally:
        holder.close()


def test_credentials_in_foreign_errors_are_masked(settings, monkeypatch):
    """When a plugin's error quotes the credential that its options refer to, our error does not."""
    import sys
    import types
    from contextlib import asynccontextmanager

    from memspine.contracts import Provider
    from memspine.hookspecs import hookimpl
    from memspine.plugins import PluginEntry, Plugins

    @attrs.frozen
    class Config:
        key: Secret

    @asynccontextmanager
    async def open_leaky(config, context):
        raise ValueError(f"401 for Bearer {config.key.reveal()}")
        yield

    module = types.ModuleType("leaky_plugin")
    module.memspine_memory_backends = hookimpl(
        lambda: [Provider(name="leaky", config_type=Config, open=open_leaky)], specname="memspine_memory_backends"
    )
    monkeypatch.setitem(sys.modules, "leaky_plugin", module)
    monkeypatch.setenv("LEAKY_KEY", "sesame-open")
    plugins = Plugins(find=lambda: [PluginEntry(name="leaky", module="leaky_plugin")])

    async def test(memory):
        with pytest.raises(BackendUnavailable) as caught:
            await memory.list()
        assert "401" in str(caught.value)
        assert "sesame" not in str(caught.value)

    with_manager({"backends": {"x": {"plugin": "leaky", "key": {"env": "LEAKY_KEY"}}}}, test, plugins=plugins)


def test_an_empty_text_is_no_filter(settings):
    """An empty text, which every memory holds, is refused: a variable that is not set must not delete everything."""

    async def test(memory):
        await memory.create("kept")
        with pytest.raises(InvalidMemoryError, match="text"):
            await memory.delete_many(MemoryFilter(text=""), dry_run=False)
        assert (await memory.list()).total == 1

    with_manager(settings, test)


def test_the_configured_owner_is_the_same_as_the_named_one(settings):
    """An owner in the configuration is normalised like one in a call, so that both name the same person."""
    settings["memory"] = {"owner": "re\u0301mi"}

    async def test(memory):
        await memory.create("secret")
        assert (await memory.list(owner="re\u0301mi")).total == 1
        assert (await memory.purge(None, owner="r\u00e9mi")).memories == 1

    with_manager(settings, test)


@pytest.mark.parametrize("strategy", ["hybrid", "semantic", "exact"])
def test_a_blank_question_is_an_empty_one(settings, strategy):
    """A question of blanks is answered as one of nothing at all: nothing has failed."""

    async def test(memory):
        await memory.create("Juno eats duck.")
        blank, empty = [await memory.search(text, strategy=strategy) for text in (" \n\t ", "")]
        assert [hit.memory for hit in blank.hits] == [hit.memory for hit in empty.hits]
        assert blank.trace.degraded == empty.trace.degraded
        assert not any(leg.status == "failed" for leg in blank.trace.legs)

    with_manager(settings, test)


def test_a_search_that_gave_up_says_so(settings, monkeypatch):
    """When retention hides more matches than are ever looked at, the trace says how many were."""
    monkeypatch.setattr("memspine.retrieval.recall.LIMIT_MAX", 60)
    settings["retrieval"] = {"retention_days": 1}

    async def test(memory):
        old = datetime(2020, 1, 1, tzinfo=UTC)
        who = memory.config.memory.owner
        moments = {"created_at": old, "updated_at": old}
        records = [Memory(id=f"m{n}", owner=who, content="duck", **moments) for n in range(100)]
        await memory.put(records)
        result = await memory.search("duck")
        assert result.hits == ()
        assert any("60 of 100" in reason for reason in result.trace.degraded)

    with_manager(settings, test)


def test_counts_say_who_counted(tmp_path):
    """A count that a fallback gave, because `read_fallback` lets it, names the fallback and what failed."""
    (tmp_path / "broken.db").write_bytes(b"no database at all" * 100)
    settings = {
        "memory": {"primary": "broken", "fallbacks": ["store"], "read_fallback": True},
        "backends": {
            "broken": {"plugin": "sqlite", "path": str(tmp_path / "broken.db")},
            "store": {"plugin": "reference"},
        },
    }

    async def test(memory):
        counts = await memory.count(by="type")
        assert (counts.total, counts.backend) == (0, "store")
        assert "no SQLite database" in counts.degraded[0]

    with_manager(settings, test)


def test_what_was_just_added_is_placed_by_meaning(settings):
    """A request that a manager without background work serves gets what was added just before, by meaning as well."""
    settings |= {"vectors": {"plugin": "reference"}, "embedding": {"source": "reference"}}

    async def test(memory):
        await memory.create("Juno eats duck")
        request = {"messages": [{"role": "user", "content": "What does Juno eat?"}]}
        placed = await memory.inject(request, shape="openai.chat")
        assert "duck" in placed.block
        assert {leg.leg for leg in placed.hits[0].legs} == {"keyword", "vector"}

    with_manager(settings, test, background=False)
