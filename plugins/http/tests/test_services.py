import asyncio
import json
import socket

import attrs
import pytest

from memspine import MemoryManager
from memspine.conformance.samples import ALICE, ALL, EVERYONE, at
from memspine.contracts import Capability
from memspine.errors import BackendUnavailable, CapabilityError, CursorError, InvalidMemoryError, ScopeError
from memspine.model import MemoryChanges, NewMemory, Scope, SearchQuery

from .services import Hidden, backend

GOOD = {"id": "a", "apiKeyId": "alice", "content": "c", "createdAt": "2026-01-02T03:04:05Z"}


def opened(url, **options):
    """What a backend claims."""

    async def go():
        async with backend(url, **options) as store:
            return store.capabilities

    return asyncio.run(go())


def methods(service):
    """Method and path of each request, without what stands behind them and without the store."""
    return [f"{method} /{target.partition('?')[0].split('/', 3)[3]}" for method, target, *_ in service.asked()]


# ── what a service can do ──


def test_opening_asks_for_nothing_but_capabilities(capable):
    """One request, before the path of the URL is lost, and none where the preset knows the answer."""
    url = capable.fresh()
    assert opened(url) == {Capability.PUT, Capability.CHANGES, Capability.HISTORY, Capability.PURGE}
    assert methods(capable) == ["GET /capabilities"]
    capable.break_down()
    assert opened(url, preset="generic") == frozenset()
    assert opened(url, ask_capabilities=False) == frozenset()
    assert capable.asked() == []


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_service_without_capabilities_is_a_plain_one(plain, status):
    """A service that has no such call claims nothing."""
    url = plain.fresh()
    plain.break_down({"kind": "answer", "status": status, "body": "<html>"})
    assert opened(url) == frozenset()


@pytest.mark.parametrize(
    ("body", "claimed"),
    [
        ({"capabilities": []}, set()),
        ({"capabilities": ["lexical", "native_hybrid", "backup", "sing", 7]}, set()),
        ({"capabilities": ["history", "sing"], "more": 1}, {Capability.HISTORY}),
    ],
    ids=str,
)
def test_only_known_capabilities_are_claimed(plain, body, claimed):
    """What is not known here, or cannot be done over HTTP, is not claimed, whatever the service says."""
    url = plain.fresh()
    plain.break_down({"kind": "answer", "status": 200, "body": body})
    assert opened(url) == claimed


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (200, "<html>", "no JSON"),
        (200, [], "something other than an object"),
        (200, {"capabilities": "put"}, "no list"),
        (401, {}, "set a credential"),
        (503, {}, "HTTP 503"),
        (302, "", "redirects are not followed"),
    ],
)
def test_an_opening_that_fails_says_why(plain, status, body, text):
    """What is no answer to the question is no claim of nothing: opening fails, to be tried again."""
    url = plain.fresh()
    plain.break_down({"kind": "answer", "status": status, "body": body})
    with pytest.raises(BackendUnavailable, match=text):
        opened(url, attempts=1)
    plain.break_down()
    assert opened(url) == frozenset()


def test_a_manager_recovers_when_the_service_does(plain):
    """A memory manager whose service was down when it was first needed works as soon as it is up."""
    url = plain.fresh()

    async def go():
        table = {"plugin": "http", "url": url, "allow_local": ["127.0.0.1"], "attempts": 1}
        config = {"memory": {"primary": "far"}, "backends": {"far": table}, "vectors": {"enabled": False}}
        async with MemoryManager(config) as memory:
            plain.break_down({"kind": "answer", "status": 503})
            with pytest.raises(BackendUnavailable):
                await memory.create("walnut cake", key="k")
            plain.break_down()
            await memory.create("walnut cake", key="k")
            await memory.create("walnut tart", key="k")
            result = await memory.search("walnut")
            assert [hit.memory.content for hit in result.hits] == ["walnut tart"]

    asyncio.run(go())


