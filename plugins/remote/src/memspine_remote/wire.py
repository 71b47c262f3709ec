"""Posts JSON to one endpoint and reads JSON from it: so many requests at once, each limited, repeated where that may
help, its answer read to a limit."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import httpx
import tenacity

from memspine.errors import ClosedError
from memspine.outbound import (
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
)
from memspine_remote.config import RemoteConfig
from memspine_remote.failures import RequestError
from memspine_remote.shapes import Shape, ShapeError
from memspine_remote.transport import CheckedTransport

T = TypeVar("T")

_ERROR_BYTES_MAX: Final = 64 * 1024
_ERROR_TEXT_LENGTH_MAX: Final = 300
# Smaller answers are read faster than they are handed to a thread.
_THREAD_BYTES_MIN: Final = 256 * 1024
_FIRST_PAUSE_SECONDS: Final = 0.5
_USER_AGENT: Final = "memspine"


class Wire:
    """The connection to a provider (an async context manager; entering and leaving do not wait for the network)."""

    def __init__(self, config: RemoteConfig, shape: Shape, *, name: str, config_folder: Path) -> None:
        self.name = name
        self._config, self._shape, self._folder = config, shape, config_folder
        base = check_url(config.base_url or shape.base_url, config.policy)
        self.endpoint: Endpoint = base
        self._url = base.url if base.url.endswith(shape.path) else base.url + shape.path
        self._slots = asyncio.Semaphore(config.concurrency)
        self._client: httpx.AsyncClient | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Close all connections and refuse every further call."""
        self._is_closed = True
        if self._client is not None:
            await self._client.aclose()

    def require_open(self) -> None:
        """Raise ClosedError after `close`."""
        if self._is_closed:
            raise ClosedError(self.name)

    async def post(self, body: Mapping[str, object], read: Callable[[object], T], *, bytes_max: int) -> T:
        """What `read` makes of the answer to this body; it may run in a thread, and raise ShapeError.

        Raises RequestError when there is no such answer, or one of more than `bytes_max` bytes.
        """
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        repeated = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(self._config.attempts),
            retry=tenacity.retry_if_exception(self._may_pass),
            wait=self._pause,
            reraise=True,
        )
        data: bytes = await repeated(self._attempt, content, bytes_max)
        if len(data) < _THREAD_BYTES_MIN:
            return self._understood(data, read)
        return await asyncio.to_thread(self._understood, data, read)

    # ── one attempt ──

    async def _attempt(self, content: bytes, bytes_max: int) -> bytes:
        async with self._slots:
            self.require_open()
            revealed = self._revealed()
            headers = {**self._config.headers, **revealed.headers}
            try:
                async with (
                    asyncio.timeout(self._config.timeout_seconds),
                    self._opened().stream("POST", self._url, content=content, headers=headers) as response,
                ):
                    if response.is_success:
                        return await self._whole(response, bytes_max)
                    raise await self._refused(response, revealed)
            except (httpx.HTTPError, httpx.InvalidURL, OSError, EndpointError, AnswerError) as error:
                raise self._failure(error) from None

    def _revealed(self) -> Revealed:
        try:
            return reveal(self._config.api_key, self._config.secret_headers)
        except CredentialError as error:
            raise RequestError("config", error.reason, expected=error.expected) from None

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            is_plain = self.endpoint.scheme == "http"
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=self._config.concurrency)
            inner = httpx.AsyncHTTPTransport(verify=False if is_plain else self._trusted(), limits=limits)
            transport = CheckedTransport(
                self.endpoint, self._config.policy, inner, timeout_seconds=self._config.timeout_seconds
            )
            headers = {
                "Accept": "application/json",
                "Accept-Encoding": "gzip",
                "Content-Type": "application/json",
                "User-Agent": _USER_AGENT,
            }
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
                "config",
                f"the certificates of `ca_file` cannot be read: {error.strerror or type(error).__name__}",
                expected="a file of certificates in PEM format",
            ) from None

    async def _whole(self, response: httpx.Response, bytes_max: int) -> bytes:
        data = bytearray()
        async for chunk in _decoded(response, bytes_max + 1):
            data += chunk
            if len(data) > bytes_max:
                raise self._useless(f"an answer of more than {bytes_max} bytes")
        return bytes(data)

    # ── what went wrong ──

    async def _refused(self, response: httpx.Response, revealed: Revealed) -> RequestError:
        """What an answer that is no success means."""
        status = response.status_code
        data = bytearray()
        async for chunk in _decoded(response, _ERROR_BYTES_MAX):
            data += chunk
            if len(data) >= _ERROR_BYTES_MAX:
                break
        try:
            answer = parse_json(bytes(data))
        except AnswerError:
            answer = None  # the page of a gateway, which says nothing that the status does not
        refusal = self._shape.refusal(status, answer)
        text = revealed.redacted(refusal.text)
        if len(text) > _ERROR_TEXT_LENGTH_MAX:
            text = text[:_ERROR_TEXT_LENGTH_MAX] + " …"
        reason = f"{self.endpoint.authority} answered with HTTP {status}"
        return RequestError(
            refusal.kind,
            f"{reason} ({text})" if text else reason,
            retry_after_seconds=retry_after(
                response.headers.get("Retry-After", ""), date=response.headers.get("Date", "")
            ),
            is_batch=refusal.is_batch,
        )

    def _failure(self, error: Exception) -> RequestError:
        """What an error of the client or of the system means. It is not quoted: it may quote the request."""
        host = self.endpoint.authority
        if isinstance(error, EndpointError):
            return RequestError("config", str(error), expected="an endpoint that is allowed, in `base_url`")
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            expected = "a certificate that `ca_file`, or the system, trusts for this host"
            return RequestError("config", f"{host} has a certificate that is not trusted", expected=expected)
        if isinstance(error, (TimeoutError, httpx.TimeoutException)):
            return RequestError("transient", f"{host} did not answer within {self._config.timeout_seconds:g} s")
        if isinstance(error, AnswerError):
            return self._useless(str(error))
        if isinstance(error, httpx.TransportError):
            doing = "cannot be connected to" if isinstance(error, httpx.ConnectError) else "broke the connection off"
            return RequestError("transient", f"{host} {doing}")
        if isinstance(error, OSError):
            return RequestError("transient", f"the host of {host} cannot be looked up")
        return RequestError("config", f"{host} cannot be asked ({type(error).__name__})")

    def _useless(self, what: str) -> RequestError:
        return RequestError("invalid", f"{self.endpoint.authority} gave {what}")

    def _understood(self, data: bytes, read: Callable[[object], T]) -> T:
        try:
            return read(parse_json(data))
        except (AnswerError, ShapeError) as error:
            raise self._useless(str(error)) from None

    # ── repeating ──

    def _may_pass(self, error: BaseException) -> bool:
        if not isinstance(error, RequestError) or error.kind not in {"transient", "rate"}:
            return False
        return (error.retry_after_seconds or 0.0) <= self._config.wait_seconds_max

    def _pause(self, state: tenacity.RetryCallState) -> float:
        """What the provider asked for, else twice as long each time; a random part keeps all from coming at once."""
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, RequestError) and error.retry_after_seconds is not None:
            return error.retry_after_seconds
        growing = tenacity.wait_exponential(multiplier=_FIRST_PAUSE_SECONDS)(state)
        random = tenacity.wait_random(0, _FIRST_PAUSE_SECONDS)(state)
        return min(growing + random, self._config.wait_seconds_max)


def _decoded(response: httpx.Response, bytes_max: int) -> AsyncIterator[bytes]:
    """The body as it comes. The client's own way unpacks a chunk whole, however much it becomes."""
    encoding = response.headers.get("Content-Encoding", "")
    return unpacked(response.aiter_raw(), encoding, bytes_max=bytes_max)
