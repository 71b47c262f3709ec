"""What a manager holds while it is open: the chain, retrieval, open injectors, telemetry, the background task."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from memspine import times
from memspine.chain import Chain, Member
from memspine.config import BackendSettings, Config, config_from_mapping, load_config
from memspine.contracts import Injector, MemoryBackend
from memspine.errors import MemspineError
from memspine.injection import Fence
from memspine.maintenance import KINDS, Kind, MaintenanceReport, run_maintenance
from memspine.model import Finding, Health, InjectionResult, Scope, SearchResult
from memspine.placing import Placement, place_memories
from memspine.plugins import Plugins
from memspine.policy import CallPolicy
from memspine.resources import SharedResources, open_provider
from memspine.retrieval import Retrieval
from memspine.secret import install_secret
from memspine.text import TokenCounter

ACCESS_DELAY_SECONDS: Final = 4.0
"""How long recalls are gathered before they are written; at most 5 s are promised."""


def read_config(
    source: Config | Mapping[str, Any] | str | Path | None, *, plugins: Plugins | None
) -> tuple[Config, Plugins]:
    """The configuration from a path, from a mapping, or from where it is usually found, and the plugins it was checked
    against. Raises ConfigError."""
    registry = plugins or Plugins()
    if isinstance(source, Config):
        return source, registry
    if isinstance(source, Mapping):
        return config_from_mapping(source, plugins=registry), registry
    return load_config(None if source is None else Path(source), plugins=registry), registry


class Running:
    """An open manager's parts. Nothing is opened before it is needed."""

    def __init__(self, config: Config, plugins: Plugins, *, count_tokens: TokenCounter) -> None:
        self.config = config
        self.policy = CallPolicy(config)
        self._plugins = plugins
        self._count_tokens = count_tokens
        self._resources = SharedResources()
        self._stack = AsyncExitStack()
        self._injectors: dict[str, Injector] = {}
        self._accesses: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._secret: bytes | None = None
        self._background: asyncio.Task[None] | None = None
        self._background_error = ""
        memory = config.memory
        self.chain = Chain(
            [Member(b.name, open=self._opener(b)) for b in (config.primary, *config.fallbacks)],
            deadline_seconds=memory.deadline_seconds,
            read_fallback=memory.read_fallback,
        )
        self.retrieval = Retrieval(self.chain, count_tokens=count_tokens)

    def start_background(self) -> None:
        """Keep telemetry and maintenance going in a task of their own."""
        self._background = asyncio.create_task(self._work(), name="memspine background")

    async def close(self) -> None:
        """Stop the background task, write telemetry, close every store and injector."""
        if self._background is not None:
            self._background.cancel()
            await asyncio.wait([self._background])
        try:
            await self.flush_accesses()
        finally:
            await self._stack.aclose()
            await self.chain.close()

    async def place(
        self,
        request: Mapping[str, Any],
        *,
        shape: str,
        scope: Scope,
        session: str,
        limit: int,
        max_tokens: int,
        where: Literal["system", "user"],
    ) -> tuple[InjectionResult, bool]:
        """Place memories into a request, and count those placed as recalled; the flag says whether all went well."""
        placement = Placement(
            heading=self.config.injection.heading,
            max_tokens=max_tokens,
            where=where,
            fence=lambda: Fence.of(secret=self.secret(), owner=scope.owner, session=session),
            count_tokens=self._count_tokens,
        )
        result, well = await place_memories(
            request,
            injector=await self.injector(shape),
            retrieval=self.retrieval,
            recall=lambda question: self.policy.recall_request(question, scope=scope, limit=limit),
            placement=placement,
        )
        if result.trace is not None:
            self.record_accesses(SearchResult(result.hits, result.trace))
        return result, well

    async def injector(self, shape: str) -> Injector:
        """The injector of a request shape, opened at first use. Raises UnknownPluginError, PluginLoadError."""
        if shape not in self._injectors:
            provider = self._plugins.injector(shape)
            opened = open_provider(
                provider,
                provider.config_type(),
                name=shape,
                config_folder=self.config.source.folder,
                data_folder=self.config.data_folder,
                resources=self._resources,
            )
            self._injectors[shape] = await self._stack.enter_async_context(opened)
        return self._injectors[shape]

    def secret(self) -> bytes:
        """The installation's secret. Raises OSError."""
        if self._secret is None:
            self._secret = install_secret(self.config.data_folder)
        return self._secret

    # ── telemetry: written behind, in batches; what a crash loses is a count ──

    def record_accesses(self, result: SearchResult) -> None:
        """Count the memories that reach a caller; those that a fallback gave are not the primary's to count."""
        if result.trace.backend == self.chain.primary.name:
            for hit in result.hits:
                self._accesses[hit.memory.owner][hit.memory.id] += 1

    def forget_accesses(self, owner: str, ids: Sequence[str] | None) -> None:
        """Drop what is not written yet about memories that are being purged."""
        if ids is None:
            self._accesses.pop(owner, None)
        else:
            for id in ids:
                self._accesses[owner].pop(id, None)

    async def flush_accesses(self) -> None:
        """Write the counts gathered so far; those of a failed write are dropped, and health tells of it."""
        gathered, self._accesses = self._accesses, defaultdict(Counter)
        for owner, counts in gathered.items():
            scope, now = Scope.of_owner(owner), times.now()
            try:
                await self.chain.write("record_access", _recorder(counts, scope=scope, now=now))
            except MemspineError as error:
                self._background_error = f"telemetry was not written: {error}"

    # ── keeping ──

    async def maintain(self, kinds: Sequence[Kind] | None, *, budget_seconds: float | None) -> MaintenanceReport:
        """Run maintenance now."""
        memory = self.config.memory
        return await run_maintenance(
            self.chain,
            now=times.now(),
            history_days=memory.history_days,
            feed_days=memory.feed_days,
            kinds=KINDS if kinds is None else kinds,
            budget_seconds=budget_seconds,
        )

    async def health(self, *, deep: bool) -> dict[str, Health]:
        """Every backend's health, with the last trouble of the background work told by the primary."""
        healths = await self.chain.health(deep=deep)
        if self._background_error:
            finding = Finding(level="warning", text=f"background work: {self._background_error}")
            primary = self.chain.primary.name
            healths[primary] = attrs.evolve(healths[primary], findings=(*healths[primary].findings, finding))
        return healths

    async def _work(self) -> None:
        settings = self.config.maintenance
        maintained_at = time.monotonic()
        while True:
            await asyncio.sleep(ACCESS_DELAY_SECONDS)
            await self.flush_accesses()
            if settings.enabled and time.monotonic() - maintained_at >= settings.interval_seconds:
                maintained_at = time.monotonic()
                try:
                    await self.maintain(None, budget_seconds=settings.interval_seconds)
                except MemspineError as error:
                    self._background_error = f"maintenance failed: {error}"

    def _opener(self, settings: BackendSettings) -> Callable[[], AbstractAsyncContextManager[MemoryBackend]]:
        return lambda: open_provider(
            settings.provider,
            settings.options,
            name=settings.name,
            config_folder=self.config.source.folder,
            data_folder=self.config.data_folder,
            resources=self._resources,
        )


def _recorder(
    counts: Mapping[str, int], *, scope: Scope, now: datetime
) -> Callable[[MemoryBackend], Coroutine[Any, Any, None]]:
    return lambda backend: backend.record_access(counts, scope=scope, now=now)
