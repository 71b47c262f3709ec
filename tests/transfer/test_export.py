"""Exporting: what the lines say, and that importing them gives the same store again."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memspine import MemoryManager
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.conformance.samples import CONTENTS, METADATA, metadata, texts
from memspine.errors import BackendUnavailable, ScopeError
from memspine.model import Memory, MemoryType, NewMemory
from memspine.transfer import export_records, import_items, read_records

SETTINGS = {"backends": {"store": {"plugin": "reference"}}}
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_an_export_says_what_it_is(managed, exported):
    """The first line tells version, time, count and what is not included, the last one that nothing is missing."""

    async def work(manager):
        await manager.create("a", owner="ann")
        first, memory, last = map(json.loads, await exported(manager, owner="ann"))
        assert first["memspine"] == 1
        assert (first["memories"], first["owner"], first["backend"]) == (1, "ann", "store")
        assert datetime.fromisoformat(first["exportedAt"]) <= datetime.now(UTC)
        assert "vectors" in first["notIncluded"]
        assert memory["memory"]["content"] == "a"
        assert last == {"memspine": 1, "end": True, "memories": 1}

    managed(work)


def test_an_empty_store_is_an_export_as_well(managed, exported):
    """Without memories there are a first and a last line."""

    async def work(manager):
        assert len(await exported(manager)) == 2

    managed(work)


def test_memories_come_oldest_first_page_by_page(managed, exported):
    """Pages follow each other through cursors, and every memory is there once."""

    async def work(manager):
        for n in (3, 1, 2):
            await manager.create(str(n), created_at=NOON + timedelta(days=n))
        for size in (1, 2, 3, 4):
            _, *records, _ = map(json.loads, await exported(manager, page_size=size))
            assert [record["memory"]["content"] for record in records] == ["1", "2", "3"]

    managed(work)


def test_the_scope_is_the_callers(managed, exported):
    """Only the owner's memories are exported, only those of the session if one is named; everyone's for management."""

    async def work(manager):
        for owner, session in (("me", "s"), ("me", ""), ("bob", "s")):
            await manager.create(f"{owner} {session}", owner=owner, session=session)

        async def contents(**options):
            _, *records, _ = map(json.loads, await exported(manager, **options))
            return [record["memory"]["content"] for record in records]

        assert await contents(owner="me") == ["me s", "me "]
        assert await contents(owner="me", session="s") == ["me s"]
        assert await contents(everyone=True, management=True) == ["me s", "me ", "bob s"]
        with pytest.raises(ScopeError):
            await contents(everyone=True)

    managed(work)


def test_history_is_told_where_it_is_kept(managed, exported, without):
    """A store without history exports what it has, and the first line says that earlier states are not included."""

    async def work(manager):
        memory = (await manager.create("a")).memory
        await manager.update(memory.id, content="b")
        return list(map(json.loads, await exported(manager)))

    first, record, _ = managed(work)
    assert not any("earlier states" in what for what in first["notIncluded"])
    assert [state["memory"]["content"] for state in record["history"]] == ["a"]
    without("history")
    first, record, _ = managed(work)
    assert first["notIncluded"][0] == "earlier states, which this store does not keep"
    assert "history" not in record


def test_what_is_deleted_meanwhile_is_left_out(managed):
    """A memory that goes after it was listed is not exported; one that changes is exported as it is then."""

    async def work(manager):
        for id in ("a", "b", "c"):
            await manager.create("old", id=id)
            await manager.update(id, content="newer")
        lines = []
        async for line in export_records(manager):
            lines.append(json.loads(line))
            if len(lines) == 2:
                await manager.delete("b")
                await manager.update("c", content="newest")
        assert [(line["memory"]["id"], line["memory"]["content"]) for line in lines[1:-1]] == [
            ("a", "newer"),
            ("c", "newest"),
        ]
        assert lines[-1]["memories"] == 2

    managed(work)


def test_an_export_is_never_made_from_a_fallback(managed, exported, monkeypatch):
    """When the primary does not answer, there is an error and no half of an export, whatever lists may do."""
    chain = {
        "memory": {"primary": "main", "fallbacks": ["old"], "read_fallback": True},
        "backends": {"main": {"plugin": "reference"}, "old": {"plugin": "reference"}},
    }

    listed = ReferenceBackend.list

    async def refuse(self, *args, **options):
        if self.name == "main":
            raise BackendUnavailable("main", "connection refused")
        return await listed(self, *args, **options)

    async def work(manager):
        assert (await manager.list()).backend == "old"
        with pytest.raises(BackendUnavailable, match="an export needs the primary"):
            await exported(manager)

    monkeypatch.setattr(ReferenceBackend, "list", refuse)
    managed(work, chain)


def test_lines_are_lines_to_everybody(managed, exported):
    """No text has a character in it that any reader takes for the end of a line, and JSON gives it back."""

    async def work(manager):
        content = "a\nb\rc\x0bd\x0ce\x1cf\x1dg\x1eh\x85i\u2028j\u2029k"
        await manager.create(content)
        line = (await exported(manager))[1]
        assert line.splitlines() == [line.removesuffix("\n")]
        assert json.loads(line)["memory"]["content"] == content

    managed(work)


# ── there and back ──


async def contents_of(manager):
    """All that a store says of its memories and of what they were."""
    page = await manager.list(limit=10_000, newest_first=False, everyone=True, management=True)
    memories = {(memory.owner, memory.id): (memory, memory.content_hash) for memory in page.memories}
    return memories, {(owner, id): await manager.history(id, owner=owner) for owner, id in memories}


async def there_and_back(fill):
    """Fill a store, export it, import it into an empty one twice, and compare."""
    async with MemoryManager(SETTINGS, background=False) as source, MemoryManager(SETTINGS, background=False) as target:
        await fill(source)
        lines = [line async for line in export_records(source, everyone=True, management=True, page_size=3)]
        file = "".join(lines).encode()
        first = await import_items(target, read_records(io.BytesIO(file), name="-"), management=True, batch_size=4)
        before, after = await contents_of(source), await contents_of(target)
        assert after == before
        assert (first.stored, first.total, first.notes) == (len(before[0]), len(before[0]), ())
        again = await import_items(target, read_records(io.BytesIO(file), name="-"), management=True)
        assert again.unchanged == again.total == first.total
        assert await contents_of(target) == before


@pytest.mark.parametrize("case", CONTENTS)
def test_contents_survive(case):
    """Every text that some store, somewhere, did not give back comes through an export as it was."""

    async def fill(manager):
        await manager.create(CONTENTS[case], key="k" if len(CONTENTS[case]) > 500 else CONTENTS[case])

    asyncio.run(there_and_back(fill))


@pytest.mark.parametrize("case", METADATA)
def test_metadata_survives(case):
    """Metadata comes through an export as the same JSON."""

    async def fill(manager):
        await manager.create("x", metadata=METADATA[case])

    asyncio.run(there_and_back(fill))


TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)
)
FUTURE = st.none() | st.just(datetime(9000, 1, 1, tzinfo=UTC))
FIELDS = st.fixed_dictionaries(
    {"content": texts(min_size=1), "type": st.sampled_from(MemoryType), "metadata": metadata()},
    optional={"session": texts(max_size=5), "expires_at": FUTURE},
)
IDS = st.sampled_from(["a", "b", "c"])
OWNERS = st.sampled_from(["me", "bob"])
ACTIONS = st.lists(
    st.tuples(st.just("create"), OWNERS, IDS, st.sampled_from(["", "", "k", "l"]), FIELDS, st.none() | TIMES)
    | st.tuples(st.just("update"), OWNERS, IDS, FIELDS)
    | st.tuples(st.just("delete"), OWNERS, IDS)
    | st.tuples(st.just("expire"), OWNERS, IDS)
    | st.tuples(st.just("use"), OWNERS, IDS, st.integers(1, 5)),
    max_size=25,
)


async def act(manager, action):
    """Do it, unless the memory is not there or the key is taken."""
    name, owner, id, *arguments = action
    there = (await manager.get_many([id], owner=owner)).get(id)
    if name == "create":
        key, fields, created_at = arguments
        await manager.create(**fields, key=key, created_at=created_at, id=id, owner=owner)
    elif there is None:
        return
    elif name == "update":
        await manager.update(id, **arguments[0], owner=owner)
    elif name == "delete":
        await manager.delete(id, owner=owner)
    elif name == "expire":
        # As a record, because no caller may give a memory an expiry that has passed.
        past = attrs.evolve(there.memory, revision=there.memory.revision + 1, expires_at=NOON)
        await manager.put([past], owner=owner)
    else:
        memory = there.memory
        used = attrs.evolve(
            memory, revision=memory.revision + 1, access_count=memory.access_count + arguments[0], last_accessed_at=NOON
        )
        await manager.put([used], owner=owner)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ACTIONS)
def test_a_store_survives(actions):
    """Whatever was done to a store, an import of its export has the same memories, revisions, telemetry and history."""

    async def fill(manager):
        for action in actions:
            await act(manager, action)

    asyncio.run(there_and_back(fill))


@given(st.lists(st.integers(1, 9), min_size=1, unique=True), TIMES, metadata())
def test_any_revisions_survive(revisions, time, data):
    """Revisions and times are taken as they are, with gaps, before 1970 and in far years."""

    async def fill(manager):
        for revision in sorted(revisions):
            memory = Memory(
                id="a", owner="me", content=str(revision), metadata=data, created_at=time, updated_at=time,
                revision=revision,
            )  # fmt: skip
            await manager.put([memory])

    asyncio.run(there_and_back(fill))


def test_an_import_may_begin_in_the_middle(managed, exported):
    """Importing an export into the store it is from changes nothing; into an older copy, it brings it up to date."""

    async def work(manager):
        for n in range(3):
            await manager.create(f"old {n}", id=f"m{n}")
        old = "".join(await exported(manager)).encode()
        for n in range(3):
            await manager.update(f"m{n}", content=f"new {n}")
        await manager.create("more")
        new = "".join(await exported(manager)).encode()
        before = await contents_of(manager)
        for raw, counts in ((old, (3, 0)), (new, (0, 4))):
            report = await import_items(manager, read_records(io.BytesIO(raw), name="-"))
            assert (report.stale, report.unchanged) == counts
            assert await contents_of(manager) == before
        async with MemoryManager(SETTINGS, background=False) as copy:
            await import_items(copy, read_records(io.BytesIO(old), name="-"))
            report = await import_items(copy, read_records(io.BytesIO(new), name="-"))
            assert (report.stored, report.replaced) == (1, 3)
            assert await contents_of(copy) == before

    managed(work)


def test_an_export_can_be_left(managed):
    """Who stops reading in the middle leaves nothing open."""

    async def work(manager):
        await manager.create_many([NewMemory(content=str(n)) for n in range(10)])
        lines = export_records(manager, page_size=2)
        assert [await anext(lines) for _ in range(4)][1:]
        await lines.aclose()

    managed(work)
