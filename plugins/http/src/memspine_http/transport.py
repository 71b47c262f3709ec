"""Connects to checked addresses only.

A client that is given a name looks it up itself, after any check and with an answer of its own. So the client is given
an address that was checked, while the Host header and the name in the TLS handshake stay those of the endpoint.
"""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

from memspine.outbound import Endpoint, EndpointError, OutboundPolicy, resolve

# Looking a name up for every request would cost more than the request; names of the Internet say how long they hold,
# but the resolver does not pass that on.
_KEPT_SECONDS: Final = 60.0


class CheckedTransport(httpx.AsyncBaseTransport):
    """Sends requests for one endpoint through `inner`, to addresses that the policy allows."""

    def __init__(
        self, endpoint: Endpoint, policy: OutboundPolicy, inner: httpx.AsyncBaseTransport, *, timeout_seconds: float
    ) -> None:
        self._endpoint, self._policy, self._inner = endpoint, policy, inner
        self._timeout_seconds = timeout_seconds
        self._addresses: tuple[str, ...] = ()
        self._known_until = 0.0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. Raises EndpointError, OSError when the name is not known, httpx.TransportError."""
        if request.url.raw_host.decode("ascii").strip("[]") != self._endpoint.host:
            raise EndpointError
        addresses = await self._checked_addresses()
        for place, address in enumerate(addresses):
            try:
                response = await self._inner.handle_async_request(self._aimed(request, address, len(addresses)))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if place + 1 == len(addresses):
                    self._addresses = ()
                    raise
            else:
                # First the next time: where nobody listens on ::1, it would be tried for every request.
                self._addresses = (address, *(other for other in self._addresses if other != address))
                return response
        raise EndpointError

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()

    async def _checked_addresses(self) -> tuple[str, ...]:
        now = asyncio.get_running_loop().time()
        if not self._addresses or now > self._known_until:
            self._addresses = await resolve(self._endpoint, self._policy)
            self._known_until = now + _KEPT_SECONDS
        return self._addresses

    def _aimed(self, request: httpx.Request, address: str, count: int) -> httpx.Request:
        """The same request, to be sent to an address."""
        extensions = dict(request.extensions)
        extensions["timeout"] = {**extensions.get("timeout", {}), "connect": self._timeout_seconds / count}
        if self._endpoint.scheme == "https" and self._endpoint.address is None:
            extensions["sni_hostname"] = self._endpoint.host
        return httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions=extensions,
        )
