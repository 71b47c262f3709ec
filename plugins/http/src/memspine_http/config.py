"""The options of the backend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs
from attrs.validators import ge, le

from memspine.contracts import Folders, Secret
from memspine.outbound import EndpointError, OutboundPolicy, check_headers, check_url
from memspine_http.presets import (
    ENDPOINTS,
    METHODS,
    NAMES_IN_PATHS,
    PLACEHOLDER,
    PRESETS,
    QUERY_NAMES,
    Preset,
    split_endpoint,
)

_PATH: Final = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@%{}-]*)+")
LOCAL_HINT: Final = "a host with a private or loopback address has to be named in `allow_local`"


def _check_url(config: HttpConfig, _: attrs.Attribute[Any], value: str) -> None:
    """Raise ValueError for a URL that is not allowed, and say so where it only lacks a name in `allow_local`."""
    try:
        check_url(value, config.policy)
    except EndpointError as error:
        raise ValueError(f"{error}; {LOCAL_HINT}") from None


def _check_local(_: object, __: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
    """Raise ValueError for what is no host, with or without a port."""
    for entry in value:
        if "/" in entry:
            raise ValueError(f"{entry!r} in `allow_local` is no host; expected a name or address, with or without port")
        try:
            check_url(f"http://{entry}")
        except EndpointError:
            raise ValueError(
                f"{entry!r} in `allow_local` cannot be used; expected a host such as 'localhost', '127.0.0.1:8080' or "
                "'[::1]' that is no metadata service"
            ) from None


def _check_headers(_: object, __: attrs.Attribute[Any], value: Mapping[str, object]) -> None:
    check_headers(value)


def _check_endpoints(config: HttpConfig, _: attrs.Attribute[Any], value: Mapping[str, str]) -> None:
    """Raise ValueError for a call that is unknown, and for a path that cannot be filled in."""
    known = {*NAMES_IN_PATHS, *config.path_names.values()}
    for call, endpoint in value.items():
        if call not in ENDPOINTS:
            raise ValueError(f"{call!r} in `endpoints` is no call; expected one of {', '.join(ENDPOINTS)}")
        if not endpoint and call in {"health", "search"}:
            continue
        method, path = split_endpoint(endpoint, ENDPOINTS[call])
        if method not in METHODS or not _PATH.fullmatch(path):
            raise ValueError(
                f"`endpoints.{call}` is {endpoint!r}; expected a path such as '/notes/{{id}}' without query and "
                f"fragment, or one behind a method: 'PUT /notes/{{id}}'"
            )
        if {".", ".."} & {*path.split("/")}:
            raise ValueError(f"`endpoints.{call}` is {endpoint!r}; expected a path without '.' and '..'")
        for name in PLACEHOLDER.findall(path):
            if name not in known:
                raise ValueError(f"`endpoints.{call}` has {{{name}}}; expected one of {', '.join(sorted(known))}")
        if "{" in PLACEHOLDER.sub("", path) or "}" in PLACEHOLDER.sub("", path):
            raise ValueError(f"`endpoints.{call}` is {endpoint!r}; expected braces in pairs")


def _check_query_names(_: object, __: attrs.Attribute[Any], value: Mapping[str, str]) -> None:
    if unknown := sorted(value.keys() - {*QUERY_NAMES}):
        raise ValueError(f"{unknown[0]!r} in `query_names` is no parameter; expected one of {', '.join(QUERY_NAMES)}")


def _check_path_names(_: object, __: attrs.Attribute[Any], value: Mapping[str, str]) -> None:
    if unknown := sorted(value.keys() - {*NAMES_IN_PATHS}):
        raise ValueError(f"{unknown[0]!r} in `path_names` is unknown; expected one of {', '.join(NAMES_IN_PATHS)}")


def _option(help: str, *, default: Any = attrs.NOTHING, validator: Any = None, factory: Any = None) -> Any:
    """A field with its line of help, which the README repeats."""
    return attrs.field(default=default, validator=validator, factory=factory, metadata={"help": help})


@attrs.frozen(kw_only=True)
class HttpConfig:
    """The options of the backend."""

    url: str = _option("Where the service is; a path in it is kept before every endpoint.", validator=_check_url)
    preset: Literal["memspine", "generic", "omniroute"] = _option(
        "The kind of service: `memspine`, which may have capabilities; `generic`, nothing but the plain protocol; "
        "`omniroute`, OmniRoute's own REST API.",
        default="memspine",
    )
    api_key: Secret | None = attrs.field(
        default=None, metadata={"help": 'The key, sent as a bearer token: `{ env = "NAME" }` or `{ file = "path" }`.'}
    )
    headers: Mapping[str, str] = _option(
        "More headers; none of them a credential.", factory=dict, validator=_check_headers
    )
    secret_headers: Mapping[str, Secret] = _option(
        'More headers whose values are credentials: `{ x-api-key = { env = "NAME" } }`.',
        factory=dict,
        validator=_check_headers,
    )
    allow_local: tuple[str, ...] = _option(
        "Hosts, with or without port, that may have a private or loopback address; all others must be public.",
        default=(),
        validator=_check_local,
    )
    key_over_http: bool = _option(
        "Whether a credential may go over plain http to a public address, where others can read it.", default=False
    )
    ca_file: str | None = _option(
        "A file of certificates to trust instead of the usual ones; relative to the configuration.", default=None
    )
    timeout_seconds: float = _option(
        "How long one request may take, from looking up the host to the last byte.",
        default=30.0,
        validator=[ge(0.01), le(3600)],
    )
    attempts: int = _option(
        "How often a request is made at most, when what went wrong may pass and repeating it is safe.",
        default=3,
        validator=[ge(1), le(20)],
    )
    wait_seconds_max: float = _option(
        "The longest pause between two attempts; a service that asks for a longer one is not asked again.",
        default=5.0,
        validator=[ge(0), le(600)],
    )
    concurrency: int = _option("How many requests run at once.", default=8, validator=[ge(1), le(64)])
    page_items: int = _option(
        "How many memories one page of a list is asked for.", default=200, validator=[ge(1), le(10_000)]
    )
    max_answer_bytes: int = _option(
        "The longest answer that is read; a page that is longer is asked for in smaller ones.",
        default=16 * 1024 * 1024,
        validator=[ge(1024), le(1024 * 1024 * 1024)],
    )
    endpoints: Mapping[str, str] = _option(
        "Where the service has a call, by its name: a path, or a method and a path.",
        factory=dict,
        validator=_check_endpoints,
    )
    query_names: Mapping[str, str] = _option(
        "What the service calls a parameter of the query; an empty name leaves it out.",
        factory=dict,
        validator=_check_query_names,
    )
    path_names: Mapping[str, str] = _option(
        "What `id` and `owner` are called between the braces of `endpoints`.",
        factory=dict,
        validator=_check_path_names,
    )
    ask_capabilities: bool | None = _option(
        "Whether the service is asked what it can do beyond the plain protocol; none is what the preset says.",
        default=None,
    )
    own_fields: bool | None = _option(
        "Whether ids, times, revisions and access counts of memspine's are sent along; none is what the preset says.",
        default=None,
    )

    @property
    def chosen(self) -> Preset:
        """The preset with what the options put in its place."""
        preset = PRESETS[self.preset]
        return attrs.evolve(
            preset,
            endpoints={**preset.endpoints, **self.endpoints},
            query_names={**preset.query_names, **self.query_names},
        )

    @property
    def asks_capabilities(self) -> bool:
        """Whether `GET /capabilities` is sent."""
        return not self.chosen.is_plain if self.ask_capabilities is None else self.ask_capabilities

    @property
    def sends_own_fields(self) -> bool:
        """Whether the service gets what the plain protocol has no field for."""
        return not self.chosen.is_plain if self.own_fields is None else self.own_fields

    @property
    def policy(self) -> OutboundPolicy:
        """Where requests may go: to public addresses, unless the host is named in `allow_local`."""
        has_secret = self.api_key is not None or bool(self.secret_headers)
        return OutboundPolicy(
            public_only=not self._is_allowed_local(), carries_secret=has_secret and not self.key_over_http
        )

    def _is_allowed_local(self) -> bool:
        try:
            endpoint = check_url(self.url)
            allowed = [(entry, check_url(f"http://{entry}")) for entry in self.allow_local]
        except EndpointError:
            return False  # which the validators tell of
        return any(
            one.host == endpoint.host and (not _has_port(entry) or one.port == endpoint.port) for entry, one in allowed
        )


def place(config: HttpConfig, _: Folders) -> object:
    """Which store it is: where the service lists its memories, and for whom."""
    listing = split_endpoint(config.chosen.endpoints["list"], ENDPOINTS["list"])
    return check_url(config.url).url, listing, config.headers, config.api_key, config.secret_headers


def _has_port(entry: str) -> bool:
    return bool(re.search(r"(^[^:]*|\]):[0-9]+$", entry))