def test_two_processes_change_one_memory_of_a_capable_service(capable):
    """Where the service compares revisions, no update is lost, also between backends that do not know each other."""
    url = capable.fresh()

    async def go():
        async with backend(url) as one, backend(url) as other:
            await one.create(NewMemory(content="x"), scope=ALICE, id="a", now=at(0))
            updates = [
                store.update("a", MemoryChanges(metadata={"n": n}), scope=ALICE, now=at(n))
                for n, store in enumerate([one, other] * 6)
            ]
            updated = await asyncio.gather(*updates)
            assert sorted(memory.revision for memory in updated) == list(range(2, 14))
            new = [
                store.create(NewMemory(content="y", key="k"), scope=ALICE, id=f"id{n}", now=at(50))
                for n, store in enumerate([one, other])
            ]
            written = await asyncio.gather(*new)
            assert sorted(result.created for result in written) == [False, True]
            assert len({result.memory.id for result in written}) == 1

    asyncio.run(go())


def test_a_memory_that_always_changes_is_given_up(capable):
    """A service that refuses every record does not keep a caller for ever."""
    url = capable.fresh()

    async def go():
        async with backend(url) as store:
            capable.break_down(
                {"kind": "answer", "status": 200, "method": "PUT", "body": {"outcome": "stale", "revision": 5}}
            )
            with pytest.raises(BackendUnavailable, match="refused 10 times") as caught:
                await store.create(NewMemory(content="x"), scope=ALICE, id="a", now=at(0))
            assert caught.value.outcome == "none"

    asyncio.run(go())


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"outcome": "done"}, "none of applied"),
        ({"outcomes": []}, "none of applied"),
        ([], "other than an outcome"),
        ({"outcome": "applied", "revision": -1}, "whole number"),
    ],
    ids=str,
)
def test_an_outcome_is_checked(capable, body, text):
    """What a service makes of a record is one of three words; otherwise nobody knows."""
    url = capable.fresh()

    async def go():
        async with backend(url) as store:
            capable.break_down({"kind": "answer", "status": 200, "method": "PUT", "body": body})
            with pytest.raises(BackendUnavailable, match=text) as caught:
                await store.create(NewMemory(content="x"), scope=ALICE, id="a", now=at(0))
            assert (caught.value.outcome, caught.value.id) == ("unknown", "a")

    asyncio.run(go())


def test_a_foreign_feed_is_refused(capable):
    """Changes, tombstones and states of another owner are an error, never an answer."""
    url = capable.fresh()

    async def go():
        async with backend(url) as store:
            await store.create(NewMemory(content="x"), scope=ALICE, id="a", now=at(0))
            await store.create(NewMemory(content="y"), scope=ALICE, id="b", now=at(0))
            await store.delete("b", scope=ALICE, now=at(1))
            capable.break_down({"kind": "foreign"})
            for call in (
                store.changes(scope=ALICE, limit=5),
                store.tombstones(["b"], scope=ALICE),
                store.history("a", scope=ALICE),
            ):
                with pytest.raises(BackendUnavailable, match="another owner"):
                    await call

    asyncio.run(go())


def test_a_cursor_that_cannot_be_sent_is_refused_here(capable):
    """Half a surrogate pair, nothing, and a text that is no cursor's length never leave the machine."""
    url = capable.fresh()

    async def go():
        async with backend(url) as store:
            capable.break_down()
            for cursor in ("", "\ud800", "a" * 5000):
                with pytest.raises(CursorError):
                    await store.changes(scope=EVERYONE, limit=5, cursor=cursor)
            assert capable.asked() == []

    asyncio.run(go())


