"""Embedding sources that are opened once for a whole measurement, whatever number of managers use them.

A model that is loaded anew for every conversation and every point of a grid would take longer than all else.
"""

from __future__ import annotations

import asyncio
import json
import pkgutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

from memspine.contracts import Context, EmbeddingIdentity, EmbeddingSource, Role, Vectors

if TYPE_CHECKING:
    from memspine.config import SourceSettings

T = TypeVar("T")


class SharedSources:
    """The sources in use, by their configuration. They keep their files where the user's own would.

    While `reuses_questions` is set, a question that was embedded before is not embedded again: for points of a grid,
    whose speed nobody asks about.
    """

    def __init__(self, *, config_folder: Path, data_folder: Path) -> None:
        self.reuses_questions = False
        self._config_folder = config_folder
        self._data_folder = data_folder
        self._kept: dict[str, _Kept] = {}

    def shared(self, settings: SourceSettings) -> SourceSettings:
        """The settings of a source whose opening gives the one that is shared."""
        key = json.dumps([settings.plugin, dict(settings.document)], sort_keys=True, default=str)
        if key not in self._kept:
            context = _SourceContext(settings.name, config_folder=self._config_folder, data_folder=self._data_folder)
            self._kept[key] = _Kept(settings, context)
        kept = self._kept[key]

        @asynccontextmanager
        async def open_shared(_: object, context: Context) -> AsyncIterator[EmbeddingSource]:
            yield _Shared(context.name, await kept.opened(), kept=kept, pool=self)

        return attrs.evolve(settings, provider=attrs.evolve(settings.provider, open=open_shared))

    async def identity(self, settings: SourceSettings) -> EmbeddingIdentity:
        """The identity of the vectors of a source. Raises EmbeddingError, or whatever opening it raises."""
        opener = cast("Callable[[Any, Context], Any]", self.shared(settings).provider.open)
        context = _SourceContext(settings.name, config_folder=self._config_folder, data_folder=self._data_folder)
        async with opener(settings.options, context) as source:
            identity: EmbeddingIdentity = await source.identity()
            return identity

    async def close(self) -> None:
        """Close all that were opened."""
        for kept in self._kept.values():
            await kept.close()


class _Kept:
    """One opened source, opened and closed in one task, and the vectors of the questions that it was asked."""

    def __init__(self, settings: SourceSettings, context: _SourceContext) -> None:
        self.questions: dict[str, bytes] = {}
        self._settings = settings
        self._context = context
        self._leave = asyncio.Event()
        self._opening: tuple[asyncio.Task[None], asyncio.Future[EmbeddingSource]] | None = None

    async def opened(self) -> EmbeddingSource:
        """The source. Raises whatever opening it raises; the next call tries again."""
        if self._opening is None or self._opening[0].done():
            ready: asyncio.Future[EmbeddingSource] = asyncio.get_running_loop().create_future()
            self._opening = asyncio.create_task(self._hold(ready)), ready
        task, ready = self._opening
        either: set[asyncio.Future[Any]] = {task, ready}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await task  # it has failed, and raises
        return ready.result()

    async def close(self) -> None:
        """Close it, if it is open."""
        self._leave.set()
        if self._opening is not None:
            await asyncio.wait([self._opening[0]])

    async def _hold(self, ready: asyncio.Future[EmbeddingSource]) -> None:
        provider = self._settings.provider
        open = pkgutil.resolve_name(provider.open) if isinstance(provider.open, str) else provider.open
        async with self._context, open(self._settings.options, self._context) as source:
            ready.set_result(source)
            await self._leave.wait()


class _SourceContext:
    """What a shared source gets when it opens (`memspine.contracts.Context`)."""

    def __init__(self, name: str, *, config_folder: Path, data_folder: Path) -> None:
        self.name = name
        self.config_folder = config_folder
        self.data_folder = data_folder
        self._stack = AsyncExitStack()
        self._resources: dict[str, Any] = {}

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        self._resources.clear()
        await self._stack.aclose()

    async def shared(self, key: str, open: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """One resource for each key, closed with the source: no other source asks here."""
        if key not in self._resources:
            self._resources[key] = await self._stack.enter_async_context(open())
        return cast("T", self._resources[key])


class _Shared:
    """A source as one manager has it."""

    def __init__(self, name: str, source: EmbeddingSource, *, kept: _Kept, pool: SharedSources) -> None:
        self.name = name
        self._source = source
        self._kept = kept
        self._pool = pool

    async def identity(self) -> EmbeddingIdentity:
        """The identity of the vectors."""
        return await self._source.identity()

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """The vectors of the texts; a question's, where that is allowed, from before."""
        if role != "query":
            return await self._source.embed(texts, role=role)
        known = self._kept.questions
        if not self._pool.reuses_questions or not all(text in known for text in texts):
            vectors = await self._source.embed(texts, role=role)
            known.update({text: vectors.row_bytes(row) for row, text in enumerate(texts[: len(vectors)])})
            return vectors
        return Vectors((await self._source.identity()).dimension, b"".join(known[text] for text in texts))

    async def count_tokens(self, texts: Sequence[str]) -> tuple[int, ...]:
        """How much of the window each text takes."""
        return await self._source.count_tokens(texts)
