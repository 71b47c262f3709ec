"""A memory service that a kill loses nothing of: `python -m chaining.service KIND FILE PORT` prints the port (0 takes a
free one) and serves what the file holds, until it is killed.

It is the service of the tests of memspine-http. Every request that changed something stands in the file, synchronised,
before it is answered, with the time of its doing and what it put; a start does them all again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import types
from contextlib import contextmanager
from pathlib import Path

from memspine import times

sys.path.insert(0, str(Path(__file__).parents[3] / "plugins" / "http" / "tests"))

import server

INDIGESTIBLE = "indigestible"
"""A memory with this word is refused, until the service is told otherwise."""


class Clock:
    """The time as the service sees it: that of the request, when it is done again as well."""

    def __init__(self):
        self.now = times.now()
        self.server = types.SimpleNamespace(now=lambda: self.now, to_text=times.to_text, from_text=times.from_text)


class DurableService(server.Service):
    """One store; `effects` are owner, id, revision, whether it is a deletion, and whether it changed anything, of every
    record that the last request put."""

    def __init__(self, kind):
        super().__init__(kind)
        self.backend.all_or_nothing = self.all_or_nothing
        self.effects = []
        self.is_tolerant = False

    @contextmanager
    def all_or_nothing(self):
        """Nothing is copied: a step that fails ends the process, and the next one reads what was whole."""
        try:
            yield
        except Exception:
            print("a step of several failed", file=sys.stderr)
            os._exit(70)

    def mark(self, owner, id):
        """What is there of a memory."""
        shelf = self.state.shelf(owner)
        if id in shelf.memories:
            memory = shelf.memories[id]
            return memory.revision, memory.content_hash
        return (shelf.tombstones[id].revision, "") if id in shelf.tombstones else None

    async def put_records(self, owner, bodies):
        if not self.is_tolerant and any(INDIGESTIBLE in body.get("content", "") for body in bodies):
            raise server.Failed(422, "this is not to be stored")
        outcomes = []
        for body in bodies:  # one after the other, so that each one's effect is known
            before = self.mark(owner, body["id"])
            outcomes += await super().put_records(owner, [body])
            changed = before != self.mark(owner, body["id"])
            self.effects.append([owner, body["id"], body["revision"], "deletedAt" in body, changed])
        return outcomes


class DurableListener(server.Listener):
    """The process."""

    def __init__(self, kind, path):
        super().__init__(kind)
        self.clock = Clock()
        server.times = self.clock.server
        self.path = path
        self.is_tolerant = False
        self.file = -1

    async def load(self):
        """Do again what the file holds; half a line at its end was never answered."""
        data = self.path.read_bytes() if self.path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            entry = json.loads(line)
            self.clock.now = times.from_text(entry["now"])
            self.service(entry["target"]).is_tolerant = entry["tolerant"]
            await super().served(server.Asked(entry["method"], entry["target"], {}, entry["body"]))
        self.file = os.open(self.path, os.O_CREAT | os.O_WRONLY)
        os.ftruncate(self.file, len(whole))
        os.lseek(self.file, 0, os.SEEK_END)

    def control(self, asked):
        if asked.method == "POST":
            self.is_tolerant = asked.body.get("tolerant", False)
        return super().control(asked)

    def service(self, target):
        """The store that a request is for, made on first use."""
        prefix = target.partition("?")[0]
        for root in server.ROOTS:
            prefix = prefix.partition(f"/{root}")[0]
        return self.stores.setdefault(prefix, DurableService(self.kind))

    async def served(self, asked):
        store = self.service(asked.target)
        store.effects, store.is_tolerant = [], self.is_tolerant
        self.clock.now = times.now()
        status, value = await super().served(asked)
        if asked.method != "GET" and status < 300:
            entry = {
                "now": times.to_text(self.clock.now), "method": asked.method, "target": asked.target,
                "body": asked.body, "tolerant": self.is_tolerant, "effects": store.effects,
            }  # fmt: skip
            os.write(self.file, json.dumps(entry).encode() + b"\n")
            os.fsync(self.file)
        return status, value


async def main(kind, path, port):
    listener = DurableListener(kind, Path(path))
    await listener.load()
    serving = await asyncio.start_server(listener.connected, "127.0.0.1", int(port), limit=1024 * 1024, backlog=512)
    print(serving.sockets[0].getsockname()[1], flush=True)
    await serving.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