def test_a_session_limits_a_purge(capable):
    """A purge in the scope of a session erases what is in it, named or not, and nothing else."""
    url = capable.fresh()

    async def go():
        async with backend(url) as store:
            for id, session in (("a", "s"), ("b", "s"), ("c", "")):
                await store.create(NewMemory(content="x", session=session), scope=ALICE, id=id, now=at(0))
            inside = Scope.of_session("alice", "s")
            assert (await store.purge(["a", "c"], scope=inside, now=at(1))).memories == 1
            assert (await store.purge(None, scope=inside, now=at(1))).memories == 1
            assert [m.id for m in (await store.list(ALL, scope=ALICE, now=at(2), limit=5)).memories] == ["c"]

    asyncio.run(go())


# ── services with a mind of their own ──


def test_a_generic_service_is_sent_the_plain_protocol_alone(forgetful):
    """No field, parameter or question that the plain protocol does not have; ids and times are the service's."""
    url = forgetful.fresh()

    async def go():
        async with backend(url, preset="generic") as store:
            new = NewMemory(content="walnut", key="k", session="s", metadata={"a": 1}, expires_at=at(9e9))
            written = await store.create(new, scope=ALICE, id="mine", now=at(0))
            assert written.created is True
            id = written.memory.id
            assert id != "mine"
            (body,) = [body for method, _, _, body in forgetful.asked() if method == "POST"]
            assert body.keys() == {"apiKeyId", "sessionId", "type", "key", "content", "metadata", "expiresAt"}
            again = await store.create(attrs.evolve(new, metadata={"b": 2}), scope=ALICE, id="mine", now=at(1))
            assert (again.created, again.memory.id, dict(again.memory.metadata)) == (False, id, {"a": 1, "b": 2})
            changed = await store.update(id, MemoryChanges(content="hazel"), scope=ALICE, now=at(2))
            assert (changed.content, changed.key) == ("hazel", "k")
            assert [body for method, _, _, body in forgetful.asked() if method == "PATCH"][-1] == {"content": "hazel"}
            await store.record_access({id: 3}, scope=ALICE, now=at(3))
            (found,) = await store.search(SearchQuery(text="hazel", limit=3), scope=ALICE, now=at(4))
            assert found.memory.id == id
            await store.delete(id, scope=ALICE, now=at(5))
            assert (await store.count(ALL, scope=ALICE, now=at(6))).total == 0
            names = {
                pair.partition("=")[0]
                for _, target, *_ in forgetful.asked()
                for pair in target.split("?")[-1].split("&")
            }
            assert not names & {"key", "includeExpired"}

    asyncio.run(go())


def test_without_revisions_none_can_be_expected(forgetful):
    """Where a service tells no revision, a call that expects one raises CapabilityError and changes nothing."""
    url = forgetful.fresh()

    async def go():
        async with backend(url) as store:
            id = (await store.create(NewMemory(content="x"), scope=ALICE, id="a", now=at(0))).memory.id
            with pytest.raises(CapabilityError, match="expected revision"):
                await store.update(id, MemoryChanges(content="y"), scope=ALICE, now=at(1), expected_revision=1)
            with pytest.raises(CapabilityError, match="expected revision"):
                await store.delete(id, scope=ALICE, now=at(1), expected_revision=1)
            assert (await store.get(id, scope=ALICE, now=at(2))).content == "x"

    asyncio.run(go())


def test_paths_and_parameters_are_the_services(plain):
    """Endpoints, methods, placeholders and parameters are named as configured, and an empty name is left out."""
    url = plain.fresh()
    options = {
        "ask_capabilities": False,
        "endpoints": {"get": "/notes/{user}/{note}", "update": "PUT /notes/{note}", "list": "/users/{user}/notes"},
        "path_names": {"id": "note", "owner": "user"},
        "query_names": {"limit": "per_page", "offset": "skip", "apiKeyId": "", "orderBy": "", "orderDir": ""},
    }

    async def go():
        async with backend(url, **options) as store:
            plain.break_down({"kind": "answer", "status": 200, "body": {"data": [], "total": 0}, "in": "/users/"})
            await store.list(ALL, scope=Scope.of_owner("a b/c"), now=at(0), limit=1)
            assert await store.get("x?", scope=ALICE, now=at(0)) is None
            (_, listed, *_), (_, got, *_) = plain.asked()
            assert listed.endswith("/users/a%20b%2Fc/notes?includeExpired=true&per_page=200&skip=0")
            assert got.endswith("/notes/alice/x%3F?includeExpired=true")
            with pytest.raises(ScopeError, match="'user'"):
                await store.list(ALL, scope=EVERYONE, now=at(0), limit=1)

    asyncio.run(go())


