import asyncio
import math
from functools import partial

import pytest

from memspine.errors import ClosedError, EmbeddingError

from . import server
from .server import DIMENSION, Reply, serving, vector
from .tools import embed, floats, rows, source

TEXTS = ["a walnut tree", "the train to Lisbon", "bees and penicillin", "東京で会いましょう", "an invoice"]
EXPECTED = [pytest.approx(floats(vector(text)), abs=1e-6) for text in TEXTS]


@pytest.mark.parametrize("encoding", ["auto", "float", "base64"])
@pytest.mark.parametrize(
    "answer",
    [
        server.openai,
        partial(server.openai, index=False),
        partial(server.openai, shuffled=True),
        partial(server.openai, encode=server.in_base64),
        partial(server.openai, encode=list),
        partial(server.openai, encode=lambda numbers: [3 * number for number in numbers]),
        server.llama_cpp_native,
        lambda request: server.zipped(server.openai(request)),
    ],
    ids=["OpenAI", "no index", "shuffled", "base64", "floats", "not normalised", "llama.cpp", "gzip"],
)
def test_every_server_of_the_openai_shape_is_understood(answer, encoding):
    """Whatever a server does with index, order, encoding and norm, each text has its vector, of norm 1."""
    with serving(answer) as provider:
        vectors = embed(provider.url, *TEXTS, encoding=encoding)
    assert rows(vectors) == EXPECTED
    assert all(math.hypot(*row) == pytest.approx(1, abs=1e-6) for row in rows(vectors))
    (request,) = provider.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {
        "model": "m",
        "input": TEXTS,
        **({"encoding_format": "base64"} if encoding == "base64" else {}),
    }


@pytest.mark.parametrize("encoding", ["float", "base64"])
@pytest.mark.parametrize(("role", "input_type"), [("document", "search_document"), ("query", "search_query")])
def test_cohere(role, input_type, encoding):
    """Cohere is told the role, gets at most 96 texts a request, and is not allowed to cut them."""
    texts = [f"text {number}" for number in range(200)]
    with serving(server.cohere) as provider:
        vectors = embed(provider.url, *texts, api="cohere", role=role, encoding=encoding, dimension=DIMENSION)
    assert rows(vectors) == [pytest.approx(floats(vector(text)), abs=1e-6) for text in texts]
    assert sorted(provider.sizes) == [8, 96, 96]
    for request in provider.requests:
        assert request.path == "/v1/embed"
        assert {key: value for key, value in request.body.items() if key != "texts"} == {
            "model": "m",
            "input_type": input_type,
            "embedding_types": [encoding],
            "truncate": "NONE",
            "output_dimension": DIMENSION,
        }


def test_openai_itself_is_asked_for_base64_in_large_batches():
    """What OpenAI is known to take is used there, and not expected of others."""
    from memspine_remote.config import RemoteEmbeddingConfig
    from memspine_remote.shapes import embedding_shape

    known = embedding_shape(RemoteEmbeddingConfig(model="m", base_url="https://api.openai.com/v1/"))
    other = embedding_shape(RemoteEmbeddingConfig(model="m", base_url="http://localhost:11434/v1"))
    assert known == embedding_shape(RemoteEmbeddingConfig(model="m"))
    assert (known.encoding, known.batch_texts, other.encoding, other.batch_texts) == ("base64", 512, "", 32)


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/embeddings"])
def test_the_path_is_completed_once(path):
    """A base URL may end with a slash, or already hold the last part."""
    with serving(server.openai) as provider:
        embed(f"http://127.0.0.1:{provider.port}{path}", "a")
    assert [request.path for request in provider.requests] == ["/v1/embeddings"]


