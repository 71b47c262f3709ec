"""What a refusal means, by its status and its words. Providers share the statuses, but not how they use them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from memspine_remote.failures import Refusal

_USED_UP: Final = re.compile(
    r"insufficient_quota|exceeded your current quota|billing|insufficient (balance|credit|fund)|credit|payment"
    r"|(per|/|a) ?month"
)
# The limit of one text ...
_TOO_LONG: Final = re.compile(
    r"context[ _](length|size|window)|too large to process|too long|too many (input )?tokens|token limit"
    r"|(less|fewer|more|larger|greater) than \d+ tokens|at most \d+ tokens|reduce the length|input length"
    r"|max(imum)?[ _](sequence|input|number of tokens)|string_above_max_length|max_tokens_per_|max_model_len"
)
# ... and that of a whole request.
_BATCH_TOO_BIG: Final = re.compile(
    r"array(_above_max_length| too long)|(maximum|allowed|client|request) batch size|batch size is|in batch"
    r"|too many (inputs|texts|documents|items)|number of (inputs|texts|documents|items)|per[_ ]request"
    r"|(at most|more than|maximum( of)?|exceeds?) \d+ (inputs|texts|documents|items)"
)
# llama.cpp says 500 to a long text, in words that also name its batch.
_TOO_LONG_AT_500: Final = re.compile(r"too large to process|context[ _](length|size)|input length")
_UNFIT: Final = re.compile(
    r"model.{0,80}(not found|not exist|unknown|invalid|unavailable)|(unknown|invalid|no such) model|model_not_found"
    r"|dimension|matryoshka|encoding_format|embedding_types|input_type|not support|unsupported|unrecognized"
    r"|unknown (field|parameter|argument)|extra_forbidden"
)
_CONFIG_STATUSES: Final = frozenset({404, 405, 406, 410, 415, 501, 505})
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 423, 425})


def refusal_of(status: int, answer: object) -> Refusal:
    """The refusal that this status and this JSON, if any came with it, are."""
    text = ": ".join(_texts(answer))
    words = text.lower()
    if status in {401, 403, 407}:
        # What was wrong with a credential is nobody's business: providers quote parts of it.
        return Refusal(kind="auth")
    if status == 402 or (status in {400, 429} and _USED_UP.search(words)):
        return Refusal(kind="quota", text=text)
    if status == 429:
        return Refusal(kind="rate", text=text)
    if status < 400:
        return Refusal(kind="config", text="it redirects elsewhere, which is never followed")
    if status in _CONFIG_STATUSES:
        return Refusal(kind="config", text=text)
    if status >= 500:
        return Refusal(kind="too_long" if _TOO_LONG_AT_500.search(words) else "transient", text=text)
    if status in _TRANSIENT_STATUSES:
        return Refusal(kind="transient", text=text)
    return _bad_request(status, text, words)


def _bad_request(status: int, text: str, words: str) -> Refusal:
    if _BATCH_TOO_BIG.search(words) and not _TOO_LONG_AT_500.search(words):
        return Refusal(kind="too_long", text=text, is_batch=True)
    if status == 413 or _TOO_LONG.search(words):
        return Refusal(kind="too_long", text=text)
    return Refusal(kind="config" if _UNFIT.search(words) else "invalid", text=text)


def _texts(answer: object) -> Iterator[str]:
    """The words of an error, wherever the provider keeps them: code and type first, then the message.

    Only fields that are known to hold words of the provider: some servers send the whole request back.
    """
    if not isinstance(answer, Mapping):
        return
    inner = answer.get("error")
    if isinstance(inner, Mapping):
        yield from _texts(inner)
        return
    for name in ("code", "type", "error_type", "error", "message", "detail", "msg"):
        value = answer.get(name)
        if isinstance(value, str) and value:
            yield value
    details = answer.get("detail")
    if isinstance(details, list):
        for detail in details[:3]:
            yield from _texts(detail)
