import asyncio
import socket
import time
from contextlib import AsyncExitStack

import pytest

from memspine.conformance.samples import ALICE, ALL, BOB, at
from memspine.errors import BackendUnavailable, NotFoundError
from memspine.model import MemoryChanges, NewMemory, SearchQuery

from .services import KEY, Hidden, backend

CONTENT = "walnut cake"
JSON = {"Content-Type": "application/json"}


async def failure(call):
    """The error that a call raises."""
    with pytest.raises(BackendUnavailable) as caught:
        await call
    return caught.value


def calls(store):
    """A call of each kind that asks or tells the service something."""
    return {
        "get": lambda: store.get("a", scope=ALICE, now=at(1)),
        "list": lambda: store.list(ALL, scope=ALICE, now=at(1), limit=5),
        "search": lambda: store.search(SearchQuery(text="walnut", limit=5), scope=ALICE, now=at(1)),
        "create": lambda: store.create(NewMemory(content="new"), scope=ALICE, id="b", now=at(1)),
        "update": lambda: store.update("a", MemoryChanges(content="new"), scope=ALICE, now=at(1)),
        "delete": lambda: store.delete("a", scope=ALICE, now=at(1)),
    }


async def each_fails(service, fault, *, whole=False, **options):
    """The error of each call while a fault is on; what a write reads first is answered."""
    errors = {}
    methods = {"create": "POST", "update": "PATCH", "delete": "DELETE"}
    if whole:
        methods = dict.fromkeys(methods, "PUT")
    for name in methods.keys() | {"get", "list", "search"}:
        # Only what never answers is waited for in vain; all else has the time that a busy machine may need.
        seconds = 1.0 if fault["kind"] in HANGING else 10.0
        async with backend(service.fresh(), timeout_seconds=seconds, attempts=1, **options) as store:
            await store.create(NewMemory(content=CONTENT), scope=ALICE, id="a", now=at(0))
            service.break_down({"method": methods.get(name, "GET"), **fault})
            begun = time.monotonic()
            errors[name] = await failure(calls(store)[name]())
            assert time.monotonic() - begun < 10, name
    return errors