def test_key_and_headers_are_sent():
    """The key goes as a bearer token, other headers as they are written, and the host is that of the URL."""
    from .tools import KEY, Hidden

    options = {
        "api_key": Hidden(KEY + "\n"),
        "headers": {"X-Team": "a b"},
        "secret_headers": {"Api-Key": Hidden("abc")},
    }
    with serving(server.openai) as provider:
        embed(f"http://localhost:{provider.port}/v1", "a", **options)
    (request,) = provider.requests
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert (request.headers["X-Team"], request.headers["Api-Key"]) == ("a b", "abc")
    assert request.host == f"localhost:{provider.port}"


def test_prefixes_are_written_before_the_texts_of_their_role():
    """Each role has its own prefix, and the prefixes are part of the identity."""
    prefixes = {"document_prefix": "passage: ", "query_prefix": "query: "}
    schemes = set()

    async def go():
        async with source(provider.url, **prefixes) as opened:
            await opened.embed(["a"], role="document")
            await opened.embed(["b"], role="query")
            schemes.add((await opened.identity()).prompt_scheme)
        for options in ({}, {**prefixes, "query_prefix": "question: "}, {"api": "cohere"}):
            async with source(provider.url, dimension=3, **options) as opened:
                schemes.add((await opened.identity()).prompt_scheme)

    with serving(server.openai) as provider:
        asyncio.run(go())
    assert [request.body["input"] for request in provider.requests] == [["passage: a"], ["query: b"]]
    assert len(schemes) == 4
    assert {"none", "input_type"} < schemes


def test_batches_are_whole_parallel_and_in_order():
    """Many texts go out in several requests, so many at once and no more, and come back in order."""
    texts = [f"number {number}" for number in range(100)]

    def slow(request):
        import time

        time.sleep(0.03)
        return server.openai(request)

    with serving(slow) as provider:
        vectors = embed(provider.url, *texts, batch_texts=7, concurrency=3)
    assert rows(vectors) == [pytest.approx(floats(vector(text)), abs=1e-6) for text in texts]
    assert sorted(provider.sizes) == [2, *[7] * 14]
    assert provider.most_at_once == 3


def test_batches_are_limited_by_tokens():
    """A request holds no more than so many tokens, but at least one text."""
    texts = ["long " * 50, "short", "short", "long " * 50, "long " * 50]
    with serving(server.openai) as provider:
        embed(provider.url, *texts, batch_tokens=110, concurrency=1)
        assert provider.sizes == [3, 1, 1]
        embed(provider.url, *texts, batch_tokens=1, concurrency=1)
    assert provider.sizes[3:] == [1] * 5


def test_a_limit_on_texts_is_found_and_kept():
    """A batch that is refused as too big is halved until it fits, and the next ones are as small from the start."""
    texts = [f"number {number}" for number in range(20)]
    answer = partial(server.strict, texts_max=3, window=512)

    async def go():
        async with source(provider.url) as opened:
            first = await opened.embed(texts, role="document")
            count = len(provider.requests)
            again = await opened.embed(texts, role="document")
            return first, again, provider.sizes[count:]

    with serving(answer) as provider:
        first, again, sizes = asyncio.run(go())
    assert first == again
    assert rows(first) == [pytest.approx(floats(vector(text)), abs=1e-6) for text in texts]
    assert max(sizes) <= 3


def test_the_one_text_that_is_too_long_is_named():
    """A batch that is refused for one text says which; the others cost no more than one further request."""
    texts = ["short"] * 20
    texts[13] = "tenletters " * 12  # fits the window as it is configured, not as it is
    with serving(partial(server.strict, texts_max=100, window=40)) as provider, pytest.raises(EmbeddingError) as error:
        embed(provider.url, *texts, window_tokens=100)
    assert error.value.kind == "too_long"
    assert "text 13 of 0..19" in str(error.value)
    assert len(provider.requests) == 2


def test_a_text_beyond_the_window_is_cut_to_it():
    """What is known to be longer than the window is answered by its beginning, as the contract wants."""
    words = " ".join(f"word{'x' * (number % 3)}" for number in range(500))
    answer = partial(server.strict, texts_max=100, window=100)
    with serving(answer) as provider:
        vectors = embed(provider.url, "short", words, window_tokens=90)
    assert len(vectors) == 2
    assert words.startswith(provider.requests[-1].body["input"][0]) or len(provider.requests) > 2


