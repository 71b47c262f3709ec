"""A provider in the test's own process: real sockets, the published shapes, and every way to misbehave."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import threading
from array import array
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import attrs

from memspine.conformance.reference.embeddings import ReferenceEmbeddings
from memspine.conformance.reference.reranker import ReferenceReranker
from memspine.text import query_terms

DIMENSION = 32
HASHED = ReferenceEmbeddings("server", dimension=DIMENSION)
SHARED_WORDS = ReferenceReranker("server")


@attrs.frozen(kw_only=True)
class Request:
    """What came in."""

    path: str
    headers: dict
    body: dict
    host: str


@attrs.frozen(kw_only=True)
class Reply:
    """What goes out. `raw` is written instead of everything else; `cut` bytes of the body are sent, then no more;
    `hang` seconds pass before, `drip` seconds between any two bytes of the body."""

    status: int = 200
    body: object = None
    headers: dict = attrs.field(factory=dict)
    raw: bytes | None = None
    cut: int | None = None
    hang: float = 0.0
    drip: float = 0.0

    def data(self):
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Server:
    """Answers with the next reply of `script`, a Reply or a function of the request, and then with `default`."""

    def __init__(self, default):
        self.default = default
        self.script = []
        self.requests = []
        self.asked = threading.Event()
        self.cut_off = threading.Event()
        self.released = threading.Event()
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def next_reply(self, request):
        with self._lock:
            self.requests.append(request)
            self.asked.set()
            reply = self.script.pop(0) if self.script else self.default
        return reply(request) if callable(reply) else reply

    @contextmanager
    def counted(self):
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            yield
        finally:
            with self._lock:
                self._at_once -= 1

    @property
    def sizes(self):
        """How many texts each request held."""
        return [len(request.body.get("input") or request.body.get("texts")) for request in self.requests]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        server = self.server.scripted
        data = self.rfile.read(int(self.headers["Content-Length"]))
        request = Request(path=self.path, headers=dict(self.headers), body=json.loads(data), host=self.headers["Host"])
        with server.counted():
            reply = server.next_reply(request)
            if reply.hang:
                self.wait_for_client(server, reply.hang)
            try:
                self.send(reply)
            except OSError:
                server.cut_off.set()
                self.close_connection = True

    def wait_for_client(self, server, seconds):
        """Wait, and note when the other side gives up first."""
        self.connection.settimeout(seconds)
        try:
            if self.connection.recv(1) == b"":
                server.cut_off.set()
        except TimeoutError:
            pass
        finally:
            self.connection.settimeout(None)

    def send(self, reply):
        if reply.raw is not None:
            self.wfile.write(reply.raw)
            self.close_connection = True
            return
        data = reply.data()
        self.send_response(reply.status)
        for name, value in {
            "Content-Length": str(len(data)),
            "Content-Type": "application/json",
            **reply.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if reply.drip:
            for byte in data:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                self.server.scripted.released.wait(reply.drip)
        else:
            self.wfile.write(data[: reply.cut])
        self.close_connection = reply.cut is not None

    def log_message(self, *_):
        pass


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        """A client that went away is none."""


@contextmanager
def serving(default, *, context=None):
    """A server on a free port of the loopback, with its `url` and `port`."""
    scripted = Server(default)
    listener = Listener(("127.0.0.1", 0), Handler)
    listener.scripted = scripted
    if context is not None:
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
    scripted.port = listener.server_port
    scripted.url = f"http://127.0.0.1:{scripted.port}/v1"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield scripted
    finally:
        scripted.released.set()
        listener.shutdown()
        thread.join()
        listener.server_close()


# ── the published shapes ──


def vector(text):
    """A bag of words as numbers."""
    numbers = array("f")
    numbers.frombytes(HASHED.vector(text))
    return numbers.tolist()


def in_base64(numbers):
    return base64.b64encode(array("f", numbers).tobytes()).decode()


def openai(request, *, index=True, shuffled=False, encode=None):
    """What OpenAI answers; `encode` overrides the encoding that was asked for."""
    encode = encode or (in_base64 if request.body.get("encoding_format") == "base64" else list)
    data = [{"object": "embedding", "embedding": encode(vector(text))} for text in request.body["input"]]
    if index:
        data = [{"index": place, **item} for place, item in enumerate(data)]
    if shuffled:
        data = data[1::2] + data[::2]
    answer = {"object": "list", "data": data, "model": request.body["model"], "usage": {"prompt_tokens": 1}}
    return Reply(body=answer)


def llama_cpp_native(request):
    """What llama.cpp answers on its older path: a bare list, each vector nested once more."""
    return Reply(body=[{"index": n, "embedding": [vector(text)]} for n, text in enumerate(request.body["input"])])


def cohere(request):
    """What Cohere answers."""
    (kind,) = request.body["embedding_types"]
    encode = in_base64 if kind == "base64" else list
    rows = [encode(vector(text)) for text in request.body["texts"]]
    return Reply(body={"id": "1", "embeddings": {kind: rows}, "texts": request.body["texts"]})


def jina(request):
    """What Jina and Cohere answer to a question about texts: the best first."""
    terms = frozenset(query_terms(request.body["query"]).terms)
    scored = [(SHARED_WORDS.score(terms, text), place) for place, text in enumerate(request.body["documents"])]
    results = [{"index": place, "relevance_score": score} for score, place in sorted(scored, reverse=True)]
    return Reply(body={"results": results[: request.body["top_n"]]})


def strict(request, *, texts_max, window):
    """An OpenAI that takes few texts at once and none beyond its window, and answers in any order."""
    texts = request.body["input"]
    if len(texts) > texts_max:
        return Reply(status=400, body=openai_error(f"'$.input' array too long. Maximum {texts_max} items."))
    if any(tokens(text) > window for text in texts):
        message = f"This model's maximum context length is {window} tokens, however you requested more."
        return Reply(status=400, body=openai_error(message))
    return openai(request, shuffled=True)


def tokens(text):
    """A tokeniser of the server's own: three letters of a word, or one character of anything else."""
    pieces = re.findall(r"[A-Z]?[a-z]+|\d|\S", text)
    return sum(math.ceil(len(piece) / 3) if piece.isalpha() and piece.isascii() else 1 for piece in pieces) + 2


def openai_error(message, **fields):
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **fields}}


def zipped(reply):
    """The same, compressed."""
    return Reply(body=gzip.compress(reply.data()), headers={"Content-Encoding": "gzip"})