def test_omniroute_is_spoken_to_as_it_speaks(plain):
    """The preset has OmniRoute's paths, reads its envelopes, and looks through its memories here."""
    url = plain.fresh()
    memory = {
        "id": "m1", "apiKeyId": "alice", "sessionId": "", "type": "factual", "key": "k", "content": "walnut cake",
        "metadata": {}, "createdAt": "2026-01-02T03:04:05.678Z", "updatedAt": "2026-01-02T03:04:05.678Z",
        "expiresAt": None, "accessCount": 0, "lastAccessedAt": None,
    }  # fmt: skip
    page = {"data": [memory], "total": 1, "page": 1, "limit": 200, "totalPages": 1, "stats": {}}
    faults = [
        {"kind": "answer", "status": 200, "method": "POST", "body": {"success": True, "id": memory}},
        {"kind": "answer", "status": 200, "method": "PUT", "body": {"success": True}},
        {"kind": "answer", "status": 200, "method": "DELETE", "body": {"success": True}},
        {"kind": "answer", "status": 200, "method": "GET", "in": "/api/memory/m1", "body": {"memory": memory}},
        {"kind": "answer", "status": 404, "method": "GET", "in": "/api/memory/", "body": {"error": "Not found"}},
        {"kind": "answer", "status": 200, "method": "GET", "in": "/api/memory?", "body": page},
    ]

    async def go():
        async with backend(url, preset="omniroute") as store:
            plain.break_down(*faults)
            written = await store.create(NewMemory(content="walnut cake", key="new"), scope=ALICE, id="a", now=at(0))
            assert written.memory.id == "m1"
            assert (await store.update("m1", MemoryChanges(content="x"), scope=ALICE, now=at(1))).id == "m1"
            assert (await store.delete("m1", scope=ALICE, now=at(1))).id == "m1"
            (hit,) = await store.search(SearchQuery(text="cakes", limit=5), scope=ALICE, now=at(1))
            assert hit.memory.content == "walnut cake"
            assert await store.search(SearchQuery(text="hazel", limit=5), scope=ALICE, now=at(1)) == ()
            assert (await store.health()).ok is True

    asyncio.run(go())


# ── lists ──


@pytest.mark.parametrize("page_items", [1, 2, 3, 200])
def test_a_list_is_read_to_its_end(plain, page_items):
    """Whatever the size of a page, every memory is read once."""
    url = plain.fresh()

    async def go():
        async with backend(url, page_items=page_items) as store:
            for number in range(7):
                await store.create(NewMemory(content="x"), scope=ALICE, id=str(number), now=at(0))
            found = (await store.list(ALL, scope=ALICE, now=at(1), limit=50)).memories
            assert [memory.id for memory in found] == [str(number) for number in range(7)]

    asyncio.run(go())


def test_a_page_that_is_too_long_is_asked_for_in_pieces(plain):
    """Memories that are too long together are read in smaller pages; one that is too long alone is an error."""
    url = plain.fresh()

    async def go():
        async with backend(url, max_answer_bytes=20_000) as store:
            for number in range(9):
                await store.create(NewMemory(content="x" * 6000), scope=ALICE, id=str(number), now=at(0))
            assert (await store.count(ALL, scope=ALICE, now=at(1))).total == 9
        async with backend(url, max_answer_bytes=5000) as store:
            with pytest.raises(BackendUnavailable, match="more than 5000 bytes"):
                await store.count(ALL, scope=ALICE, now=at(1))

    asyncio.run(go())


