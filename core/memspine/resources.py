"""Opens providers: one context for each, and the resources that those of one plugin share."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs

from memspine.contracts import Context, Provider
from memspine.plugins import resolve

T = TypeVar("T")


@attrs.define
class _Resource:
    value: object
    stack: AsyncExitStack
    holders: int = 0


class SharedResources:
    """Reference-counted resources by key: opened for the first holder, closed with the last."""

    def __init__(self) -> None:
        self._open: dict[str, _Resource] = {}
        # One for each key: a store that takes long to open must not keep others from opening.
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def acquire(self, key: str, open: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """The resource of this key, opened if nobody holds it yet; `release` it once for each call."""
        async with self._locks[key]:
            resource = self._open.get(key)
            if resource is None:
                stack = AsyncExitStack()
                resource = _Resource(await stack.enter_async_context(open()), stack)
                self._open[key] = resource
            resource.holders += 1
            return cast("T", resource.value)

    async def release(self, key: str) -> None:
        """Give one holding back."""
        async with self._locks[key]:
            resource = self._open[key]
            resource.holders -= 1
            if not resource.holders:
                del self._open[key]
                await resource.stack.aclose()


class ProviderContext:
    """What one opened provider gets (`memspine.contracts.Context`)."""

    def __init__(
        self, name: str, *, config_folder: Path, data_folder: Path, resources: SharedResources, stack: AsyncExitStack
    ) -> None:
        self.name = name
        self.config_folder = config_folder
        self.data_folder = data_folder
        self._resources = resources
        self._stack = stack

    async def shared(self, key: str, open: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """One resource for all who ask with the same key; given back when this provider closes."""
        value = await self._resources.acquire(key, open)
        self._stack.push_async_callback(self._resources.release, key)
        return value


@asynccontextmanager
async def open_provider(
    provider: Provider[T, Any],
    options: object,
    *,
    name: str,
    config_folder: Path,
    data_folder: Path,
    resources: SharedResources,
) -> AsyncIterator[T]:
    """An opened instance of a provider, under the name that the configuration gives it."""
    async with AsyncExitStack() as stack:
        context: Context = ProviderContext(
            name, config_folder=config_folder, data_folder=data_folder, resources=resources, stack=stack
        )
        yield await stack.enter_async_context(resolve(provider)(options, context))
