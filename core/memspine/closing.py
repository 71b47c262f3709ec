"""Closing several things: one that fails leaves none of the others open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable


async def close_all(closings: Iterable[Awaitable[object]]) -> None:
    """Close all at once, also when closing some fails. Raises the first error, after all were closed."""
    for result in await asyncio.gather(*closings, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
