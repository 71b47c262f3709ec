"""Sends one request and reads its answer: within a deadline, to a limit, repeated where that is safe."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import httpx
import tenacity

from memspine.errors import ClosedError
from memspine.outbound import (
    VIA_HEADER,
    AnswerError,
    CredentialError,
    Endpoint,
    EndpointError,
    Revealed,
    check_url,
    parse_json,
    retry_after,
    reveal,
    unpacked,
    via,
)
from memspine_http.config import LOCAL_HINT, HttpConfig
from memspine_http.failures import RequestError
from memspine_http.transport import CheckedTransport

_ERROR_BYTES_MAX: Final = 64 * 1024
_ERROR_TEXT_LENGTH_MAX: Final = 300
# Smaller answers are read faster than they are handed to a thread.
_THREAD_BYTES_MIN: Final = 256 * 1024
_FIRST_PAUSE_SECONDS: Final = 0.25
# A service that nobody serves is gone for longer than a request can wait; what a short pause does bridge is one that
# is just being replaced, or a queue of connections that was full for a moment.
_UNREACHED_ATTEMPTS_MAX: Final = 2
_UNREACHED_PAUSE_SECONDS: Final = 0.1
_SLOW_DOWN: Final = 429
_LOOP: Final = 508
# Less than the 5 s after which common servers close a connection: a write that meets the end of one may be lost.
_IDLE_SECONDS_MAX: Final = 2.0


@attrs.frozen(kw_only=True)
class Request:
    """One request of a call. `path` is percent-encoded and stands behind the path of the URL; `query` is encoded, too.

    `writes` says that it changes something, `is_repeatable` that doing it twice is the same as doing it once. Answers
    with a status in `told` are handed back instead of raised.
    """

    call: str
    method: str
    path: str
    query: str = ""
    body: Any = None
    writes: bool = False
    is_repeatable: bool = True
    told: frozenset[int] = frozenset()


@attrs.frozen(kw_only=True)
class Answer:
    """An answer: `data` is its JSON, `is_empty` says that it had none, `kind` is the type that its error has."""

    status: int
    data: Any = None
    is_empty: bool = True
    kind: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the service did what was asked."""
        return 200 <= self.status < 300


