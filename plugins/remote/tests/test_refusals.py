import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from memspine.errors import EmbeddingError
from memspine.outbound import retry_after
from memspine_remote.shapes.refusals import refusal_of

from . import server
from .server import Reply, openai_error, serving
from .tools import embed, failure, source

FEW_TOKENS = "Input validation error: `inputs` must have less than 512 tokens. Given: 514"
UBATCH = "input (534 tokens) is too large to process. increase the physical batch size (current batch size: 512)"
PER_REQUEST = openai_error("Requested 346134 tokens, max 300000 tokens per request", code="max_tokens_per_request")
EXTRA = {"detail": [{"type": "extra_forbidden", "msg": "Extra inputs are not permitted", "input": "text"}]}
VLLM = {"object": "error", "message": "This model's maximum context length is 512 tokens.", "code": 400}
CONTEXT = openai_error("the request exceeds the available context size", type="exceed_context_size_error")
QUOTA = "You exceeded your current quota, please check your plan and billing details."
LIMIT = "Rate limit reached for text-embedding-3-small on requests per min (RPM): Limit 3, Used 3. Try again in 20s."
CASES = [
    # OpenAI
    (401, openai_error("Incorrect API key provided: sk-t0p***.", code="invalid_api_key"), "auth", False),
    (403, openai_error("Country, region, or territory not supported"), "auth", False),
    (429, openai_error(QUOTA, type="insufficient_quota", code="insufficient_quota"), "quota", False),
    (429, openai_error(LIMIT, code="rate_limit_exceeded"), "rate", False),
    (400, openai_error("This model's maximum context length is 8192 tokens, however you requested"), "too_long", False),
    (400, PER_REQUEST, "too_long", True),
    (400, openai_error("'$.input' array too long. Maximum 2048 items."), "too_long", True),
    (400, openai_error("'$.input' is invalid. Please check the API reference."), "invalid", False),
    (404, openai_error("The model `m` does not exist", code="model_not_found"), "config", False),
    (400, openai_error("This model does not support specifying dimensions."), "config", False),
    # Ollama
    (404, {"error": {"message": 'model "m" not found, try pulling it first', "type": "api_error"}}, "config", False),
    (400, {"error": "the input length exceeds the context length"}, "too_long", False),
    (500, {"error": "the input length exceeds the context length"}, "too_long", False),
    # llama.cpp
    (500, openai_error(UBATCH), "too_long", False),
    (400, CONTEXT, "too_long", False),
    (501, openai_error("This server does not support embeddings. Start it with `--embeddings`"), "config", False),
    (503, openai_error("Loading model", type="unavailable_error"), "transient", False),
    # Text Embeddings Inference
    (413, {"error": FEW_TOKENS, "error_type": "Validation"}, "too_long", False),
    (422, {"error": "batch size 64 > maximum allowed batch size 32", "error_type": "Validation"}, "too_long", True),
    (429, {"error": "Model is overloaded", "error_type": "Overloaded"}, "rate", False),
    (424, {"error": "Inference failed", "error_type": "Backend"}, "invalid", False),
    # vLLM
    (400, VLLM, "too_long", False),
    (400, {"object": "error", "message": 'Model "m" does not support matryoshka representation'}, "config", False),
    # Cohere
    (400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 512"}, "too_long", False),
    (400, {"message": "total number of texts must be at most 96 - received 97"}, "too_long", True),
    (429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."}, "quota", False),
    (402, {"message": "Please add a payment method"}, "quota", False),
    # Mistral, DashScope, gateways
    (400, {"object": "error", "message": "Too many tokens in batch. Max is 16384 got 17555"}, "too_long", True),
    (400, openai_error("Value error, batch size is invalid, it should not be larger than 10."), "too_long", True),
    (422, EXTRA, "config", False),
    (422, {"detail": [{"type": "value_error", "msg": "Value error", "input": "text"}]}, "invalid", False),
    (413, None, "too_long", False),
    (502, None, "transient", False),
    (504, "nginx", "transient", False),
    (405, ["?"], "config", False),
    (400, {"error": {"error": {"error": None}}}, "invalid", False),
]  # fmt: skip


@pytest.mark.parametrize(("status", "answer", "kind", "is_batch"), CASES)
def test_each_provider_is_understood(status, answer, kind, is_batch):
    """Status and words of the published errors become the kind of trouble, and tell a text from a batch."""
    refusal = refusal_of(status, answer)
    assert (refusal.kind, refusal.is_batch) == (kind, is_batch)


def test_what_was_sent_is_not_told_again():
    """Servers that send the request back have nothing of it in the error."""
    answer = {"detail": [{"type": "value_error", "msg": "no", "input": "private words", "ctx": {"x": "private"}}]}
    assert "private" not in refusal_of(422, answer).text


@pytest.mark.parametrize(("status", "answer", "kind", "is_batch"), CASES)
def test_only_what_may_pass_is_asked_again(status, answer, kind, is_batch):
    """Credentials, quota, options and texts that are refused are refused at once; the rest is tried again."""
    with serving(Reply(status=status, body=answer)) as provider, pytest.raises(EmbeddingError) as error:
        embed(provider.url, "a", attempts=3)
    assert error.value.kind == kind
    assert f"HTTP {status}" in str(error.value)
    assert len(provider.requests) == (3 if kind in {"transient", "rate"} else 1)


def at(moment):
    return format_datetime(moment, usegmt=True)


NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.mark.parametrize(
    ("text", "date", "seconds"),
    [
        ("7", "", 7.0),
        (" 1.5 ", "", 1.5),
        ("0", "", 0.0),
        ("999999999", "", 86_400.0),
        (at(NOW + timedelta(seconds=30)), at(NOW), 30.0),
        (at(NOW + timedelta(days=3650)), at(NOW + timedelta(days=3650, seconds=-9)), 9.0),
        (at(NOW - timedelta(seconds=30)), at(NOW), 0.0),
        (at(NOW + timedelta(days=9000)), at(NOW), 86_400.0),
        ("", "", None),
        ("soon", "", None),
        ("-3", "", None),
        ("nan", "", None),
        ("1e9", "", None),
        ("٣", "", None),
        (".", "", None),
        ("Mon, 32 Foo 2026 00:00:00 GMT", "", None),
    ],
)
def test_retry_after(text, date, seconds):
    """Seconds or a date by the provider's own clock, never more than a day, never less than nothing."""
    assert retry_after(text, date=date) == seconds


def test_a_date_without_a_clock_beside_it_is_read_by_our_own():
    """Not every server sends the time with its answer."""
    assert retry_after(at(datetime.now(UTC) + timedelta(seconds=100))) == pytest.approx(100, abs=5)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("as_date", [False, True], ids=["seconds", "date"])
def test_the_provider_says_when(status, as_date):
    """The next attempt waits as long as the provider asked for."""
    wanted = at(datetime.now(UTC) + timedelta(seconds=2)) if as_date else "1"
    with serving(server.openai) as provider:
        provider.script = [Reply(status=status, headers={"Retry-After": wanted})]
        start = time.monotonic()
        embed(provider.url, "a", wait_seconds_max=5.0)
        assert 0.9 < time.monotonic() - start < 3.5
    assert len(provider.requests) == 2


def test_a_pause_that_is_too_long_is_left_to_the_caller():
    """Nobody waits in here for minutes, nor asks earlier than told; the error says how long."""
    with serving(Reply(status=429, headers={"Retry-After": "120"})) as provider, pytest.raises(EmbeddingError) as error:
        embed(provider.url, "a", wait_seconds_max=5.0)
    assert (error.value.kind, error.value.retry_after_seconds) == ("rate", 120.0)
    assert len(provider.requests) == 1


def test_waiting_keeps_nobody_else_waiting():
    """A request that pauses gives its place to others."""

    async def go():
        async with source(provider.url, concurrency=1, wait_seconds_max=5.0) as opened:
            slow = asyncio.ensure_future(opened.embed(["a"], role="query"))
            await asyncio.to_thread(provider.asked.wait, 5)
            await asyncio.wait_for(opened.embed(["b"], role="query"), 0.7)
            assert not slow.done()
            assert len(await slow) == 1

    with serving(server.openai) as provider:
        provider.script = [Reply(status=429, headers={"Retry-After": "1"})]
        asyncio.run(go())


def test_a_missing_credential_is_told_of():
    """A key that the configuration names but that is not there is a matter of the configuration, by its name."""
    from .tools import Hidden

    async def go():
        async with source(provider.url, api_key=Hidden("")) as opened:
            return await failure(opened.embed(["a"], role="query"), EmbeddingError)

    with serving(server.openai) as provider:
        error = asyncio.run(go())
    assert (error.kind, "variable 'KEY' is not set" in str(error), provider.requests) == ("config", True, [])
