"""A memspine with a store elsewhere, as a service: `python relay.py` prints its port and serves until it is killed.

`POST /control` with `{"upstream": URL}` names the store. Health, capabilities, get and create are all it has. To answer
what it can do it asks its store, as every service must that passes on what its store can do.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
import urllib.parse
import uuid

from memspine.errors import BackendUnavailable, LoopError, NotFoundError
from memspine.manager import MemoryManager
from memspine.outbound import VIA_HEADER, passing, read_via
from memspine.wire import memory_to_wire

ID = uuid.uuid4().hex


class Relay:
    """The manager behind the service, in a loop of its own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.memory = None
        self.asked = []

    def run(self, call):
        return asyncio.run_coroutine_threadsafe(call, self.loop).result()

    def connect(self, upstream):
        """Use another store from now on."""
        far = {"plugin": "http", "url": upstream, "allow_local": ["127.0.0.1"]}
        settings = {"memory": {"owner": "alice"}, "backends": {"far": far}, "vectors": {"enabled": False}}
        with passing(ID):
            self.memory = MemoryManager(settings, background=False)
            self.run(self.memory.initialize())

    def served(self, method, path, header, body):
        """Status and value of an answer."""
        came_by = read_via(header)
        if ID in came_by:
            return 508, {"error": {"message": "it was here before", "type": "loop"}}
        with passing(*came_by, ID):
            try:
                return self.run(self.answer(method, path, body))
            except LoopError as error:
                return 508, {"error": {"message": str(error), "type": "loop"}}
            except NotFoundError:
                return 404, {}
            except BackendUnavailable as error:
                return 503, {"error": {"message": str(error), "type": "unavailable"}}

    async def answer(self, method, path, body):
        if path == "/health":
            return 200, {"status": "ok"}
        if path == "/capabilities":
            await self.memory.list(limit=1)
            return 200, {"protocol": 1, "capabilities": []}
        if method == "POST":
            written = await self.memory.create(body["content"], id=body["id"])
            return 201, memory_to_wire(written.memory)
        return 200, memory_to_wire((await self.memory.get(path.rpartition("/")[2])).memory)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urllib.parse.urlsplit(self.path).path
        if path == "/control":
            status, value = 200, {"asked": RELAY.asked}
            if self.command == "POST":
                RELAY.connect(json.loads(body)["upstream"])
        else:
            header = self.headers.get(VIA_HEADER, "")
            RELAY.asked.append([self.command, path, header])
            status, value = RELAY.served(self.command, path, header, json.loads(body) if body else None)
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = handle_any  # noqa: N815 - the names that the base class looks for

    def log_message(self, *_):
        """Nothing: what was asked is kept."""


if __name__ == "__main__":
    RELAY = Relay()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
