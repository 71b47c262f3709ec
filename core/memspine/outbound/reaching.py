"""Connecting to checked addresses only.

A client that is given a name looks it up itself, after any check and with an answer of its own. So the client is given
an address that was checked, while the Host header and the name in the TLS handshake stay those of the endpoint.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from memspine.outbound.endpoints import Endpoint, EndpointError, OutboundPolicy, resolve

T = TypeVar("T")

# Looking a name up for every request would cost more than the request; names of the Internet say how long they hold,
# but the resolver does not pass that on.
_KEPT_SECONDS: Final = 60.0


class CheckedAddresses:
    """The addresses of one endpoint that its policy allows, kept for a minute."""

    def __init__(self, endpoint: Endpoint, policy: OutboundPolicy | None = None) -> None:
        self._endpoint, self._policy = endpoint, policy
        self._addresses: tuple[str, ...] = ()
        self._known_until = 0.0

    async def reach(
        self, host: str, ask: Callable[[str, int], Awaitable[T]], *, unreachable: tuple[type[Exception], ...]
    ) -> T:
        """What `ask` gives for the first address that can be reached; it gets the address and how many there are.

        `host` is where the request was going, which has to be the endpoint. `unreachable` are the errors by which `ask`
        says that nobody listens there; the one of the last address is raised. Raises EndpointError, and OSError when
        the name cannot be looked up.
        """
        if host.strip("[]") != self._endpoint.host:
            raise EndpointError
        addresses = await self._checked()
        for place, address in enumerate(addresses):
            try:
                answer = await ask(address, len(addresses))
            except unreachable:
                if place + 1 == len(addresses):
                    self._addresses = ()
                    raise
            else:
                # First the next time: where nobody listens on ::1, it would be tried for every request.
                self._addresses = (address, *(other for other in self._addresses if other != address))
                return answer
        raise EndpointError

    async def _checked(self) -> tuple[str, ...]:
        import asyncio

        now = asyncio.get_running_loop().time()
        if not self._addresses or now > self._known_until:
            self._addresses = await resolve(self._endpoint, self._policy)
            self._known_until = now + _KEPT_SECONDS
        return self._addresses
