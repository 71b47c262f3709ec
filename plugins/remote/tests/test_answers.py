import asyncio
import gzip
import json
from functools import partial

import pytest

from memspine.errors import EmbeddingError, RerankError

from . import server
from .server import DIMENSION, Reply, serving, vector
from .tools import embed, failure, reranker, source

GOOD = vector("a")


def answered(*vectors, **fields):
    return {"data": [{"index": place, "embedding": value, **fields} for place, value in enumerate(vectors)]}


def literally(text):
    """An answer with a literal in place of one number, which Python reads but JSON does not know."""
    return Reply(body=json.dumps(answered(GOOD, ["@", *GOOD[1:]])).replace('"@"', text).encode())


USELESS = {
    "fewer": answered(GOOD),
    "more": answered(GOOD, GOOD, GOOD),
    "none": {"data": []},
    "no data": {"object": "list"},
    "data is no array": {"data": {"0": GOOD}},
    "an error with status 200": {"error": {"message": "over capacity"}},
    "a bare number": 7,
    "null": None,
    "the same index twice": {"data": [{"index": 0, "embedding": GOOD}, {"index": 0, "embedding": GOOD}]},
    "indexes from 1": {"data": [{"index": 1, "embedding": GOOD}, {"index": 2, "embedding": GOOD}]},
    "an index for some": {"data": [{"index": 0, "embedding": GOOD}, {"embedding": GOOD}]},
    "an index that is true": {"data": [{"index": False, "embedding": GOOD}, {"index": True, "embedding": GOOD}]},
    "results that are no objects": {"data": [GOOD, GOOD]},
    "no vector": {"data": [{"index": 0, "embedding": GOOD}, {"index": 1}]},
    "a vector that is null": answered(GOOD, None),
    "an empty vector": answered(GOOD, []),
    "null for NaN": answered(GOOD, [None, *GOOD[1:]]),
    "a text for NaN": answered(GOOD, ["NaN", *GOOD[1:]]),
    "a text for a number": answered(GOOD, ["1.0", *GOOD[1:]]),
    "true for a number": answered(GOOD, [True, *GOOD[1:]]),
    "NaN itself": literally("NaN"),
    "infinity itself": literally("-Infinity"),
    "a number beyond float64": literally("1e999"),
    "an integer beyond float64": literally("9" * 400),
    "an integer beyond what Python reads": literally("9" * 5000),
    "the zero vector": answered(GOOD, [0.0] * DIMENSION),
    "integers, all zero": answered(GOOD, [0] * DIMENSION),
    "another dimension": answered(GOOD, GOOD[1:]),
    "one vector a token": answered(GOOD, [GOOD, GOOD]),
    "base64 of NaN": answered(GOOD, server.in_base64([float("nan"), *GOOD[1:]])),
    "base64 of infinity": answered(GOOD, server.in_base64([float("inf"), *GOOD[1:]])),
    "base64 of zeros": answered(GOOD, server.in_base64([0.0] * DIMENSION)),
    "base64 of something else": answered(GOOD, "AAAAAA=="),
    "no base64": answered(GOOD, "*" * 8),
    "no JSON": Reply(body=b"<html>It works!</html>"),
    "nothing": Reply(body=b""),
    "nothing, by its status": Reply(status=204, body=b""),
    "half of it": Reply(body=json.dumps(answered(GOOD, GOOD)).encode()[:-9]),
    "nested without end": Reply(body=b"[" * 200_000),
    "no text": Reply(body=b'{"data": "\xff\xfe"}'),
    "half a gzip": Reply(body=gzip.compress(b"{}" * 999)[:20], headers={"Content-Encoding": "gzip"}),
    "no gzip": Reply(body=b"{}", headers={"Content-Encoding": "gzip"}),
    "another encoding": Reply(body=b"{}", headers={"Content-Encoding": "br"}),
}


@pytest.mark.parametrize("name", USELESS)
def test_a_useless_answer_is_an_error_for_the_whole_batch(name):
    """Nothing is repaired, left out or filled in, and nothing is asked again; the next call works."""
    reply = USELESS[name] if isinstance(USELESS[name], Reply) else Reply(body=USELESS[name])

    async def go():
        async with source(provider.url) as opened:
            error = await failure(opened.embed(["a", "b"], role="document"), EmbeddingError)
            assert len(provider.requests) == 1
            assert len(await opened.embed(["a", "b"], role="document")) == 2
            return error

    with serving(server.openai) as provider:
        provider.script = [reply]
        error = asyncio.run(go())
    assert (error.kind, error.source, error.retry_after_seconds) == ("invalid", "far", None)


