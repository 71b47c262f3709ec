"""What a manager holds while it is open: the chain, retrieval, open injectors, telemetry, the background task."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import attrs

from memspine import times
from memspine.chain import Chain, Member
from memspine.config import BackendSettings, Config, config_from_mapping, load_config, redacted
from memspine.contracts import Injector, Provider
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
from memspine.telemetry import AccessCounts
from memspine.text import TokenCounter

# For each memory of a block so many are recalled, so that smaller ones can take the place of what does not fit.
_SPARE = 4

T = TypeVar("T")

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
        self._injecting = asyncio.Lock()
        self._accesses = AccessCounts()
        self._secret: bytes | None = None
        self._background: list[asyncio.Task[None]] = []
        self._troubles: dict[str, str] = {}
        memory = config.memory
        self.chain = Chain(
            [self._member(backend) for backend in (config.primary, *config.fallbacks)],
            deadline_seconds=memory.deadline_seconds,
            read_fallback=memory.read_fallback,
        )
        self.retrieval = Retrieval(self.chain, count_tokens=count_tokens)

    def start_background(self) -> None:
        """Keep telemetry and maintenance going, each in a task of its own."""
        settings = self.config.maintenance
        self._background.append(asyncio.create_task(self._repeat(self.flush_accesses, ACCESS_DELAY_SECONDS)))
        if settings.enabled:
            maintain = functools.partial(self.maintain, None, budget_seconds=settings.interval_seconds)
            self._background.append(asyncio.create_task(self._repeat(maintain, settings.interval_seconds)))

    async def close(self) -> None:
        """Stop the background tasks, write telemetry, close every store and injector."""
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        try:
            await self._noting("telemetry", self.flush_accesses())
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
            limit=limit,
            max_tokens=max_tokens,
            where=where,
            fence=lambda: Fence.of(secret=self.secret(), owner=scope.owner, session=session),
            count_tokens=self._count_tokens,
        )
        result, well = await place_memories(
            request,
            injector=await self.injector(shape),
            retrieval=self.retrieval,
            recall=lambda question: self.policy.recall_request(question, scope=scope, limit=_SPARE * limit),
            placement=placement,
        )
        if result.trace is not None:
            self.record_accesses(SearchResult(result.hits, result.trace))
        return result, well

    async def injector(self, shape: str) -> Injector:
        """The injector of a request shape, opened at first use. Raises UnknownPluginError, PluginLoadError."""
        async with self._injecting:
            if shape not in self._injectors:
                provider = self._plugins.injector(shape)
                self._injectors[shape] = await self._stack.enter_async_context(
                    self._opened(provider, provider.config_type(), name=shape)
                )
        return self._injectors[shape]

    def secret(self) -> bytes:
        """The installation's secret. Raises OSError."""
        if self._secret is None:
            self._secret = install_secret(self.config.data_folder)
        return self._secret

    # ── keeping ──

    def record_accesses(self, result: SearchResult) -> None:
        """Count the memories that reach a caller."""
        self._accesses.record(result, primary=self.chain.primary.name)

    def forget_accesses(self, owner: str, ids: Sequence[str] | None) -> None:
        """Drop what is not written yet about memories that are being purged."""
        self._accesses.forget(owner, ids)

    async def flush_accesses(self) -> None:
        """Write the recalls counted so far. Raises BackendUnavailable; they are kept then."""
        await self._accesses.flush(self.chain)

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
        """Every backend's health; what background work has run into, and not got over, is told by the primary."""
        healths = await self.chain.health(deep=deep)
        findings = [Finding(level="warning", text=f"{work}: {error}") for work, error in self._troubles.items()]
        primary = self.chain.primary.name
        healths[primary] = attrs.evolve(healths[primary], findings=(*healths[primary].findings, *findings))
        return healths

    async def _repeat(self, work: Callable[[], Awaitable[object]], pause_seconds: float) -> None:
        name = "telemetry" if work == self.flush_accesses else "maintenance"
        while True:
            await asyncio.sleep(pause_seconds)
            await self._noting(name, work())

    async def _noting(self, name: str, work: Awaitable[object]) -> None:
        """Do background work; its failure is nobody's call to fail, so it is kept for `health` until it succeeds."""
        try:
            await work
        except MemspineError as error:
            self._troubles[name] = str(error)
        else:
            self._troubles.pop(name, None)

    def _member(self, settings: BackendSettings) -> Member:
        return Member(
            settings.name,
            open=lambda: self._opened(settings.provider, settings.options, name=settings.name),
            redact=lambda text: redacted(text, settings.options),
        )

    def _opened(self, provider: Provider[T, Any], options: object, *, name: str) -> AbstractAsyncContextManager[T]:
        return open_provider(
            provider,
            options,
            name=name,
            config_folder=self.config.source.folder,
            data_folder=self.config.data_folder,
            resources=self._resources,
        )
