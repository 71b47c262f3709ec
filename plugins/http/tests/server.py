"""Memory services as processes of their own: `python server.py KIND` prints the port and serves until it is killed.

KIND is `plain` (keeps whatever fields it is given), `forgetful` (ids, times and searches of its own, no revisions:
nothing but the plain protocol) or `capable` (everything). What stands before the protocol's paths names a store, empty
at first. `POST /control` switches faults on, `GET /control` shows what was asked.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.parse
import uuid
import zlib
from datetime import UTC, datetime

import attrs

from memspine import times
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.errors import CursorError
from memspine.model import MemoryType, Scope, SearchQuery, Tombstone
from memspine.wire import memory_from_wire, memory_to_wire, revision_to_wire, tombstone_to_wire

ROOTS = frozenset(
    {"memories", "health", "capabilities", "changes", "tombstones", "history", "purge", "accesses", "expire"}
)
CAPABILITIES = ["put", "changes", "history", "purge", "telepathy"]
EVER = datetime(1, 1, 1, tzinfo=UTC)
OWN = ("id", "createdAt", "updatedAt", "revision", "accessCount", "lastAccessedAt")
HUGE = 10 * 1024**3


@attrs.frozen
class Asked:
    method: str
    target: str
    headers: dict
    body: object

    @property
    def query(self):
        return dict(urllib.parse.parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    def all(self, name):
        pairs = urllib.parse.parse_qsl(self.target.partition("?")[2], keep_blank_values=True)
        return [value for key, value in pairs if key == name]


class Failed(Exception):
    def __init__(self, status, message, kind=""):
        super().__init__(message)
        self.status, self.kind = status, kind


def answer(value, status=200):
    return status, value


class Service:
    """One store."""

    def __init__(self, kind):
        self.kind = kind
        self.backend = ReferenceBackend("far")

    @property
    def state(self):
        return self.backend.state

    async def serve(self, asked, parts):
        name = f"{asked.method} {parts[0]}" + (" one" if len(parts) == 2 else "")
        if len(parts) > 2:
            name += f" one {parts[2]}"
        plain = {
            "GET health": self.health, "POST memories": self.create, "GET memories one": self.get,
            "PATCH memories one": self.update, "DELETE memories one": self.delete, "GET memories": self.list,
        }  # fmt: skip
        capable = {
            "GET capabilities": self.capabilities, "PUT memories one": self.put, "PUT memories": self.put_many,
            "POST accesses": self.accesses, "POST expire": self.expire, "GET changes": self.changes,
            "POST changes one": self.trim_changes, "POST tombstones": self.tombstones,
            "GET memories one history": self.history, "POST history one": self.trim_history, "POST purge": self.purge,
        }  # fmt: skip
        if name == "GET memories one" and parts[1] == "search":
            return await self.search(asked)
        calls = plain | capable if self.kind == "capable" else plain
        if name not in calls:
            raise Failed(404, "no such call")
        call = calls[name]
        return await (
            call(asked, parts[1]) if "one" in name and len(parts) > 1 and parts[0] == "memories" else call(asked)
        )

    # ── the plain protocol ──

    async def health(self, _):
        return answer({"status": "ok"})

    def shown(self, memory):
        wire = memory_to_wire(memory)
        if self.kind == "forgetful":
            return {name: wire[name] for name in wire if name not in {"revision", "contentHash", "accessCount"}}
        return {name: wire[name] for name in wire if name != "contentHash"}

    def find(self, id, owner):
        for name, shelf in self.state.shelves.items():
            if id in shelf.memories and (owner in (None, name) or self.kind == "forgetful"):
                return shelf.memories[id]
        raise Failed(404, "not found")

    async def create(self, asked):
        body = dict(asked.body)
        if self.kind == "forgetful":
            body = {name: value for name, value in body.items() if name not in OWN}
        stamp = times.to_text(times.now())
        memory = memory_from_wire({"id": str(uuid.uuid4()), "createdAt": stamp, "updatedAt": stamp, **body})
        shelf = self.state.shelf(memory.owner)
        if memory.id in shelf.memories:
            raise Failed(409, "there is one already")
        shelf.memories[memory.id] = memory
        return answer(self.shown(memory), 201)

    async def get(self, asked, id):
        return answer(self.shown(self.find(id, asked.query.get("apiKeyId"))))

    async def update(self, asked, id):
        old = self.find(id, asked.query.get("apiKeyId"))
        body = dict(asked.body)
        if self.kind == "forgetful":
            body = {name: value for name, value in body.items() if name not in OWN}
            body["updatedAt"] = times.to_text(times.now())
        wire = {**memory_to_wire(old), **body}
        wire.pop("contentHash")
        self.state.shelf(old.owner).memories[id] = memory_from_wire(wire)
        if self.kind == "forgetful":
            return answer({"success": True})
        return answer(self.shown(self.state.shelf(old.owner).memories[id]))

    async def delete(self, asked, id):
        memory = self.find(id, asked.query.get("apiKeyId"))
        if self.kind == "capable":
            self.backend.bury(memory, now=times.now())
        else:
            del self.state.shelf(memory.owner).memories[id]
        return answer(None, 204)

    def listed(self, asked):
        query = asked.query
        owners = [query["apiKeyId"]] if "apiKeyId" in query else list(self.state.shelves)
        found = [memory for owner in owners for memory in self.state.shelf(owner).memories.values()]
        if query.get("sessionId"):
            found = [memory for memory in found if memory.session == query["sessionId"]]
        if query.get("type"):
            found = [memory for memory in found if memory.type == query["type"]]
        if query.get("key") and self.kind == "capable":
            found = [memory for memory in found if memory.key == query["key"]]
        found.sort(key=lambda memory: (memory.created_at, memory.id, memory.owner))
        return found[::-1] if query.get("orderDir") != "asc" else found

    async def list(self, asked):
        found = self.listed(asked)
        start, limit = int(asked.query.get("offset", 0)), min(int(asked.query.get("limit", 50)), 500)
        by_type = {kind.value: sum(memory.type is kind for memory in found) for kind in MemoryType}
        page = [self.shown(memory) for memory in found[start : start + limit]]
        return answer({"data": page, "total": len(found), "byType": by_type})

    async def search(self, asked):
        query = SearchQuery(text=asked.query["query"], limit=int(asked.query.get("limit", 10)))
        hits = await self.backend.search(query, scope=Scope.of_owner(asked.query["apiKeyId"]), now=EVER)
        return answer([self.shown(hit.memory) for hit in hits])

    # ── beyond it ──

    async def capabilities(self, _):
        return answer({"protocol": 1, "capabilities": CAPABILITIES})

    def outcome(self, outcome, record):
        shelf = self.state.shelf(record.owner)
        there = shelf.memories.get(record.id) or shelf.tombstones.get(record.id)
        return {"outcome": outcome.value, "revision": there.revision if there else 0}

    async def put_records(self, owner, bodies):
        records = [
            Tombstone(id=body["id"], owner=body["apiKeyId"], revision=body["revision"],
                      deleted_at=times.from_text(body["deletedAt"]))
            if "deletedAt" in body else memory_from_wire(body)
            for body in bodies
        ]  # fmt: skip
        outcomes = await self.backend.put(records, scope=Scope.of_owner(owner))
        return [self.outcome(outcome, record) for outcome, record in zip(outcomes, records, strict=True)]

    async def put(self, asked, id):
        if asked.body["id"] != id or asked.body["apiKeyId"] != asked.query["apiKeyId"]:
            raise Failed(400, "id and owner of path and body differ")
        (outcome,) = await self.put_records(asked.body["apiKeyId"], [asked.body])
        return answer(outcome)

    async def put_many(self, asked):
        return answer({"outcomes": await self.put_records(asked.body["apiKeyId"], asked.body["records"])})

    def scope(self, body):
        if body["apiKeyId"] is None:
            return Scope.everyone()
        session = body.get("sessionId")
        return Scope.of_owner(body["apiKeyId"]) if session is None else Scope.of_session(body["apiKeyId"], session)

    async def accesses(self, asked):
        body = asked.body
        await self.backend.record_access(body["counts"], scope=self.scope(body), now=times.from_text(body["now"]))
        return answer(None, 204)

    async def expire(self, asked):
        body = asked.body
        now = times.from_text(body["now"])
        return answer({"expired": await self.backend.expire(scope=self.scope(body), now=now, limit=body["limit"])})

    async def changes(self, asked):
        owners = asked.all("apiKeyId")
        scope = Scope.everyone() if not owners else Scope.of_owner(owners[0])
        if len(owners) > 1:
            scope = Scope.shared(owners[0])
        try:
            page = await self.backend.changes(
                scope=scope, limit=int(asked.query["limit"]), cursor=asked.query.get("cursor")
            )
        except CursorError as error:
            raise Failed(410, str(error), "cursor") from error
        changes = [
            {"cursor": change.cursor, "id": change.id, "apiKeyId": change.owner, "revision": change.revision,
             "deleted": change.deleted, "changedAt": times.to_text(change.changed_at)}
            for change in page.changes
        ]  # fmt: skip
        return answer({"changes": changes, "cursor": page.cursor, "more": page.more})

    async def tombstones(self, asked):
        found = await self.backend.tombstones(asked.body["ids"], scope=Scope.of_owner(asked.body["apiKeyId"]))
        return answer({"tombstones": [tombstone_to_wire(stone) for stone in found.values()]})

    async def trim_changes(self, asked):
        body = asked.body
        before = times.from_text(body["before"])
        return answer(
            {"trimmed": await self.backend.trim_changes(scope=self.scope(body), before=before, limit=body["limit"])}
        )

    async def history(self, asked, id):
        states = await self.backend.history(id, scope=Scope.of_owner(asked.query["apiKeyId"]))
        return answer({"revisions": [revision_to_wire(state) for state in states]})

    async def trim_history(self, asked):
        body = asked.body
        moments = {
            "before": times.from_text(body["before"]),
            "tombstones_before": times.from_text(body["tombstonesBefore"]),
        }
        trimmed = await self.backend.trim_history(scope=self.scope(body), limit=body["limit"], **moments)
        return answer({"trimmed": trimmed})

    async def purge(self, asked):
        body = asked.body
        receipt = await self.backend.purge(
            body["ids"], scope=Scope.of_owner(body["apiKeyId"]), now=times.from_text(body["now"])
        )
        return answer({"memories": receipt.memories, "places": [attrs.asdict(place) for place in receipt.places]})


class Listener:
    """The process: connections, stores, faults."""

    def __init__(self, kind):
        self.kind = kind
        self.stores = {}
        self.faults = []
        self.log = []
        self.connections = 0

    async def connected(self, reader, writer):
        self.connections += 1
        try:
            while await self.one(reader, writer):
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def one(self, reader, writer):
        """One request; whether the connection stays."""
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        data = await reader.readexactly(int(headers.get("content-length", 0)))
        asked = Asked(method, target, headers, json.loads(data) if data else None)
        if target == "/control":
            self.send(writer, *self.control(asked))
            return True
        self.log.append([method, target, headers, asked.body])
        fault = next((fault for fault in self.faults if self.is_struck(asked, fault)), None)
        if fault is not None:
            fault["times"] -= 1
            if not fault["times"]:
                self.faults.remove(fault)
            return await self.misbehave(fault, asked, writer)
        self.send(writer, *await self.served(asked))
        return True

    def is_struck(self, asked, fault):
        """Whether a fault is one of this request, by its method, what its target holds and what its body holds."""
        is_named = fault["method"] in ("", asked.method) and fault["in"] in asked.target
        return is_named and (not fault["holds"] or fault["holds"] in json.dumps(asked.body))

    def control(self, asked):
        if asked.method == "GET":
            return answer({"log": self.log, "connections": self.connections})
        self.faults = [{"method": "", "in": "", "holds": "", "times": 0, **fault} for fault in asked.body["faults"]]
        self.log = []
        return answer({})

    async def served(self, asked):
        parts = [urllib.parse.unquote(part) for part in asked.target.partition("?")[0].split("/")]
        start = next((place for place, part in enumerate(parts) if part in ROOTS), None)
        if start is None:
            return answer({"error": {"message": "nothing is here"}}, 404)
        prefix = "/".join(parts[:start])
        store = self.stores.setdefault(prefix, Service(self.kind))
        try:
            return await store.serve(asked, parts[start:])
        except Failed as failure:
            return answer({"error": {"message": str(failure), "type": failure.kind}}, failure.status)

    def send(self, writer, status, value, headers=()):
        data = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        named = {"Content-Type": "application/json", "Content-Length": str(len(data)), **dict(headers)}
        if status == 204:
            del named["Content-Length"]
        lines = [f"HTTP/1.1 {status} -", *(f"{name}: {value}" for name, value in named.items() if value is not None)]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + data)

    async def misbehave(self, fault, asked, writer):
        """Do what a fault says; whether the connection stays."""
        kind = fault["kind"]
        if kind == "answer":
            body = fault.get("body")
            data = body.encode() if isinstance(body, str) else body
            self.send(writer, fault["status"], data, fault.get("headers", {}))
            return True
        if kind == "foreign":
            status, value = await self.served(asked)
            self.send(writer, status, json.loads(json.dumps(value).replace('"apiKeyId": "', '"apiKeyId": "not-')))
            return True
        if kind in {"lost", "late"}:
            await self.served(asked)
        if kind in {"hang", "late"}:
            await asyncio.sleep(60)
        if kind in BODIES:
            await BODIES[kind](self, writer)
        await writer.drain()
        return False

    async def hang_in_body(self, writer):
        self.send(writer, 200, b'{"data": [', {"Content-Length": "1000"})
        await writer.drain()
        await asyncio.sleep(60)

    async def drip(self, writer):
        self.send(writer, 200, b"[", {"Content-Length": "60000"})
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def announce(self, writer):
        self.send(writer, 200, b"[" * 1024, {"Content-Length": str(HUGE)})

    async def explode(self, writer):
        """Much that is short on the way."""
        packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        data = b"".join(packer.compress(bytes(1024 * 1024)) for _ in range(32)) + packer.flush()
        self.send(writer, 200, data, {"Content-Encoding": "gzip"})

    async def go_on_for_ever(self, writer):
        self.send(writer, 200, b"", {"Content-Length": None, "Transfer-Encoding": "chunked"})
        while True:
            writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            await writer.drain()


BODIES = {
    "hang in body": Listener.hang_in_body,
    "drip": Listener.drip,
    "huge": Listener.announce,
    "bomb": Listener.explode,
    "endless": Listener.go_on_for_ever,
}


async def main():
    listener = Listener(sys.argv[1])
    server = await asyncio.start_server(listener.connected, "127.0.0.1", 0, limit=1024 * 1024, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
