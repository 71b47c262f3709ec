"""The options of the embedding source and of the reranker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
from attrs.validators import ge, le

from memspine.contracts import Secret
from memspine.outbound import OutboundPolicy, check_headers, check_url


def _check_base_url(config: RemoteConfig, _: attrs.Attribute[Any], value: str) -> None:
    """Raise ValueError for a URL that is not allowed. An empty one stands for the provider's own."""
    if value:
        check_url(value, config.policy)


def _check_text(_: object, attribute: attrs.Attribute[Any], value: str) -> None:
    """Raise ValueError for a text that no provider can be sent."""
    if not value.strip():
        raise ValueError(f"'{attribute.name}' must not be empty")


def _check_headers(_: object, __: attrs.Attribute[Any], value: Mapping[str, object]) -> None:
    check_headers(value)


def _option(help: str, *, default: Any = attrs.NOTHING, validator: Any = None, factory: Any = None) -> Any:
    """A field with its line of help, which the README repeats."""
    return attrs.field(default=default, validator=validator, factory=factory, metadata={"help": help})


@attrs.frozen(kw_only=True)
class RemoteConfig:
    """What the source and the reranker have in common."""

    model: str = _option("The model, as the provider calls it.", validator=_check_text)
    base_url: str = _option(
        "Where the API is, without the last part of its path; none is the provider's own.",
        default="",
        validator=_check_base_url,
    )
    api_key: Secret | None = attrs.field(
        default=None, metadata={"help": 'The key, sent as a bearer token: `{ env = "NAME" }` or `{ file = "path" }`.'}
    )
    headers: Mapping[str, str] = _option(
        "More headers; none of them a credential.", factory=dict, validator=_check_headers
    )
    secret_headers: Mapping[str, Secret] = _option(
        'More headers whose values are credentials: `{ api-key = { env = "NAME" } }`.',
        factory=dict,
        validator=_check_headers,
    )
    timeout_seconds: float = _option(
        "How long one request may take, from looking up the host to the last byte.",
        default=60.0,
        validator=[ge(0.01), le(3600)],
    )
    attempts: int = _option(
        "How often a request is made at most, when what went wrong may pass.", default=4, validator=[ge(1), le(20)]
    )
    wait_seconds_max: float = _option(
        "The longest pause between two attempts; a provider that asks for a longer one is not asked again.",
        default=20.0,
        validator=[ge(0), le(600)],
    )
    concurrency: int = _option("How many requests run at once.", default=4, validator=[ge(1), le(64)])
    public_only: bool = _option("Whether private and loopback addresses are refused.", default=False)
    key_over_http: bool = _option(
        "Whether a credential may go over plain http to a public address, where others can read it.", default=False
    )
    ca_file: str | None = _option(
        "A file of certificates to trust instead of the usual ones; relative to the configuration.", default=None
    )

    @property
    def policy(self) -> OutboundPolicy:
        """Where requests may go."""
        has_secret = self.api_key is not None or bool(self.secret_headers)
        return OutboundPolicy(public_only=self.public_only, carries_secret=has_secret and not self.key_over_http)


@attrs.frozen(kw_only=True)
class RemoteEmbeddingConfig(RemoteConfig):
    """The options of the embedding source."""

    api: Literal["openai", "cohere"] = _option(
        "The shape of the API: `openai`, which most servers speak, or `cohere` (its v2).", default="openai"
    )
    dimension: int | None = _option(
        "The dimension of the vectors; none asks the model with one short text.",
        default=None,
        validator=attrs.validators.optional([ge(1), le(65536)]),
    )
    send_dimension: bool = _option(
        "Whether the provider is asked for `dimension`; off for models that have only one and refuse the question.",
        default=True,
    )
    revision: str = _option(
        "What this version of the model is called. Change it when other weights are served under the same name; none "
        "is a hash of API, host, model and dimension.",
        default="",
    )
    encoding: Literal["auto", "float", "base64"] = _option(
        "How vectors are asked for; `auto` is base64 at OpenAI, floats elsewhere. Either is understood.", default="auto"
    )
    document_prefix: str = _option("What is written before a text to be found.", default="")
    query_prefix: str = _option("What is written before a text to find it by.", default="")
    window_tokens: int = _option(
        "How many tokens of a text the model reads; 0 is what is known of the model, else 512.",
        default=0,
        validator=[ge(0), le(10_000_000)],
    )
    batch_texts: int = _option(
        "How many texts a request holds at most; 0 is what suits the provider.",
        default=0,
        validator=[ge(0), le(100_000)],
    )
    batch_tokens: int = _option(
        "How many tokens, as they are estimated, a request holds at most; 0 is what suits the provider.",
        default=0,
        validator=[ge(0), le(100_000_000)],
    )


@attrs.frozen(kw_only=True)
class RemoteRerankerConfig(RemoteConfig):
    """The options of the reranker."""

    timeout_seconds: float = _option(
        "How long one request may take, from looking up the host to the last byte.",
        default=10.0,
        validator=[ge(0.01), le(3600)],
    )
    attempts: int = _option(
        "How often a request is made at most, when what went wrong may pass.", default=2, validator=[ge(1), le(20)]
    )
    wait_seconds_max: float = _option(
        "The longest pause between two attempts; a provider that asks for a longer one is not asked again.",
        default=2.0,
        validator=[ge(0), le(600)],
    )
    api: Literal["jina", "cohere"] = _option(
        "The shape of the API: `jina`, which most servers speak, or `cohere` (its v2).", default="jina"
    )
    batch_texts: int = _option(
        "How many texts a request holds at most; more are judged in several, as if they were one.",
        default=1000,
        validator=[ge(1), le(100_000)],
    )
