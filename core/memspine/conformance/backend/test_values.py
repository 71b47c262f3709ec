"""Values: what is written comes back."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspine.conformance.backend.tools import add, listed, pages, said
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, CONTENTS, METADATA, SETTINGS, at, metadata, texts
from memspine.conformance.subject import Place
from memspine.contracts import MemoryBackend
from memspine.model import (
    CONTENT_LENGTH_MAX,
    KEY_LENGTH_MAX,
    MemoryChanges,
    MemoryType,
    NewMemory,
    SearchQuery,
    canonical_json,
)


@clause("MB-1")
@pytest.mark.parametrize("name", CONTENTS)
async def test_content_comes_back_to_the_last_character(store: MemoryBackend, name: str) -> None:
    """Content, key and session come back as they were from create, get, get_many and list."""
    text = CONTENTS[name]
    assert len(text) <= CONTENT_LENGTH_MAX
    short = text[:KEY_LENGTH_MAX]
    await add(store, "a", text, key=short, session=short)
    expected = (text, short, short)
    got = await store.get("a", scope=ALICE, now=at(1))
    assert got is not None
    many = await store.get_many(["a"], scope=ALICE, now=at(1))
    for memory in (got, many["a"], *await pages(store)):
        assert (memory.content, memory.key, memory.session) == expected


@clause("MB-1")
@pytest.mark.parametrize("type", MemoryType)
async def test_types_come_back(store: MemoryBackend, type: MemoryType) -> None:
    """A type comes back as the value of MemoryType that it was."""
    await add(store, "a", type=type)
    (memory,) = await pages(store)
    assert memory.type is type


@clause("MB-1")
async def test_search_gives_whole_memories(store: MemoryBackend) -> None:
    """What search returns is what get returns."""
    await add(
        store, "a", "walnut\r\n\r\n---\r\n", metadata=METADATA["nested"], session="s", key="k", expires_at=at(500)
    )
    (hit,) = await store.search(SearchQuery(text="walnut", limit=5), scope=ALICE, now=at(1))
    got = await store.get("a", scope=ALICE, now=at(1))
    assert got is not None
    assert said(hit.memory) == said(got)


@clause("MB-1")
async def test_ids_of_every_allowed_form_work(store: MemoryBackend) -> None:
    """Ids are opaque: any of the allowed characters, up to 128, told apart by case."""
    ids = ["a", "A", "0", ".", "..", "-", "_", ":", "a.b:c-d_e", "null", "x" * 128, "CON", "a:", "-rf"]
    for id in ids:
        await add(store, id, f"content of {id}")
    assert sorted(await listed(store)) == sorted(ids)
    for id in ids:
        memory = await store.get(id, scope=ALICE, now=at(1))
        assert memory is not None
        assert (memory.id, memory.content) == (id, f"content of {id}")


@clause("MB-2")
@pytest.mark.parametrize("name", METADATA)
async def test_metadata_come_back_as_the_same_json(store: MemoryBackend, name: str) -> None:
    """Numbers keep their kind, empty strings stay apart from null, nesting stays."""
    written = METADATA[name]
    await add(store, "a", metadata=written)
    (memory,) = await pages(store)
    assert canonical_json(dict(memory.metadata)) == canonical_json(written)
    assert dict(memory.metadata) == written


@clause("MB-1", "MB-2")
@settings(SETTINGS, max_examples=25)
@given(
    drawn=st.lists(
        st.tuples(texts(min_size=1, max_size=200), texts(max_size=30), texts(max_size=30), metadata()),
        min_size=1,
        max_size=12,
        unique_by=lambda values: values[1],
    )
)
def test_any_text_and_metadata_come_back(place: Place, drawn: list[tuple[str, str, str, dict[str, Any]]]) -> None:
    """Whatever the kernel hands over comes back the same."""

    async def round_trip() -> None:
        new = [NewMemory(content=c, key=k, session=s, metadata=m) for c, k, s, m in drawn]
        ids = [str(number) for number in range(len(new))]
        async with place.another().open() as store:
            await store.create_many(new, scope=ALICE, ids=ids, now=at(0))
            found = await store.get_many(ids, scope=ALICE, now=at(1))
            for id, (content, key, session, values) in zip(ids, drawn, strict=True):
                memory = found[id]
                assert (memory.content, memory.key, memory.session) == (content, key, session)
                assert canonical_json(dict(memory.metadata)) == canonical_json(values)

    asyncio.run(round_trip())


@clause("MB-3")
@pytest.mark.parametrize(
    "time",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(2024, 2, 29, 12, 0, 0, 1000, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    ],
    ids=lambda time: str(time.year),
)
async def test_times_come_back_as_the_same_instants(store: MemoryBackend, time: datetime) -> None:
    """Creation, update and expiry come back in UTC, to the millisecond, from the year 1 to 9999."""
    last = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    await store.create(NewMemory(content="c", created_at=time, expires_at=last), scope=ALICE, id="a", now=time)
    never = datetime(1, 1, 1, tzinfo=UTC)
    (memory,) = (await store.list(ALL, scope=ALICE, now=never, limit=5)).memories
    assert (memory.created_at, memory.updated_at, memory.expires_at) == (time, time, last)
    for value in (memory.created_at, memory.updated_at, memory.expires_at):
        assert value is not None
        assert value.utcoffset() == timedelta(0)


@clause("MB-3")
async def test_expiry_in_any_year_holds(store: MemoryBackend) -> None:
    """An expiry in the year 1 is long past, one in 9999 far ahead, to the millisecond."""
    await add(store, "past", expires_at=datetime(1, 1, 1, tzinfo=UTC))
    await add(store, "ahead", expires_at=datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC))
    await add(store, "edge", expires_at=at(10))
    assert await listed(store, now=at(9.999)) == ["ahead", "edge"]
    assert await listed(store, now=at(10)) == ["ahead"]


@clause("MB-4")
async def test_arguments_are_not_changed(store: MemoryBackend) -> None:
    """Nothing that is passed in is different afterwards."""
    given_metadata = {"list": [1, {"deep": None}], "gone": None}
    before = copy.deepcopy(given_metadata)
    await add(store, "a", key="k", metadata=given_metadata)
    await add(store, "b", key="k", metadata=given_metadata)
    await store.update("a", MemoryChanges(metadata=given_metadata), scope=ALICE, now=at(2))
    ids = ["b", "a", "a"]
    await store.get_many(ids, scope=ALICE, now=at(3))
    assert given_metadata == before
    assert ids == ["b", "a", "a"]


@clause("MB-4")
async def test_the_store_keeps_no_alias(store: MemoryBackend) -> None:
    """Changing what was passed in or what was returned changes nothing that is stored."""
    passed: dict[str, Any] = {"list": [1]}
    written = await store.create(NewMemory(content="walnut", metadata=passed), scope=ALICE, id="a", now=at(0))
    passed["list"].append(2)
    returned = [written.memory, await store.update("a", MemoryChanges(content="walnut"), scope=ALICE, now=at(1))]
    returned += [memory for memory in [await store.get("a", scope=ALICE, now=at(2))] if memory is not None]
    returned += (await store.get_many(["a"], scope=ALICE, now=at(2))).values()
    returned += [hit.memory for hit in await store.search(SearchQuery(text="walnut", limit=1), scope=ALICE, now=at(2))]
    returned += await pages(store)
    assert len(returned) == 6
    for memory in returned:
        _spoil(memory.metadata)
    (stored,) = await pages(store)
    assert stored.metadata == {"list": [1]}


def _spoil(values: Any) -> None:
    """Change a returned value where it lets itself be changed."""
    values["list"].append(3)
    if isinstance(values, dict):
        values["new"] = 4
