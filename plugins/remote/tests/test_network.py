import asyncio
import socket
import ssl
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from memspine.errors import EmbeddingError
from memspine.outbound import REFUSED
from memspine_remote.config import RemoteEmbeddingConfig

from . import server
from .server import Reply, serving
from .tools import Hidden, embed, failure, source

PEM = Path(__file__).with_name("models.example.pem")


def first_failure(url, **options):
    """The error of one call."""
    with pytest.raises(EmbeddingError) as error:
        embed(url, "a", **options)
    return error.value


def names(monkeypatch, *answers):
    """Let names resolve to these addresses, one list a look-up; returns what was looked up."""
    asked = []

    async def getaddrinfo(loop, host, port, **options):
        asked.append(host)
        addresses = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked


def test_a_server_that_hangs_is_left():
    """A request ends after its time, as something that may pass, and the connection is closed."""
    with serving(Reply(hang=10)) as provider:
        start = time.monotonic()
        error = first_failure(provider.url, timeout_seconds=0.2, attempts=2)
        assert time.monotonic() - start < 2
        assert provider.cut_off.wait(2)
    assert (error.kind, len(provider.requests)) == ("transient", 2)


def test_a_server_that_drips_is_left():
    """The time is that of the whole request: bytes that keep coming do not extend it."""
    with serving(Reply(body=b" " * 1000, drip=0.05)) as provider:
        start = time.monotonic()
        error = first_failure(provider.url, timeout_seconds=0.3, attempts=1)
        assert time.monotonic() - start < 2
    assert error.kind == "transient"


def test_cancelling_closes_the_requests():
    """When the caller gives up, so does every request, and the source works on."""

    async def go():
        async with source(provider.url, batch_texts=1) as opened:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await opened.embed(["a", "b"], role="document")
            assert await asyncio.to_thread(provider.cut_off.wait, 2)
            return await opened.embed(["a", "b"], role="document")

    with serving(server.openai) as provider:
        provider.script = [Reply(hang=10), Reply(hang=10)]
        assert len(asyncio.run(go())) == 2
    assert len(provider.requests) == 4


