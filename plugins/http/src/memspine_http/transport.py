"""Sends requests to checked addresses only."""

from __future__ import annotations

from typing import Final

import httpx

from memspine.outbound import CheckedAddresses, Endpoint, OutboundPolicy

_UNREACHABLE: Final = (httpx.ConnectError, httpx.ConnectTimeout)


class CheckedTransport(httpx.AsyncBaseTransport):
    """Sends requests for one endpoint through `inner`, to addresses that the policy allows."""

    def __init__(
        self, endpoint: Endpoint, policy: OutboundPolicy, inner: httpx.AsyncBaseTransport, *, timeout_seconds: float
    ) -> None:
        self._endpoint, self._inner, self._timeout_seconds = endpoint, inner, timeout_seconds
        self._addresses = CheckedAddresses(endpoint, policy)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. Raises EndpointError, OSError when the name is not known, httpx.TransportError."""

        async def send(address: str, count: int) -> httpx.Response:
            return await self._inner.handle_async_request(self._aimed(request, address, count))

        return await self._addresses.reach(request.url.raw_host.decode("ascii"), send, unreachable=_UNREACHABLE)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()

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