def test_a_list_that_moves_is_read_again(plain):
    """When a page does not begin where the one before ended, something was deleted or came in between."""
    url = plain.fresh()

    async def go():
        async with backend(url, page_items=3) as store:
            for number in range(7):
                await store.create(NewMemory(content="x"), scope=ALICE, id=str(number), now=at(number))
            whole = (await store.list(ALL, scope=ALICE, now=at(9), limit=50)).memories
            (_, second, *_) = plain.asked()[-2]
            moved = {"data": [], "total": 7}
            plain.break_down({"kind": "answer", "status": 200, "in": "offset=2", "body": moved, "times": 2})
            assert (await store.list(ALL, scope=ALICE, now=at(9), limit=50)).memories == whole
            plain.break_down({"kind": "answer", "status": 200, "in": "offset=2", "body": moved})
            with pytest.raises(BackendUnavailable, match="changed each of the 4 times"):
                await store.list(ALL, scope=ALICE, now=at(9), limit=50)
            assert "offset=" in second

    asyncio.run(go())


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ([], "other than an object"),
        ({"data": {}}, "no list"),
        ({"data": []}, "'total'"),
        ({"data": [], "total": -1}, "'total'"),
        ({"data": [], "total": True}, "'total'"),
        ({"data": [7], "total": 1}, "a memory"),
        ({"data": [{}], "total": 1}, "'id'"),
        ({"data": [], "total": 3}, "a list of 0 memories that should have 3"),
        ({"data": [GOOD], "total": 2}, "a list of 1 memories that should have 2"),
        ({"data": [GOOD], "total": 0}, "changed each"),
        ({"data": [GOOD, GOOD], "total": 2}, "changed each"),
    ],
    ids=str,
)
def test_a_list_is_checked(plain, body, text):
    """A list that is not what the protocol says is an error that says what is wrong with it."""
    url = plain.fresh()

    async def go():
        async with backend(url) as store:
            plain.break_down({"kind": "answer", "status": 200, "body": body})
            with pytest.raises(BackendUnavailable, match=text):
                await store.list(ALL, scope=ALICE, now=at(0), limit=5)

    asyncio.run(go())


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"id": ""}, "'id'"),
        ({"id": "i" * 2000}, "'id'"),
        ({"id": "b"}, "another id"),
        ({"content": None}, "'content'"),
        ({"content": 7}, "'content'"),
        ({"type": "thought"}, "'type'"),
        ({"metadata": []}, "'metadata'"),
        ({"createdAt": "yesterday"}, "'createdAt'"),
        ({"createdAt": "2026-01-02T03:04:05"}, "'createdAt'"),
        ({"expiresAt": 7}, "'expiresAt'"),
        ({"revision": 0}, "'revision'"),
        ({"revision": True}, "'revision'"),
        ({"accessCount": -1}, "'accessCount'"),
    ],
    ids=str,
)
def test_a_memory_is_checked(plain, fields, text):
    """Every field of a memory is checked, and the error names the field and not what it holds."""
    url = plain.fresh()

    async def go():
        async with backend(url) as store:
            plain.break_down({"kind": "answer", "status": 200, "body": {**GOOD, **fields}})
            with pytest.raises(BackendUnavailable, match=text) as caught:
                await store.get("a", scope=ALICE, now=at(0))
            assert "yesterday" not in str(caught.value)

    asyncio.run(go())


def test_a_memory_needs_little(plain):
    """Id, owner, content and creation are enough; null counts as left out, and half a surrogate pair is replaced."""
    url = plain.fresh()
    spare = dict.fromkeys(["type", "sessionId", "key", "metadata", "updatedAt", "revision", "accessCount"])

    async def go():
        async with backend(url) as store:
            body = json.dumps({**GOOD, **spare, "content": "a\ud800b"})
            plain.break_down({"kind": "answer", "status": 200, "body": body})
            memory = await store.get("a", scope=ALICE, now=at(0))
            assert (memory.content, memory.type, memory.session, memory.key) == ("a\ufffdb", "factual", "", "")
            assert (dict(memory.metadata), memory.updated_at, memory.revision) == ({}, memory.created_at, 1)

    asyncio.run(go())