def test_the_dimension_is_asked_for_once():
    """Without a configured dimension one short text is embedded; a failure is not kept, an answer is."""

    async def go():
        async with source(provider.url, attempts=1) as opened:
            with pytest.raises(EmbeddingError):
                await opened.identity()
            found = await asyncio.gather(*(opened.identity() for _ in range(5)))
            await opened.embed(["a"], role="query")
            found.append(await opened.identity())
            return found

    with serving(server.openai) as provider:
        provider.script = [Reply(status=503)]
        found = asyncio.run(go())
    assert {identity.dimension for identity in found} == {DIMENSION}
    assert len(set(found)) == 1
    assert len(provider.requests) == 3


def test_a_configured_dimension_is_sent_and_checked():
    """It goes along unless it shall not, costs no request to learn, and no other is accepted."""

    async def identity(**options):
        async with source(provider.url, **options) as opened:
            return (await opened.identity()).dimension

    with serving(server.openai) as provider:
        assert asyncio.run(identity(dimension=7)) == 7
        assert not provider.requests
        embed(provider.url, "a", dimension=DIMENSION)
        embed(provider.url, "a", dimension=DIMENSION, send_dimension=False)
        assert [request.body.get("dimensions") for request in provider.requests] == [DIMENSION, None]
        with pytest.raises(EmbeddingError, match="dimension 32 where 7") as error:
            embed(provider.url, "a", dimension=7)
    assert error.value.kind == "invalid"


def test_the_identity_is_that_of_the_model():
    """API, host, model and dimension make the revision, unless one is given; keys and paths do not."""

    async def identity(**options):
        async with source(**{"url": "https://models.example/v1", "model": "m", "dimension": 3, **options}) as opened:
            return await opened.identity()

    async def go():
        same = [await identity(), await identity(url="https://models.example:8443/other", timeout_seconds=1.0)]
        others = [
            await identity(url="https://other.example/v1"),
            await identity(model="n"),
            await identity(dimension=4),
            await identity(api="cohere"),
            await identity(revision="2"),
        ]
        return same, others

    same, others = asyncio.run(go())
    assert same[0] == same[1]
    assert len({same[0].revision, *(other.revision for other in others)}) == 6
    assert (same[0].plugin, same[0].window_tokens, others[-1].revision) == ("remote", 512, "2")


def test_an_empty_text_costs_no_request():
    """What some providers refuse and some answer with nothing is refused here, and the text is named."""
    with serving(server.openai) as provider, pytest.raises(EmbeddingError, match="text 1 is empty") as error:
        embed(provider.url, "a", "", "b")
    assert error.value.kind == "invalid"
    assert not provider.requests


def test_a_failure_ends_the_other_requests():
    """When one batch fails, no further ones are sent, and the error is the provider's own."""
    texts = [f"number {number}" for number in range(60)]
    with serving(server.openai) as provider:
        provider.script = [Reply(status=401)]
        with pytest.raises(EmbeddingError) as error:
            embed(provider.url, *texts, batch_texts=1, concurrency=2)
    assert error.value.kind == "auth"
    assert len(provider.requests) < 10


def test_a_closed_source_is_closed():
    """After leaving, calls raise ClosedError, and one that was waiting ends."""

    async def go():
        async with source(provider.url, attempts=3) as opened:
            waiting = asyncio.ensure_future(opened.embed(["a"], role="query"))
            await asyncio.sleep(0.2)
        with pytest.raises((ClosedError, EmbeddingError)):
            await asyncio.wait_for(waiting, 2)
        for call in (opened.embed(["a"], role="query"), opened.identity(), opened.count_tokens(["a"])):
            with pytest.raises(ClosedError):
                await call

    with serving(Reply(hang=10)) as provider:
        asyncio.run(go())