BROKEN = {
    "cut in the body": Reply(body={"data": []}, cut=5),
    "cut in a chunk": Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{}"),
    "cut before the head": Reply(raw=b""),
    "no HTTP": Reply(raw=b"SSH-2.0-OpenSSH_9.2\r\n"),
    "500": Reply(status=500, body={"error": {"message": "oops"}}),
    "502": Reply(status=502, body=b"<html>Bad Gateway</html>"),
    "503": Reply(status=503, body={"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
    "529": Reply(status=529),
    "408": Reply(status=408),
    "429": Reply(status=429, body=server.openai_error("Rate limit reached for m")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_may_pass_is_tried_again(name):
    """A connection that breaks, a server in trouble and a limited rate are no reason to fail at once."""
    with serving(server.openai) as provider:
        provider.script = [BROKEN[name], BROKEN[name]]
        assert len(embed(provider.url, "a")) == 1
        assert len(provider.requests) == 3
        provider.script = [BROKEN[name]] * 2
        error = first_failure(provider.url, attempts=2)
    assert error.kind == ("rate" if name == "429" else "transient")
    assert len(provider.requests) == 5


def test_a_server_that_is_not_there_is_tried_again():
    """A connection that is refused may be accepted later."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = first_failure(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", attempts=2)
    assert error.kind == "transient"
    assert "cannot be connected to" in str(error)


def test_a_name_that_is_not_known_may_be_later(monkeypatch):
    """A look-up that fails is like a connection that fails."""

    async def getaddrinfo(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    error = first_failure("http://models.example/v1", attempts=2)
    assert (error.kind, "looked up" in str(error)) == ("transient", True)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status):
    """Neither to another host nor to the same: where a request goes is what the configuration says."""
    with serving(server.openai) as other, serving(server.openai) as provider:
        for place in (other.url + "/embeddings", "/v1/embeddings"):
            provider.script = [Reply(status=status, headers={"Location": place}, body=b"")]
            error = first_failure(provider.url)
            assert error.kind == "config"
            assert str(other.port) not in str(error)
    assert (len(provider.requests), len(other.requests)) == (2, 0)


def test_addresses_are_checked_when_connecting(monkeypatch):
    """A harmless name that leads to a metadata service is refused, whatever else it leads to, and not tried again."""
    for answers in (["169.254.169.254"], ["127.0.0.1", "169.254.169.254"], ["::ffff:169.254.169.254"]):
        asked = names(monkeypatch, answers)
        error = first_failure("http://models.example/v1")
        assert (error.kind, error.reason, asked) == ("config", REFUSED, ["models.example"])


def test_the_checked_address_is_the_one_connected_to(monkeypatch):
    """A name that is answered differently a second time has no second time: it is looked up once, for all requests."""
    with serving(server.openai) as provider:
        asked = names(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])
        url = f"http://models.example:{provider.port}/v1"
        assert len(embed(url, *"abc", batch_texts=1)) == 3
    assert asked == ["models.example"]
    assert {request.host for request in provider.requests} == {f"models.example:{provider.port}"}


def test_a_later_look_up_is_checked_too(monkeypatch):
    """When an address is not answering any more, the new one is checked like the first."""

    async def go():
        async with source(url, attempts=1) as opened:
            await opened.embed(["a"], role="query")
            stop.close()
            return [await failure(opened.embed(["a"], role="query"), EmbeddingError) for _ in range(3)]

    stop = ExitStack()
    provider = stop.enter_context(serving(server.openai))
    provider.default = lambda request: Reply(body=server.openai(request).body, headers={"Connection": "close"})
    asked = names(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])
    url = f"http://models.example:{provider.port}/v1"
    errors = asyncio.run(go())
    assert [error.kind for error in errors] == ["transient", "config", "config"]
    assert asked == ["models.example"] * 3


def test_the_next_address_is_tried(monkeypatch):
    """Where one address of a name does not answer, the others do, and the one that did is kept."""
    with serving(server.openai) as provider:
        names(monkeypatch, ["127.0.0.2", "127.0.0.1"])
        assert len(embed(f"http://models.example:{provider.port}/v1", "a", "b", batch_texts=1)) == 2


def test_public_only_refuses_local_servers(monkeypatch):
    """With `public_only` a local address is refused, also behind a name; without, it is where models run."""
    names(monkeypatch, ["10.0.0.1"])
    with pytest.raises(ValueError, match="endpoint is not allowed"):
        embed("http://127.0.0.1/v1", "a", public_only=True)
    error = first_failure("http://models.example/v1", public_only=True)
    assert (error.kind, error.reason) == ("config", REFUSED)


def test_a_key_goes_over_http_to_local_addresses_only(monkeypatch):
    """A key is not sent in the clear to a public address unless an option says so; to a local server it is."""
    for url in ("http://8.8.8.8/v1", "http://models.example/v1"):
        names(monkeypatch, ["8.8.8.8"])
        with pytest.raises((ValueError, EmbeddingError), match="endpoint is not allowed"):
            embed(url, "a", api_key=Hidden())
    allowed = RemoteEmbeddingConfig(model="m", base_url="http://8.8.8.8/v1", api_key=Hidden(), key_over_http=True)
    assert not allowed.policy.carries_secret
    with serving(server.openai) as provider:
        assert len(embed(provider.url, "a", api_key=Hidden())) == 1


def secured():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    asked = []
    context.sni_callback = lambda _, name, __: asked.append(name)
    return context, asked


def test_tls_is_for_the_name_and_not_for_the_address(monkeypatch):
    """Connected to a checked address, the handshake names the host, and its certificate is that of the host."""
    context, asked = secured()
    with serving(server.openai, context=context) as provider:
        names(monkeypatch, ["127.0.0.1"])
        url = f"https://models.example:{provider.port}/v1"
        assert len(embed(url, "a", folder=PEM.parent, ca_file=PEM.name, api_key=Hidden())) == 1
    assert asked == ["models.example"]
    assert [request.host for request in provider.requests] == [f"models.example:{provider.port}"]


@pytest.mark.parametrize(
    ("host", "options"),
    [("models.example", {}), ("other.example", {"ca_file": PEM.name}), ("127.0.0.1", {"ca_file": PEM.name})],
    ids=["unknown authority", "another name", "an address"],
)
def test_a_certificate_that_is_not_trusted_is_refused(monkeypatch, host, options):
    """Without trust nothing is sent, and nothing is tried again."""
    context, _ = secured()
    with serving(server.openai, context=context) as provider:
        names(monkeypatch, ["127.0.0.1"])
        error = first_failure(f"https://{host}:{provider.port}/v1", folder=PEM.parent, **options)
    assert (error.kind, "certificate" in str(error), provider.requests) == ("config", True, [])


def test_a_file_of_certificates_that_is_none_is_told_of(tmp_path):
    """A file that is missing or holds something else is a matter of the configuration."""
    (tmp_path / "empty.pem").write_text("", encoding="utf-8")
    for name in ("missing.pem", "empty.pem"):
        error = first_failure("https://127.0.0.1:9/v1", folder=tmp_path, ca_file=name)
        assert (error.kind, "ca_file" in str(error)) == ("config", True)


def test_nothing_of_the_environment_is_used(monkeypatch, tmp_path):
    """Neither a proxy nor the credentials of .netrc: both are of others."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password s3cret\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(server.openai) as provider:
        assert len(embed(provider.url, "a")) == 1
    assert "Authorization" not in provider.requests[0].headers


def test_opening_connects_to_nothing():
    """A source can be opened and closed while its provider is away."""

    async def go():
        async with source("http://127.0.0.1:9/v1") as opened:
            assert await opened.count_tokens(["a"]) == (3,)

    asyncio.run(go())