HANGING = {"hang", "hang in body", "drip"}
FAULTS = {
    "hang": ({"kind": "hang"}, "did not answer within 1 s"),
    "hang in the body": ({"kind": "hang in body"}, "did not answer within 1 s"),
    "drip": ({"kind": "drip"}, "did not answer within 1 s"),
    "broken off": ({"kind": "close"}, "broke the connection off"),
    "500": ({"kind": "answer", "status": 500, "body": {"error": "not 404"}}, "HTTP 500 (not 404)"),
    "HTML": ({"kind": "answer", "status": 200, "body": "<html>404</html>"}, "no JSON"),
    "invalid JSON": ({"kind": "answer", "status": 200, "body": '{"data": ['}, "no JSON"),
    "no number": ({"kind": "answer", "status": 200, "body": '{"data": NaN}'}, "no JSON"),
    "10 GB": ({"kind": "huge"}, "more than 65536 bytes"),
    "endless": ({"kind": "endless"}, "more than 65536 bytes"),
    "bomb": ({"kind": "bomb"}, "more than 65536 bytes"),
    "not gzip": ({"kind": "answer", "status": 200, "body": "{}", "headers": {"Content-Encoding": "br"}}, "encoding"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_and_bounded(plain, name):
    """Whatever a service does wrong costs no more than the deadline, and the error says what it was; a write that may
    have been done says so, with the ids that make repeating it safe."""
    fault, text = FAULTS[name]
    errors = asyncio.run(each_fails(plain, fault, max_answer_bytes=65536))
    for call, error in errors.items():
        assert text in str(error), call
        writes = call in {"create", "update", "delete"}
        assert error.outcome == ("unknown" if writes else "none"), call
        assert error.ids == ({"create": ("b",)}.get(call, ("a",)) if writes else ())


@pytest.mark.parametrize("name", ["hang in the body", "broken off", "500", "HTML", "endless"])
def test_a_fault_of_a_capable_service_is_told_and_bounded(capable, name):
    """The same where whole records are written."""
    fault, text = FAULTS[name]
    errors = asyncio.run(each_fails(capable, fault, whole=True, max_answer_bytes=65536))
    for call, error in errors.items():
        assert text in str(error), call
        assert error.outcome == ("unknown" if call in {"create", "update", "delete"} else "none"), call


@pytest.mark.parametrize("status", [400, 401, 403, 413, 422, 429])
def test_a_refusal_did_nothing(plain, status):
    """A write that is answered with 4xx was not done, and says so; the reason of the service is shown."""
    fault = {"kind": "answer", "status": status, "body": {"error": {"message": "because", "type": "x"}}}
    for error in asyncio.run(each_fails(plain, fault)).values():
        assert (error.outcome, error.ids) == ("none", ())
        assert f"HTTP {status} (because)" in str(error)


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest", "http://other.example.org/memories", "/elsewhere"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(plain, target, status):
    """Neither to another host nor to a metadata service, and the error does not spread the address."""
    fault = {"kind": "answer", "status": status, "headers": {"Location": target}}
    for error in asyncio.run(each_fails(plain, fault)).values():
        assert "redirects are not followed" in str(error)
        assert target not in str(error)
        assert error.outcome == "none"


def test_a_foreign_memory_is_refused(plain):
    """A memory of another owner is never returned: a list, a search and a write with one fail, a get finds nothing."""

    async def go():
        async with backend(plain.fresh(), attempts=1) as store:
            await store.create(NewMemory(content=CONTENT), scope=ALICE, id="a", now=at(0))
            plain.break_down({"kind": "foreign"})
            assert await store.get("a", scope=ALICE, now=at(1)) is None
            with pytest.raises(NotFoundError):
                await store.update("a", MemoryChanges(content="x"), scope=ALICE, now=at(1))
            for call in (
                store.list(ALL, scope=ALICE, now=at(1), limit=5),
                store.count(ALL, scope=ALICE, now=at(1)),
                store.search(SearchQuery(text="walnut", limit=5), scope=ALICE, now=at(1)),
                store.create(NewMemory(content="new", key="k"), scope=ALICE, id="b", now=at(1)),
            ):
                error = await failure(call)
                assert "another owner" in str(error)
                assert CONTENT not in str(error)
                assert "not-alice" not in str(error)
            plain.break_down({"kind": "foreign", "method": "POST"})
            error = await failure(store.create(NewMemory(content="new"), scope=ALICE, id="b", now=at(1)))
            assert error.outcome == "unknown"

    asyncio.run(go())


def test_a_service_with_one_id_for_all_does_not_lend_a_memory(forgetful):
    """Where ids are not told apart by owner, somebody else's id is unknown for reading, and refused for creating."""

    async def go():
        async with backend(forgetful.fresh()) as store:
            written = await store.create(NewMemory(content=CONTENT), scope=BOB, id="a", now=at(0))
            id = written.memory.id
            assert await store.get(id, scope=ALICE, now=at(1)) is None
            with pytest.raises(NotFoundError):
                await store.delete(id, scope=ALICE, now=at(1))
            error = await failure(store.create(NewMemory(content="x"), scope=ALICE, id=id, now=at(1)))
            assert "another owner" in str(error)
            assert (await store.get(id, scope=BOB, now=at(1))).content == CONTENT

    asyncio.run(go())


@pytest.mark.parametrize("status", [200, 204])
def test_an_empty_success_is_a_success(plain, status):
    """After an empty 200 or 204 to a write, what is stored is read; a reading that is empty is an error."""

    async def go():
        async with backend(plain.fresh(), attempts=1) as store:
            await store.create(NewMemory(content=CONTENT), scope=ALICE, id="a", now=at(0))
            plain.break_down({"kind": "answer", "status": status, "method": "PATCH"})
            unchanged = await store.update("a", MemoryChanges(content="x"), scope=ALICE, now=at(1))
            assert unchanged.content == CONTENT, "what the service has, not what it was told"
            plain.break_down({"kind": "answer", "status": status, "method": "DELETE"})
            assert (await store.delete("a", scope=ALICE, now=at(1))).id == "a"
            plain.break_down({"kind": "answer", "status": status, "method": "POST"})
            error = await failure(store.create(NewMemory(content="x"), scope=ALICE, id="b", now=at(1)))
            assert error.outcome == "unknown"
            plain.break_down({"kind": "answer", "status": status, "method": "GET"})
            for name in ("list", "search", "get"):
                assert (await failure(calls(store)[name]())).outcome == "none"

    asyncio.run(go())


@pytest.mark.parametrize("kind", ["lost", "late"])
def test_an_answer_that_is_lost_leaves_the_outcome_unknown(plain, capable, kind):
    """A write whose answer never comes is not repeated by itself, and repeating it by hand is safe."""

    async def go():
        async with backend(plain.fresh(), timeout_seconds=2.0) as store:
            plain.break_down({"kind": kind, "method": "POST", "times": 1})
            new = NewMemory(content=CONTENT, metadata={"n": 1})
            error = await failure(store.create(new, scope=ALICE, id="a", now=at(0)))
            assert (error.outcome, error.id) == ("unknown", "a")
            assert [method for method, *_ in plain.asked()].count("POST") == 1
            assert (await store.create(new, scope=ALICE, id="a", now=at(0))).memory.content == CONTENT
            assert (await store.count(ALL, scope=ALICE, now=at(1))).total == 1
        async with backend(capable.fresh(), timeout_seconds=2.0) as store:
            capable.break_down({"kind": kind, "method": "PUT", "times": 1})
            written = await store.create(new, scope=ALICE, id="a", now=at(0))
            assert (written.created, written.memory.revision) == (True, 1), "a whole record may be sent twice"
            assert [method for method, *_ in capable.asked()].count("PUT") == 2

    asyncio.run(go())


def test_a_batch_that_breaks_in_its_middle_says_so(plain):
    """When a later request of a write fails, the outcome is unknown, although that request did nothing."""

    async def go():
        async with backend(plain.fresh(), attempts=1) as store:
            await store.create(NewMemory(content="old"), scope=ALICE, id="b", now=at(0))
            plain.break_down({"kind": "answer", "status": 400, "method": "PATCH"})
            new = [NewMemory(content="one"), NewMemory(content="two")]
            return await failure(store.create_many(new, scope=ALICE, ids=["a", "b"], now=at(1)))

    error = asyncio.run(go())
    assert (error.outcome, error.ids) == ("unknown", ("a", "b"))


def test_what_may_pass_is_asked_again(plain):
    """429 of any call, after what Retry-After asks for, and a failure of reading; not of a write."""

    async def go():
        async with backend(plain.fresh(), attempts=3) as store:
            slow = {"kind": "answer", "status": 429, "headers": {"Retry-After": "0.2"}}
            plain.break_down({**slow, "method": "POST", "times": 2})
            begun = time.monotonic()
            await store.create(NewMemory(content=CONTENT), scope=ALICE, id="a", now=at(0))
            assert time.monotonic() - begun >= 0.4
            assert [method for method, *_ in plain.asked()].count("POST") == 3
            plain.break_down({"kind": "answer", "status": 503, "times": 2})
            assert await store.get("a", scope=ALICE, now=at(1))
            plain.break_down({"kind": "close", "times": 2})
            assert await store.get("a", scope=ALICE, now=at(1))
            plain.break_down({"kind": "answer", "status": 503, "method": "PATCH", "times": 1})
            await failure(store.update("a", MemoryChanges(content="x"), scope=ALICE, now=at(1)))
            assert [method for method, *_ in plain.asked()].count("PATCH") == 1
            plain.break_down({**slow, "headers": {"Retry-After": "3600"}, "times": 1})
            begun = time.monotonic()
            await failure(store.get("a", scope=ALICE, now=at(1)))
            assert time.monotonic() - begun < 1, "an hour is not waited for"

    asyncio.run(go())


def test_only_a_404_says_that_nothing_is_there(plain):
    """A missing memory is told by the status; a failure whose text says 404 is a failure."""

    async def go():
        async with backend(plain.fresh(), attempts=1) as store:
            assert await store.get("a", scope=ALICE, now=at(1)) is None
            plain.break_down({"kind": "answer", "status": 500, "body": "404 Not Found"})
            await failure(store.get("a", scope=ALICE, now=at(1)))
            await failure(store.delete("a", scope=ALICE, now=at(1)))

    asyncio.run(go())


@pytest.mark.parametrize("id", ["a/b", "a?b=c", "a#b", "..", ".", "../x", "%2e%2e", "ä b", "a/../../x?y#z", "+", "a%"])
@pytest.mark.parametrize("kind", ["plain", "capable"])
def test_any_id_is_one_segment_of_the_path(request, kind, id):
    """Ids with slashes, question marks, hashes and dots reach the service as they are, below the path of the URL."""
    service = request.getfixturevalue(kind)

    async def go():
        async with backend(service.fresh()) as store:
            await store.create(NewMemory(content=CONTENT), scope=ALICE, id=id, now=at(0))
            assert (await store.get(id, scope=ALICE, now=at(1))).id == id
            assert (await store.update(id, MemoryChanges(content="x"), scope=ALICE, now=at(1))).content == "x"
            await store.delete(id, scope=ALICE, now=at(2))
            assert await store.get(id, scope=ALICE, now=at(3)) is None
            assert all(target.startswith("/base/v") for _, target, *_ in service.asked())

    asyncio.run(go())


def test_a_service_that_is_down_is_told_of_and_comes_back():
    """Nobody listens: opening fails with an error that names the host; once somebody does, the next opening works."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def go():
        async with AsyncExitStack() as stack:
            error = await failure(stack.enter_async_context(backend(f"http://127.0.0.1:{port}", attempts=1)))
            assert f"127.0.0.1:{port} cannot be connected to" in str(error)
            assert error.outcome == "none"
        async with backend(f"http://127.0.0.1:{port}", attempts=1, ask_capabilities=False) as store:
            for call in calls(store).values():
                assert (await failure(call())).outcome == "none", "nothing was sent"
            assert (await store.health()).ok is False

    asyncio.run(go())


def test_a_service_that_is_down_is_told_of_at_once():
    """Where nobody listens a request is made once more after a short pause and given up, however many attempts and
    however long a pause are allowed."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def go():
        url = f"http://127.0.0.1:{port}"
        async with backend(url, attempts=20, wait_seconds_max=600, ask_capabilities=False) as store:
            begun = time.monotonic()
            assert "cannot be connected to" in str(await failure(store.get("a", scope=ALICE, now=at(1))))
            assert 0.1 <= time.monotonic() - begun < 2

    asyncio.run(go())


def test_one_client_keeps_its_connections(plain):
    """Requests one after the other go over one connection."""

    async def go():
        async with backend(plain.fresh()) as store:
            before = plain.connections()
            for number in range(10):
                await store.create(NewMemory(content="x"), scope=ALICE, id=str(number), now=at(0))
            assert plain.connections() - before == 1, "that of the question itself"

    asyncio.run(go())


def test_no_error_shows_a_credential(plain):
    """A service that sends the credential back does not get it into an error, nor does anything else."""

    async def go():
        echo = {"kind": "answer", "status": 401, "body": {"error": {"message": f"bad key Bearer {KEY}"}}}
        async with backend(plain.fresh(), api_key=Hidden(), secret_headers={"x-more": Hidden("other-S3cret")}) as store:
            plain.break_down(echo)
            error = await failure(store.get("a", scope=ALICE, now=at(1)))
            assert "bad key Bearer ***" in str(error)
            assert error.__cause__ is None
            assert error.__context__ is None
            (_, _, headers, _) = plain.asked()[-1]
            assert headers["authorization"] == f"Bearer {KEY}"
            assert headers["x-more"] == "other-S3cret"
        async with backend(plain.fresh(), api_key=Hidden(""), ask_capabilities=False) as store:
            error = await failure(store.get("a", scope=ALICE, now=at(1)))
            assert "'KEY' is not set" in str(error)

    asyncio.run(go())
