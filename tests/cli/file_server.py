"""A server of files for the tests of downloads: with or without ranges, and one that cuts connections."""

import contextlib
import http.server
import re
import threading

import attrs


@attrs.define
class FileServer:
    """What is served, how, and what was asked for."""

    files: dict = attrs.field(factory=dict)
    """Content by path."""
    ranges: bool = True
    cuts: list = attrs.field(factory=list)
    """After how many bytes the next answers end."""
    codes: list = attrs.field(factory=list)
    """What the next requests are answered instead of a file; (code, headers)."""
    moved: dict = attrs.field(factory=dict)
    """Where a path leads to."""
    requests: list = attrs.field(factory=list)
    """The path and the Range of each request."""
    url: str = ""
    gate: threading.Event = attrs.field(factory=threading.Event)
    """What answers wait for."""


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what `served` says."""

    served = FileServer()

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        served, wanted = self.served, self.headers.get("Range")
        served.requests.append((self.path, wanted))
        served.gate.wait(30)
        if served.codes:
            code, headers = served.codes.pop(0)
            self._answer(code, b"", headers)
        elif self.path in served.moved:
            self._answer(302, b"", {"Location": served.moved[self.path]})
        elif self.path not in served.files:
            self._answer(404, b"")
        else:
            self._file(served.files[self.path], wanted)

    def _file(self, content, wanted):
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and self.served.ranges else 0
        if start > len(content):
            self._answer(416, b"")
        elif start:
            span = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._answer(206, content[start:], {"Content-Range": span})
        else:
            self._answer(200, content)

    def _answer(self, code, content, headers=()):
        self.send_response(code)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        cut = self.served.cuts.pop(0) if self.served.cuts and code < 300 else len(content)
        with contextlib.suppress(OSError):
            self.wfile.write(content[:cut])
        self.close_connection = True


@contextlib.contextmanager
def file_server():
    """A server on a port of its own, gone afterwards."""
    server = FileServer()
    server.gate.set()
    bound = type("Bound", (Handler,), {"served": server})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), bound) as listening:
        server.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.gate.set()
            listening.shutdown()
            thread.join()
