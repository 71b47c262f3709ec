"""What a manager holds while it is open: the chain, retrieval, open injectors, telemetry, the background task."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import attrs

from memspine import times
from memspine.breaker import Breaker
from memspine.catchup import CatchUp
from memspine.chain import Chain, Member
from memspine.chain.journals import chain_journal
from memspine.closing import close_all
from memspine.config import (
    BackendSettings,
    Config,
    SourceSettings,
    config_from_mapping,
    load_config,
    redacted,
    vector_store,
)
from memspine.contracts import Capability, EmbeddingSource, Injector, Provider
from memspine.embedding import Sources
from memspine.engine import (
    EmbeddingEngine,
    EngineStatus,
    KeywordEngine,
    VectorEngine,
    embedding_engine,
    rerank_engine,
    vector_engine,
)
from memspine.errors import MemspineError, NoVectorsError
from memspine.indexing import IndexSettings, Progress, Round, VectorIndex
from memspine.injection import Fence
from memspine.journal import Journal
from memspine.maintenance import KINDS, Kind, MaintenanceReport, run_maintenance
from memspine.model import Finding, Health, Scope
from memspine.ondemand import OnDemand
from memspine.placing import Placement, place_memories
from memspine.plugins import Plugins
from memspine.policy import CallPolicy
from memspine.resources import SharedResources, open_provider
from memspine.results import VECTORS_OFF, InjectionResult, SearchResult
from memspine.retrieval import UNRANKED, RecallRequest, Reranking, Retrieval
from memspine.secret import install_secret
from memspine.telemetry import AccessCounts
from memspine.text import TokenCounter

if TYPE_CHECKING:
    from memspine.delivery import Debts

# For each memory of a block so many are recalled, so that smaller ones can take the place of what does not fit.
_SPARE = 4

T = TypeVar("T")

ACCESS_DELAY_SECONDS: Final = 4.0
"""How long recalls are gathered before they are written; at most 5 s are promised."""
INDEX_PAUSE_SECONDS: Final = 5.0
"""How often a long-lived manager looks for what other processes wrote."""
DELIVERY_PAUSE_SECONDS: Final = 2.0
"""How often it looks for what a replica still lacks."""
DELIVERY_GATHERING_SECONDS: Final = 0.25
HEALTH_SECONDS: Final = 30.0
INJECTOR_PATIENCE_SECONDS: Final = 1.0
GATHERING_SECONDS: Final = 0.02
REINDEX_STEP_SECONDS: Final = 0.5
WAIT_SECONDS: Final = 0.2
CATCH_UP_SECONDS: Final = 0.1
"""How long a question of a short-lived manager has what is new indexed, a model being there; a batch that was begun by
then is finished."""


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
        self._injectors: dict[str, OnDemand[Injector]] = {}
        self._accesses = AccessCounts()
        self._secret: bytes | None = None
        self._background: list[asyncio.Task[None]] = []
        self._indexing: asyncio.Task[None] | None = None
        self._troubles: dict[str, str] = {}
        memory = config.memory
        spools = memory.on_write_failure == "spool"
        left = chain_journal(config)
        # One that is there may hold writes that were acknowledged under other settings.
        journal = left if config.fallbacks or spools or left.is_there() else None
        self.chain = Chain(
            [self._member(backend) for backend in (config.primary, *config.fallbacks)],
            deadline_seconds=memory.deadline_seconds,
            read_fallback=memory.read_fallback,
            journal=journal,
            left=left,
            spools=spools,
        )
        self.debts = None if journal is None else _debts(self.chain, journal)
        self.index, self.why_no_vectors = self._make_index()
        self.reranking = self._make_reranking()
        self.retrieval = Retrieval(
            self.chain,
            count_tokens=count_tokens,
            index=self.index,
            why_no_vectors=self.why_no_vectors,
            reranking=self.reranking,
        )
        self._has_changes = asyncio.Event()
        self._owes = asyncio.Event()
        self._catch_up = CatchUp(self._catch_up_round)

    def start_background(self) -> None:
        """Keep telemetry and maintenance going, each in a task of its own."""
        settings = self.config.maintenance
        self._background.append(asyncio.create_task(self._repeat(self.flush_accesses, ACCESS_DELAY_SECONDS)))
        if settings.enabled:
            kinds = [kind for kind in KINDS if kind not in ("deliver", "embed")]
            maintain = functools.partial(self._maintain_round, kinds, seconds=settings.interval_seconds)
            self._background.append(asyncio.create_task(self._repeat(maintain, settings.interval_seconds)))
        if settings.enabled and self.debts is not None:
            self._background.append(asyncio.create_task(self._keep_delivered(self.debts)))
        if len(self.chain.members) > 1 or self.debts is not None:
            self._background.append(asyncio.create_task(self._keep_probed()))
        if settings.enabled and self.index is not None:
            self._indexing = asyncio.create_task(self._keep_indexed(self.index))
            self._background.append(self._indexing)

    async def close(self) -> None:
        """Stop the background tasks, write telemetry, close every store, model and injector. Raises the first error,
        after all were closed; a mistake that had ended a background task is one."""
        try:
            for task in self._background:
                task.cancel()
            if self._background:
                await asyncio.wait(self._background)
            await self._catch_up.close()
            await self._noting("telemetry", self.flush_accesses())
        finally:
            injectors = [one.close(patience_seconds=INJECTOR_PATIENCE_SECONDS) for one in self._injectors.values()]
            others = [one.close() for one in (self.reranking, self.index, self.chain) if one is not None]
            await close_all((*injectors, *others, *map(_result, self._background)))

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
            recall=lambda question: self.recall(
                self.policy.recall_request(question, scope=scope, limit=_SPARE * limit)
            ),
            placement=placement,
        )
        if result.trace is not None:
            self.record_accesses(SearchResult(result.hits, result.trace))
        return result, well

    async def injector(self, shape: str) -> Injector:
        """The injector of a request shape, opened at first use. Raises UnknownPluginError, PluginLoadError."""
        if shape not in self._injectors:
            provider = self._plugins.injector(shape)
            self._injectors[shape] = OnDemand(
                shape, open=lambda: self._opened(provider, provider.config_type(), name=shape)
            )
        return await self._injectors[shape].opened()

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

    async def maintain(
        self, kinds: Sequence[Kind] | None, *, budget_seconds: float | None, only_loaded: bool = False
    ) -> MaintenanceReport:
        """Run maintenance now."""
        memory = self.config.memory
        return await run_maintenance(
            self.chain,
            index=self.index,
            debts=self.debts,
            now=times.now(),
            history_days=memory.history_days,
            feed_days=memory.feed_days,
            kinds=KINDS if kinds is None else kinds,
            budget_seconds=budget_seconds,
            only_loaded=only_loaded,
        )

    def note_changes(self) -> None:
        """Have what was just written embedded soon: by background work, or before the next question."""
        self._has_changes.set()
        self._owes.set()
        self._catch_up.note_changes()

    async def reindex(
        self, *, rebuild: bool, on_progress: Callable[[tuple[Progress, ...]], None] | None
    ) -> MaintenanceReport:
        """Embed all that has no vector yet, in steps that are told."""
        if self.index is None or not (self.index.has_vectors or await self.index.has_words()):
            raise NoVectorsError("reindex", self.why_no_vectors.removeprefix(VECTORS_OFF))
        if rebuild:
            await self.index.rebuild()
        embedded = 0
        while True:
            done = await self.index.work(seconds=REINDEX_STEP_SECONDS)
            embedded += done.embedded
            if on_progress is not None:
                on_progress(await self.index.progress())
            if done.complete or (done.troubles and not done.embedded):
                return MaintenanceReport(removed={}, complete=done.complete, embedded=embedded, troubles=done.troubles)
            if not done.embedded:
                await asyncio.sleep(WAIT_SECONDS)  # another process has leased what is left

    async def engine(self, *, probe: bool) -> EngineStatus:
        """What finds memories."""
        health = (await self.chain.health())[self.chain.primary.name]
        is_ranked = health.ok and (
            Capability.LEXICAL in await self.chain.capabilities()
            or (self.index is not None and await self.index.has_words())
        )
        keyword = KeywordEngine(
            backend=self.chain.primary.name,
            is_available=is_ranked,
            reason="" if is_ranked else UNRANKED if health.ok else health.detail,
        )
        if self.index is None or not self.index.has_vectors:
            off = self.why_no_vectors
            embedding = EmbeddingEngine(source="none", reason=off, is_available=False)
            vectors = VectorEngine(store="none", is_available=False, reason=off)
        else:
            embedding = await embedding_engine(self.index.sources, probe=probe)
            vectors = await vector_engine(self.index)
        rerank = await rerank_engine(self.reranking, probe=probe)
        return EngineStatus(keyword=keyword, embedding=embedding, vectors=vectors, rerank=rerank)

    async def recall(self, request: RecallRequest) -> SearchResult:
        """The best memories for a question; where no background work does it, what was written lately is indexed first,
        and an answer that may lack what this manager wrote says so. Raises BackendUnavailable when no store answers."""
        lacking = ""
        is_kept_up = self._indexing is not None and not self._indexing.done()
        if request.text and self.index is not None and not is_kept_up:
            lacking = await self._catch_up.before_question()
        result = await self.retrieval.recall(request)
        if not lacking or self.index is None or not await self._uses_index(self.index, result):
            return result
        trace = attrs.evolve(result.trace, degraded=(*result.trace.degraded, lacking))
        return attrs.evolve(result, trace=trace)

    async def health(self, *, deep: bool) -> dict[str, Health]:
        """Every backend's health, and the vector store's after them; what background work has run into, and not got
        over, is told by the primary."""
        healths = await self.chain.health(deep=deep)
        if self.index is not None:
            healths[f"vectors in {self.index.name}"] = await self.index.health(deep=deep)
        findings = [Finding(level="warning", text=f"{work}: {error}") for work, error in self._troubles.items()]
        primary = self.chain.primary.name
        healths[primary] = attrs.evolve(healths[primary], findings=(*healths[primary].findings, *findings))
        return healths

    async def _uses_index(self, index: VectorIndex, result: SearchResult) -> bool:
        """Whether an answer came from the index: from its vectors, or from the words that it keeps for the primary."""
        if any(leg.leg == "vector" and leg.status == "ran" for leg in result.trace.legs):
            return True
        try:
            return await index.has_words()
        except MemspineError:
            return False  # it answered nothing, and the answer tells that

    async def _repeat(self, work: Callable[[], Awaitable[object]], pause_seconds: float) -> None:
        name = "telemetry" if work == self.flush_accesses else "maintenance"
        while True:
            await asyncio.sleep(pause_seconds)
            await self._noting(name, work())

    async def _maintain_round(self, kinds: Sequence[Kind], *, seconds: float) -> None:
        report = await self.maintain(kinds, budget_seconds=seconds)
        if report.failure is not None:
            raise report.failure

    async def _keep_indexed(self, index: VectorIndex) -> None:
        while True:
            await self._index_round(index, seconds=None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INDEX_PAUSE_SECONDS):
                    await self._has_changes.wait()
            await asyncio.sleep(GATHERING_SECONDS)  # what is written in one go is embedded in one go
            self._has_changes.clear()

    async def _keep_delivered(self, debts: Debts) -> None:
        """Deliver what this process wrote at once, and what others did or what failed before every few seconds."""
        while True:
            done = await self._noting("delivery", debts.run(seconds=None))
            if done is not None and done.troubles:
                self._troubles["delivery"] = "; ".join(done.troubles)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DELIVERY_PAUSE_SECONDS):
                    await self._owes.wait()
            await asyncio.sleep(DELIVERY_GATHERING_SECONDS)  # what is written in one go is delivered in one go
            self._owes.clear()

    async def _keep_probed(self) -> None:
        """Ask every store how it is, so that one that is back is used before anybody has to wait for it."""
        while True:
            await asyncio.sleep(HEALTH_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311 - so that not all ask at once
            await self.chain.health()

    async def _catch_up_round(self) -> Round | None:
        return None if self.index is None else await self._index_round(self.index, seconds=CATCH_UP_SECONDS)

    async def _index_round(self, index: VectorIndex, *, seconds: float | None) -> Round | None:
        """A round of indexing, whose troubles `health` tells as well; None where it failed."""
        done = await self._noting("embedding", index.work(seconds=seconds))
        if done is not None and done.troubles:
            self._troubles["embedding"] = "; ".join(done.troubles)
        return done

    async def _noting(self, name: str, work: Awaitable[T]) -> T | None:
        """Do background work; its failure is nobody's call to fail, so it is kept for `health` until it succeeds."""
        try:
            result = await work
        except MemspineError as error:
            self._troubles[name] = str(error)
            return None
        self._troubles.pop(name, None)
        return result

    def _make_index(self) -> tuple[VectorIndex | None, str]:
        """The vector index, or why there is none. Raises ConfigError."""
        if not self.config.vectors.enabled:
            return None, f"{VECTORS_OFF}[vectors] enabled = false"
        sources = Sources(self.config, self._plugins, open=self._opened_source)
        chosen = sources.configured()
        why = "" if chosen.embedder is not None else f"{VECTORS_OFF}{chosen.reason}"
        store = vector_store(self.config, plugins=self._plugins)
        if store is None:
            return None, why or f'{VECTORS_OFF}no vector store is installed; pip install "memspine[sqlite]"'
        keeps_words = Capability.LEXICAL in store.provider.capabilities
        if why and (not keeps_words or Capability.LEXICAL in self.config.primary.provider.capabilities):
            return None, why
        settings = IndexSettings(
            quantisation=self.config.vectors.quantisation,
            chunk_tokens=self.config.embedding.chunk_tokens,
            batch_texts=self.config.embedding.batch_texts,
            keep_hours=self.config.vectors.keep_hours,
            deadline_seconds=self.config.memory.deadline_seconds,
        )
        member = OnDemand(
            store.plugin,
            open=lambda: self._opened(store.provider, store.options, name=store.name),
            redact=lambda text: redacted(text, store.options),
        )
        return VectorIndex(self.chain, store=member, sources=sources, settings=settings), why

    def _make_reranking(self) -> Reranking | None:
        settings = self.config.rerank
        if not settings.source:
            return None
        reranker = self.config.reranker(settings.source)
        member = OnDemand(
            reranker.name,
            open=lambda: self._opened(reranker.provider, reranker.options, name=reranker.name),
            redact=lambda text: redacted(text, reranker.options),
        )
        return Reranking(member, candidates=settings.candidates, seconds=settings.deadline_seconds, breaker=Breaker())

    def _opened_source(self, settings: SourceSettings) -> AbstractAsyncContextManager[EmbeddingSource]:
        return self._opened(settings.provider, settings.options, name=settings.name)

    def _member(self, settings: BackendSettings) -> Member:
        return Member(
            settings.name,
            open=lambda: self._opened(settings.provider, settings.options, name=settings.name),
            redact=lambda text: redacted(text, settings.options),
            replicates=settings.replicate,
            store=settings.identity(self.config.folders).mark if settings.replicate else "",
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


def _debts(chain: Chain, journal: Journal) -> Debts:
    # Imported here: most chains have nothing to deliver.
    from memspine.delivery import Debts

    return Debts(chain, journal)


async def _result(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
