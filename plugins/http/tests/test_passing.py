"""Services that are each other's stores."""

import asyncio
from contextlib import contextmanager

import httpx
import pytest

from memspine import MemoryManager
from memspine.conformance.samples import ALICE, ALL, at
from memspine.errors import LoopError
from memspine.model import NewMemory
from memspine.outbound import VIA_HEADER, passing, read_via, via

from .services import backend, serving

CALLS = {
    "get": lambda store: store.get("a", scope=ALICE, now=at(1)),
    "list": lambda store: store.list(ALL, scope=ALICE, now=at(1), limit=5),
    "create": lambda store: store.create(NewMemory(content="x"), scope=ALICE, id="a", now=at(1)),
}


@contextmanager
def relays(count):
    """So many memspines as services; their store is still to be named."""
    if not count:
        yield []
        return
    with serving(program="relay.py") as one, relays(count - 1) as others:
        yield [one, *others]


def lead(relay, upstream):
    """Name the store of a service."""
    httpx.post(f"{relay.root}/control", json={"upstream": upstream}, timeout=5, trust_env=False)


def passed(relay):
    """What came to a service, and by which way."""
    return httpx.get(f"{relay.root}/control", timeout=5, trust_env=False).json()["asked"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_circle_of_services_is_told(count):
    """Whatever is asked of services that lead to each other comes round once, and the error says what they are; one
    that leads to itself is such a circle."""

    async def go(url):
        with pytest.raises(LoopError, match="HTTP 508, Loop Detected; the services lead to each other"):
            async with backend(url) as store:
                await store.health()
        async with backend(url, ask_capabilities=False) as store:
            for call in CALLS.values():
                with pytest.raises(LoopError):
                    await call(store)

    with relays(count) as services:
        for place, one in enumerate(services):
            lead(one, services[(place + 1) % count].root)
        asyncio.run(go(services[0].root))
        asked = passed(services[0])
    assert [len(read_via(header)) for _, _, header in asked] == [0, count] * (1 + len(CALLS))


def test_a_circle_is_no_outage(tmp_path):
    """A write that goes round is refused and not kept for later, and one that waited stays, with the reason."""

    def settings(url):
        far = {"plugin": "http", "url": url, "allow_local": ["127.0.0.1"]}
        return {
            "memory": {"owner": "alice", "on_write_failure": "spool"},
            "journal": {"path": str(tmp_path / "journal")},
            "backends": {"far": far},
            "vectors": {"enabled": False},
        }

    async def go(url):
        async with MemoryManager(settings(url), background=False) as memory:
            assert (await memory.create("waits")).pending
            lead(relay, relay.root)
            await memory.maintain(["deliver"])
            (entry,) = await memory.journal_entries()
            assert (entry.state, entry.attempts) == ("pending", 0)
            assert "Loop Detected" in entry.error
            await memory.drop([entry.number])
            with pytest.raises(LoopError):
                await memory.create("goes round")
            assert await memory.journal_entries() == ()

    with relays(1) as (relay,):
        lead(relay, "http://127.0.0.1:1")
        asyncio.run(go(relay.root))


def test_services_in_a_row_know_the_way(plain):
    """A request through two services names both to the store at the end, and one of a client that is no service
    names none."""

    async def go(url):
        async with backend(url, ask_capabilities=False) as store:
            assert await store.get("a", scope=ALICE, now=at(1)) is None

    with relays(2) as (first, second):
        lead(first, second.root)
        lead(second, plain.fresh())
        asyncio.run(go(first.root))
        assert [header for _, _, header in passed(first)] == [""]
        (header,) = {header for _, _, header in passed(second)}
        (at_the_end,) = {headers[VIA_HEADER.lower()] for _, _, headers, _ in plain.asked()}
    assert len(read_via(header)) == 1
    assert read_via(at_the_end)[:1] == read_via(header)
    assert len({*read_via(at_the_end)}) == 2


@pytest.mark.parametrize(
    ("text", "ids"), [("", ()), ("a", ("a",)), (" a ,b_-9,", ("a", "b_-9")), ("a b, ä, " + "x" * 65, ())]
)
def test_the_way_is_read(text, ids):
    """A header gives the ids that it holds, in order, and nothing that is none."""
    assert read_via(text) == ids


def test_the_way_holds_inside():
    """What a client sends is what was passed here, in tasks that began here as well, and nothing outside."""

    async def told():
        return via()

    async def go():
        with passing("a", "b"):
            task = asyncio.create_task(told())
        assert via() == ""
        return await task

    assert asyncio.run(go()) == "a, b"