class Client:
    """The connection to a service. Constructing it connects to nothing."""

    def __init__(self, config: HttpConfig, *, name: str, config_folder: Path) -> None:
        self.name = name
        self._config, self._folder = config, config_folder
        self.endpoint: Endpoint = check_url(config.url, config.policy)
        self._slots = asyncio.Semaphore(config.concurrency)
        self._client: httpx.AsyncClient | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Close all connections and refuse every further request."""
        self._is_closed = True
        if self._client is not None:
            await self._client.aclose()

    def require_open(self) -> None:
        """Raise ClosedError after `close`."""
        if self._is_closed:
            raise ClosedError(self.name)

    async def ask(self, request: Request) -> Answer:
        """The answer, which is a success or has a status that is `told`. Raises RequestError."""
        repeated = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(self._config.attempts),
            retry=lambda state: self._may_repeat(request, state),
            wait=self._pause,
            reraise=True,
        )
        answer: Answer = await repeated(self._attempt, request)
        return answer

    # ── one attempt ──

    async def _attempt(self, request: Request) -> Answer:
        async with self._slots:
            self.require_open()
            revealed = self._revealed()
            headers = {**self._config.headers, **revealed.headers}
            if passed := via():
                headers[VIA_HEADER] = passed
            content = None
            if request.body is not None:
                content = json.dumps(request.body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
                headers["Content-Type"] = "application/json"
            url = self.endpoint.url + request.path + (f"?{request.query}" if request.query else "")
            try:
                async with (
                    asyncio.timeout(self._config.timeout_seconds),
                    self._opened().stream(request.method, url, content=content, headers=headers) as response,
                ):
                    return await self._answer(request, response, revealed)
            except (httpx.HTTPError, httpx.InvalidURL, OSError, EndpointError, AnswerError) as error:
                raise self._failure(request, error) from None

    def _revealed(self) -> Revealed:
        try:
            return reveal(self._config.api_key, self._config.secret_headers)
        except CredentialError as error:
            raise RequestError(error.reason, advice=f"set `{error.option}` to {error.expected}") from None

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            is_plain = self.endpoint.scheme == "http"
            limits = httpx.Limits(
                max_connections=None,
                max_keepalive_connections=self._config.concurrency,
                keepalive_expiry=_IDLE_SECONDS_MAX,
            )
            inner = httpx.AsyncHTTPTransport(verify=False if is_plain else self._trusted(), limits=limits)
            transport = CheckedTransport(
                self.endpoint, self._config.policy, inner, timeout_seconds=self._config.timeout_seconds
            )
            headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "memspine"}
            # Nothing of the environment: a proxy would connect in our stead, unchecked, and .netrc holds credentials
            # of others. This time-out starts anew with every byte; the one that holds is that of the attempt.
            self._client = httpx.AsyncClient(
                transport=transport, headers=headers, timeout=self._config.timeout_seconds, trust_env=False
            )
        return self._client

    def _trusted(self) -> ssl.SSLContext:
        if self._config.ca_file is None:
            return httpx.create_ssl_context()
        path = self._folder / Path(self._config.ca_file).expanduser()
        try:
            return ssl.create_default_context(cafile=path)
        except OSError as error:  # of which SSLError is one
            raise RequestError(
                f"the certificates of `ca_file` cannot be read: {error.strerror or type(error).__name__}; "
                "expected a file of certificates in PEM format"
            ) from None

    async def _answer(self, request: Request, response: httpx.Response, revealed: Revealed) -> Answer:
        if not response.is_success:
            data = await _beginning(response, _ERROR_BYTES_MAX)
            if response.status_code in request.told:
                return Answer(status=response.status_code, kind=_error_field(data, "type"))
            raise self._refused(request, response, revealed.redacted(_error_field(data, "message")))
        bytes_max = self._config.max_answer_bytes
        announced = response.headers.get("Content-Length", "")
        if announced.isdigit() and int(announced) > bytes_max:
            raise self._too_long(request)
        data = await _beginning(response, bytes_max + 1)
        if len(data) > bytes_max:
            raise self._too_long(request)
        if not data.strip():
            return Answer(status=response.status_code)
        try:
            parsed = parse_json(data) if len(data) < _THREAD_BYTES_MIN else await asyncio.to_thread(parse_json, data)
        except AnswerError as error:
            raise self.useless(str(error), writes=request.writes) from None
        return Answer(status=response.status_code, data=parsed, is_empty=False)

    # ── what went wrong ──

    def useless(self, what: str, *, writes: bool = False) -> RequestError:
        """The error for an answer that cannot be used."""
        return RequestError(
            f"{self.endpoint.authority} gave {what}",
            advice="see the protocol in the README of memspine-http; `url` and `endpoints` have to lead to the service",
            outcome="unknown" if writes else "none",
        )

    def _too_long(self, request: Request) -> RequestError:
        return RequestError(
            f"{self.endpoint.authority} gave an answer of more than {self._config.max_answer_bytes} bytes",
            advice="raise `max_answer_bytes` if that is right",
            outcome="unknown" if request.writes else "none",
            is_too_long=True,
        )

    def _refused(self, request: Request, response: httpx.Response, text: str) -> RequestError:
        """What an answer that is no success means. Of one that is 4xx, nothing was done."""
        status = response.status_code
        if len(text) > _ERROR_TEXT_LENGTH_MAX:
            text = text[:_ERROR_TEXT_LENGTH_MAX] + " …"
        reason = f"{self.endpoint.authority} answered {request.call!r} with HTTP {status}"
        if status == _LOOP:
            return RequestError(f"{reason}, Loop Detected", is_loop=True)
        return RequestError(
            f"{reason} ({text})" if text else reason,
            advice=_advice(status),
            outcome="unknown" if request.writes and (status >= 500 or status == 408) else "none",
            passes=status in {408, 425, _SLOW_DOWN} or (status >= 500 and status not in {501, 505}),
            retry_after_seconds=retry_after(
                response.headers.get("Retry-After", ""), date=response.headers.get("Date", "")
            ),
        )

    def _failure(self, request: Request, error: Exception) -> RequestError:
        """What an error of the client or of the system means. It is not quoted: it may quote the request."""
        host = self.endpoint.authority
        outcome: Any = "unknown" if request.writes else "none"
        if isinstance(error, EndpointError):
            return RequestError(str(error), advice=LOCAL_HINT)
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            advice = "name a certificate in `ca_file` that signs it"
            return RequestError(f"{host} has a certificate that is not trusted", advice=advice)
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            return RequestError(f"{host} cannot be connected to", passes=True, is_unreached=True)
        if isinstance(error, (TimeoutError, httpx.TimeoutException)):
            text = f"{host} did not answer within {self._config.timeout_seconds:g} s"
            return RequestError(text, outcome=outcome, passes=True)
        if isinstance(error, AnswerError):
            return self.useless(str(error), writes=request.writes)
        if isinstance(error, httpx.TransportError):
            return RequestError(f"{host} broke the connection off", outcome=outcome, passes=True)
        if isinstance(error, OSError):
            return RequestError(f"the host of {host} cannot be looked up", passes=True, is_unreached=True)
        return RequestError(f"{host} cannot be asked ({type(error).__name__})")

    # ── repeating ──

    def _may_repeat(self, request: Request, state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        if not isinstance(error, RequestError) or not error.passes:
            return False
        if error.is_unreached and state.attempt_number >= _UNREACHED_ATTEMPTS_MAX:
            return False
        is_safe = error.outcome == "none" or request.is_repeatable
        return is_safe and (error.retry_after_seconds or 0.0) <= self._config.wait_seconds_max

    def _pause(self, state: tenacity.RetryCallState) -> float:
        """What the service asked for, else twice as long each time; a random part keeps all from coming at once."""
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, RequestError) and error.retry_after_seconds is not None:
            return error.retry_after_seconds
        if isinstance(error, RequestError) and error.is_unreached:
            return min(_UNREACHED_PAUSE_SECONDS, self._config.wait_seconds_max)
        growing = tenacity.wait_exponential(multiplier=_FIRST_PAUSE_SECONDS)(state)
        random = tenacity.wait_random(0, _FIRST_PAUSE_SECONDS)(state)
        return min(growing + random, self._config.wait_seconds_max)


def _advice(status: int) -> str:
    if status in {401, 403, 407}:
        return "set a credential that the service accepts, in `api_key` or `secret_headers`"
    if status in {404, 405, 501}:
        return "check `url`, `preset` and `endpoints`"
    if 300 <= status < 400:
        return "redirects are not followed; set `url` to where the service is"
    return ""


async def _beginning(response: httpx.Response, bytes_max: int) -> bytes:
    """The body, unpacked, up to so many bytes; what comes behind is not read."""
    data = bytearray()
    async for chunk in _decoded(response, bytes_max):
        data += chunk
        if len(data) >= bytes_max:
            break
    return bytes(data[:bytes_max])


def _decoded(response: httpx.Response, bytes_max: int) -> AsyncIterator[bytes]:
    """The body as it comes. The client's own way unpacks a chunk whole, however much it becomes."""
    encoding = response.headers.get("Content-Encoding", "")
    return unpacked(response.aiter_raw(), encoding, bytes_max=bytes_max)


def _error_field(data: bytes, field: str) -> str:
    """A text of the error envelope `{"error": {"message", "type"}}`; empty where there is none of the kind."""
    try:
        answer = parse_json(data)
    except AnswerError:
        return ""  # the page of a gateway, which says nothing that the status does not
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if isinstance(error, Mapping) and isinstance(error.get(field), str):
        return str(error[field])
    return error if isinstance(error, str) and field == "message" else ""