# ── where it connects to ──


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00:ec2::254"])
def test_a_public_name_does_not_lead_inside(monkeypatch, address):
    """A name that turns out to have a private, loopback or metadata address is not connected to."""

    async def answered(self, host, port, **_):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr("asyncio.base_events.BaseEventLoop.getaddrinfo", answered)

    async def go():
        async with backend("http://memory.example.org", allow_local=(), ask_capabilities=False) as store:
            with pytest.raises(BackendUnavailable, match="not allowed") as caught:
                await store.get("a", scope=ALICE, now=at(0))
            assert address not in str(caught.value)

    asyncio.run(go())


def test_a_name_that_is_allowed_may_be_local(plain):
    """A host in `allow_local` may have a loopback address, and a credential may go there over http."""
    url = plain.fresh().replace("127.0.0.1", "localhost")

    async def go():
        allowed = (f"localhost:{plain.port}",)
        async with backend(url, allow_local=allowed, api_key=Hidden()) as store:
            assert (await store.health()).ok is True

    asyncio.run(go())


def test_a_question_fits_into_a_url(plain):
    """Of a question that no server would take in a URL, the beginning is sent; a blank one is not sent at all."""
    url = plain.fresh()

    async def go():
        async with backend(url) as store:
            await store.create(NewMemory(content="東京 walnut"), scope=ALICE, id="a", now=at(0))
            for text in ("walnut " + "x" * 50_000, "東京" * 9000):
                (hit,) = await store.search(SearchQuery(text=text, limit=3), scope=ALICE, now=at(1))
                assert hit.memory.id == "a"
                assert len(plain.asked()[-1][1]) < 6000
            plain.break_down()
            assert await store.search(SearchQuery(text=" \n", limit=3), scope=ALICE, now=at(1)) == ()
            assert plain.asked() == []

    asyncio.run(go())


def test_what_cannot_be_stored_is_noticed_before_anything_is_sent(plain):
    """A batch with one memory that is too large after merging leaves the service untouched."""
    url = plain.fresh()

    async def go():
        async with backend(url) as store:
            half = "x" * 40_000
            await store.create(NewMemory(content="x", metadata={"a": half}), scope=ALICE, id="b", now=at(0))
            plain.break_down()
            new = [NewMemory(content="y"), NewMemory(content="z", metadata={"b": half})]
            with pytest.raises(InvalidMemoryError):
                await store.create_many(new, scope=ALICE, ids=["a", "b"], now=at(1))
            assert {method for method, *_ in plain.asked()} == {"GET"}

    asyncio.run(go())


def test_closing_waits_for_what_a_caller_left(plain):
    """A batch whose caller gave up is finished before the connections are closed."""
    url = plain.fresh()

    async def go():
        async with backend(url) as store:
            new = [NewMemory(content="x")] * 10
            ids = [str(number) for number in range(10)]
            batch = asyncio.create_task(store.create_many(new, scope=ALICE, ids=ids, now=at(0)))
            for _ in range(400):
                if any(method == "POST" for method, *_ in plain.asked()):
                    break
                await asyncio.sleep(0.005)
            batch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await batch
        async with backend(url) as store:
            assert (await store.count(ALL, scope=ALICE, now=at(1))).total == 10

    asyncio.run(go())


def test_a_service_that_gives_ids_is_known_as_such(plain, forgetful, capable):
    """The backend says whether ids are the service's own: of one that is sent no ids, and has no whole records."""

    async def go():
        said = []
        for service, options in ((plain, {}), (capable, {"own_fields": False}), (forgetful, {"preset": "generic"})):
            async with backend(service.fresh(), **options) as store:
                said.append(store.mints_ids)
        assert said == [False, False, True]

    asyncio.run(go())
