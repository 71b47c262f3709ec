import asyncio
import base64
import logging
import traceback

import pytest

from memspine.errors import EmbeddingError, RerankError
from memspine.outbound import reveal
from memspine_remote.config import RemoteEmbeddingConfig, RemoteRerankerConfig

from .server import Reply, serving
from .tools import KEY, Hidden, failure, reranker, source

PIECES = [KEY[place : place + 8] for place in range(len(KEY) - 7)]
OPTIONS = {"api_key": Hidden(), "secret_headers": {"api-key": Hidden(KEY[::-1])}}
BACKWARDS = [piece[::-1] for piece in PIECES]


def quoting(request, status=400):
    """A server that tells everybody what it was sent."""
    credential, other = request.headers["Authorization"], request.headers["api-key"]
    message = f"I do not know {credential}, {KEY[:12]}... or {other}\r\n\x1b[31mnor {KEY[9:]} " + "x" * 5000
    body = {"error": {"message": message, "type": credential, "code": other}}
    return Reply(status=status, body=body, headers={"Retry-After": "0", "X-Told": "nothing"})


def everything_of(error):
    """What an error shows to whoever looks, through all errors that led to it."""
    shown = ["".join(traceback.format_exception(error))]
    while error is not None:
        shown += [str(error), repr(error), repr(getattr(error, "__dict__", None)), *getattr(error, "__notes__", [])]
        request = getattr(error, "_request", None)
        shown.append(str(request.headers.raw) if request is not None else "")
        error = error.__cause__ or error.__context__
    return "\n".join(shown)


def assert_silent(text):
    assert not [piece for piece in [*PIECES, *BACKWARDS] if piece in text]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 429, 500, 503])
def test_a_credential_that_comes_back_is_cut_out(status, caplog):
    """No error, no error behind it and no log holds the key or a piece of it, whatever the server says."""
    caplog.set_level(logging.DEBUG)

    async def go():
        async with source(provider.url, attempts=2, **OPTIONS) as opened, reranker(provider.url, **OPTIONS) as judge:
            first = await failure(opened.embed(["a", "b"], role="document"), EmbeddingError)
            return first, await failure(judge.rerank("q", ["a", "b"]), RerankError)

    with serving(lambda request: quoting(request, status)) as provider:
        for error in asyncio.run(go()):
            assert_silent(everything_of(error))
            assert "\x1b" not in str(error)
            assert len(str(error)) < 700
    assert caplog.records
    assert_silent(caplog.text)


@pytest.mark.parametrize(
    "reply",
    [Reply(hang=10), Reply(raw=b""), Reply(body={"data": [KEY]}), Reply(body=KEY.encode()), Reply(raw=KEY.encode())],
    ids=["hang", "cut", "answer", "no JSON", "no HTTP"],
)
def test_broken_connections_tell_nothing(reply, caplog):
    """The errors of the client, which carry the request, are not among those that led to ours."""
    caplog.set_level(logging.DEBUG)

    async def go():
        async with source(provider.url, attempts=1, timeout_seconds=0.3, **OPTIONS) as opened:
            error = await failure(opened.embed(["a"], role="document"), EmbeddingError)
            assert_silent(repr(opened) + repr(vars(opened)))
            return error

    with serving(reply) as provider:
        error = asyncio.run(go())
    assert_silent(everything_of(error))
    assert_silent(caplog.text)
    assert error.__context__ is None


def test_options_show_no_credential():
    """Neither the repr of the options nor that of what is revealed holds one."""
    for config in (RemoteEmbeddingConfig, RemoteRerankerConfig):
        assert_silent(repr(config(model="m", **OPTIONS)))
    revealed = reveal(**OPTIONS)
    assert revealed.headers["Authorization"] == f"Bearer {KEY}"
    assert_silent(repr(revealed) + str(revealed))


def test_the_url_of_a_configuration_may_hold_no_credential():
    """One written into the URL is refused, by a sentence that does not show it."""
    encoded = base64.b64encode(KEY.encode()).decode()
    for url in (f"https://me:{KEY}@h/v1", f"https://h/v1?key={KEY}", f"https://h/v1#{encoded}", f"https://{KEY}@h"):
        with pytest.raises(ValueError, match="not allowed") as error:
            RemoteEmbeddingConfig(model="m", base_url=url)
        assert_silent(everything_of(error.value))