@pytest.mark.parametrize(
    "embeddings",
    [{"float": [GOOD]}, {"int8": [GOOD, GOOD]}, {"float": [GOOD, 1]}, [GOOD, GOOD], {"float": [GOOD, GOOD[1:]]}],
    ids=["fewer", "another type", "no vector", "the first version's shape", "another dimension"],
)
def test_a_useless_answer_of_cohere_is_an_error(embeddings):
    """The same holds for the other shape."""
    with serving(Reply(body={"embeddings": embeddings})) as provider, pytest.raises(EmbeddingError) as error:
        embed(provider.url, "a", "b", api="cohere")
    assert error.value.kind == "invalid"


@pytest.mark.parametrize(
    ("reply", "most"),
    [
        (Reply(body=b" " * 50_000_000), 0),
        (Reply(body=gzip.compress(b" " * 500_000_000, 9), headers={"Content-Encoding": "gzip"}), 0),
        (Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 50_000_000), 0),
    ],
    ids=["long", "packed", "without a length"],
)
def test_an_answer_without_end_is_not_read(reply, most):
    """An answer is read up to what so many vectors can take, also when it is packed."""
    import tracemalloc

    tracemalloc.start()
    try:
        with serving(reply) as provider, pytest.raises(EmbeddingError, match="more than") as error:
            embed(provider.url, "a", dimension=DIMENSION)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.value.kind == "invalid"
    assert peak < 40_000_000


RESULTS = [{"index": 0, "relevance_score": 0.5}, {"index": 1, "relevance_score": 0.25}]


@pytest.mark.parametrize("api", ["jina", "cohere"])
@pytest.mark.parametrize(
    "results",
    [
        RESULTS[:1],
        [*RESULTS, RESULTS[0]],
        [RESULTS[0], RESULTS[0]],
        [RESULTS[0], {"index": 2, "relevance_score": 0.1}],
        [RESULTS[0], {"index": 1}],
        [RESULTS[0], {"relevance_score": 0.1}],
        [RESULTS[0], {"index": 1, "relevance_score": None}],
        [RESULTS[0], {"index": 1, "relevance_score": "0.1"}],
        [RESULTS[0], {"index": 1, "relevance_score": True}],
        [RESULTS[0], {"index": 1, "relevance_score": float("nan")}],
        {"0": 0.5, "1": 0.25},
        None,
        [],
    ],
)
def test_a_text_that_was_not_judged_is_an_error(results, api):
    """A result that is missing, doubled, without its index or without a finite score voids the call."""

    async def go():
        async with reranker(provider.url, api=api) as opened:
            return await failure(opened.rerank("q", ["a", "b"]), RerankError)

    with serving(Reply(body={"results": results})) as provider:
        error = asyncio.run(go())
    assert error.kind == "invalid"
    assert len(provider.requests) == 1


@pytest.mark.parametrize(("api", "path"), [("jina", "/v1/rerank"), ("cohere", "/v1/rerank")])
def test_scores_are_in_the_order_of_the_texts(api, path):
    """All texts are to be scored, and whatever order the provider answers in, each has its own score."""
    texts = ["nothing of it", "the walnut tree", "a walnut"]

    async def go():
        async with reranker(provider.url, api=api) as opened:
            assert await opened.rerank("walnut tree", []) == ()
            return await opened.rerank("walnut tree", texts)

    with serving(server.jina) as provider:
        scores = asyncio.run(go())
    assert scores == (0.0, 1.0, 0.5)
    (request,) = provider.requests
    assert request.path == path
    assert request.body == {"model": "m", "query": "walnut tree", "documents": texts, "top_n": 3}


def picky(request, *, texts_max, characters_max):
    """A reranker that takes few texts at once, and short ones."""
    texts = request.body["documents"]
    if len(texts) > texts_max:
        return Reply(status=422, body={"error": f"batch size {len(texts)} > maximum allowed batch size {texts_max}"})
    if any(len(text) > characters_max for text in texts):
        message = "input (990 tokens) is too large to process. increase the physical batch size"
        return Reply(status=500, body={"error": {"code": 500, "message": message, "type": "server_error"}})
    return server.jina(request)


def test_texts_are_judged_whatever_the_provider_takes_at_once():
    """Too many are divided, too long ones are cut, and a text's score does not depend on its neighbours."""
    texts = [*(f"walnut number {number}" for number in range(20)), "walnut " * 1000, "nothing " * 1000]

    async def go():
        async with reranker(provider.url, batch_texts=8) as opened:
            return await opened.rerank("walnut", texts)

    with serving(partial(picky, texts_max=3, characters_max=1000)) as provider:
        scores = asyncio.run(go())
    assert scores == (*[1.0] * 21, 0.0)


def test_a_question_that_is_too_long_is_an_error():
    """Texts are cut only while they may be the reason."""

    async def go():
        async with reranker(provider.url) as opened:
            return await failure(opened.rerank("walnut", ["word " * 200]), RerankError)

    with serving(Reply(status=400, body={"message": "too many tokens"})) as provider:
        error = asyncio.run(go())
    assert error.kind == "too_long"
    assert len(provider.requests) < 8
