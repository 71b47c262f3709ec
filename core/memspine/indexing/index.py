"""The vector index of a chain: which spaces are kept, how they are filled, which one answers."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

import attrs

from memspine import times
from memspine.chain import Chain
from memspine.closing import close_all
from memspine.contracts import Capability, Quantisation, Space, VectorStore
from memspine.embedding import Embedder
from memspine.embedding.sources import Sources
from memspine.errors import BackendUnavailable, CursorError, EmbeddingError, MemspineError
from memspine.indexing.forgetting import forget
from memspine.indexing.identify import TERMS, SpaceShape, is_superseded
from memspine.indexing.position import Position
from memspine.indexing.upkeep import Kept, Round, Upkeep
from memspine.indexing.writers import TermWriter, VectorWriter
from memspine.model import Health, MemoryFilter, MemoryRef, PurgeReceipt, Scope
from memspine.ondemand import CallFailed, OnDemand

T = TypeVar("T")

TOUCH_SECONDS: Final = 600.0
"""How often a space in use is marked as such."""
EXPIRED_ROWS: Final = 500


@attrs.frozen(kw_only=True)
class IndexSettings:
    """What of the configuration the index goes by."""

    quantisation: Quantisation = "none"
    chunk_tokens: int = 0
    batch_texts: int = 128
    keep_hours: float = 24.0
    deadline_seconds: float = 10.0


@attrs.frozen(kw_only=True)
class Answering:
    """A space that can answer, and how to get the source of its vectors, which raises EmbeddingError."""

    space: Space
    embedder: Callable[[], Embedder]


@attrs.frozen(kw_only=True)
class Progress:
    """How far a space is: memories it holds, memories there are, how many were not tried yet, how many of these some
    process is at, and how many wait because embedding them failed, the last of them because of `reason`. Of the rest
    there is nothing to hold."""

    space: Space
    held: int
    total: int
    waiting: int = 0
    leased: int = 0
    failing: int = 0
    reason: str = ""


_TERMS_SHAPE: Final = SpaceShape(identity=TERMS)


class HasCapabilities(Protocol):
    """A store of either kind."""

    capabilities: frozenset[Capability]


class VectorIndex:
    """Keeps the spaces of one vector store up with the primary, and says which one answers questions.

    Three spaces may be kept at once: the one that answers, the one of the configured source, which takes over once it
    holds everything, and one of the fallback source. Each manager hands over to its configured source once: two
    processes with different configurations do not take the index from each other in turn.
    """

    def __init__(
        self, chain: Chain, *, store: OnDemand[VectorStore], sources: Sources, settings: IndexSettings
    ) -> None:
        self._chain = chain
        self._store = store
        self._sources = sources
        self._settings = settings
        self._upkeep = Upkeep(chain, call=self.call, batch=settings.batch_texts)
        self._working = asyncio.Lock()
        self._has_taken_over = False
        self._has_words: bool | None = None
        self._gone: set[MemoryRef] = set()
        self._failure = ""
        self._rounds: dict[str, Round] = {}

    @property
    def name(self) -> str:
        """The name of the vector store."""
        return self._store.name

    @property
    def sources(self) -> Sources:
        """The embedding sources."""
        return self._sources

    @property
    def has_vectors(self) -> bool:
        """Whether there is a source of vectors; without one the index may still keep words."""
        return self._sources.configured().embedder is not None

    async def call(self, operation: str, call: Callable[[VectorStore], Awaitable[T]], *, unhurried: bool = False) -> T:
        """One call of the store, within the deadline unless it is `unhurried`. Raises BackendUnavailable for whatever
        is not an error of ours."""
        try:
            return await self._store.ask(call, seconds=None if unhurried else self._settings.deadline_seconds)
        except CallFailed as error:
            reason = f"{operation} {error.reason}"
            raise BackendUnavailable(self._store.name, reason, advice="see `memspine doctor`") from error.__cause__

    # ── answering ──

    async def answering(self) -> AsyncIterator[Answering]:
        """The spaces that may answer a question, best first: the active one, then the fallback's if it is complete.
        None before anything was indexed. Raises BackendUnavailable, EmbeddingError.

        The fallback is looked at only when it is asked for: it may have to load a model.
        """
        spaces = await self.call("spaces", lambda store: store.spaces())
        if (active := _active(spaces)) is not None:
            yield Answering(space=active, embedder=functools.partial(self._sources.of_space, active))
        fallback = self._sources.fallback()
        if fallback is not None and (standing_in := fallback.embedder) is not None:
            space = (await self._shape(standing_in)).newest(spaces)
            if space is not None and space.complete and space != active:
                yield Answering(space=space, embedder=lambda: standing_in)

    # ── keeping up ──

    async def work(self, *, seconds: float | None = None, only_loaded: bool = False) -> Round:
        """Embed what the kept spaces lack, until nothing is left or so many seconds are over, not counting what loading
        a model takes; hand over when it is due.

        With `only_loaded` nothing is done for a source that was not used yet: loading it may take longer than the
        caller has. Raises BackendUnavailable.
        """
        async with self._working:
            try:
                await self._forget_gone()
                spaces = await self.call("spaces", lambda store: store.spaces())
                # Words first: a source that has to be loaded, or hangs, does not keep them waiting.
                words = [Kept(space=space, writer=TermWriter()) for space in await self._kept_words(spaces)]
                rounds = await self._all_kept_up(words, seconds=seconds)
                kept, troubles = await self._kept(spaces, only_loaded=only_loaded)
                rounds += await self._all_kept_up(kept, seconds=seconds)
            except MemspineError as error:
                self._failure = f"nothing new is indexed: {error}"
                raise
            self._failure = ""
        active = _active(spaces)
        answering = [done.complete for one, done in rounds if one.space.active or one.space.identity == TERMS]
        is_missing = active is not None and all(one.space.id != active.id for one in kept)
        return Round(
            embedded=sum(done.embedded for _, done in rounds),
            complete=all(done.complete for _, done in rounds) and not troubles,
            is_current=all(answering) and not is_missing,
            troubles=tuple(dict.fromkeys((*troubles, *(trouble for _, done in rounds for trouble in done.troubles)))),
        )

    async def rebuild(self) -> None:
        """Open another space for the configured source, and another keyword index where one is kept, to make all anew
        beside what answers. Raises BackendUnavailable, EmbeddingError."""
        spaces = await self.call("spaces", lambda store: store.spaces())
        if await self.has_words():
            await self._open_another(_TERMS_SHAPE, {}, spaces)
        chosen = self._sources.configured()
        if chosen.embedder is not None:
            await self._open_another(await self._shape(chosen.embedder), chosen.document, spaces)
            self._has_taken_over = False

    async def collect(self) -> int:
        """Drop the spaces that were built anew, those that nobody wants and nobody has used for `keep_hours`, and the
        vectors of expired memories; returns how many were removed. Raises BackendUnavailable."""
        now = times.now()
        dead_before = now - timedelta(hours=self._settings.keep_hours)
        spaces = await self.call("spaces", lambda store: store.spaces())
        wanted = await self._wanted(spaces)
        dead = [
            space
            for space in spaces
            if not space.active
            and (is_superseded(space, spaces) or (space.id not in wanted and space.used_at < dead_before))
        ]
        for space in dead:
            await self._drop(space)
        removed = len(dead)
        while True:
            expired = await self.call("expire", lambda store: store.expire(now=now, limit=EXPIRED_ROWS))
            removed += expired
            if expired < EXPIRED_ROWS:
                return removed

    async def has_words(self) -> bool:
        """Whether the store keeps the keyword index of the primary, which has none. Raises BackendUnavailable."""
        if self._has_words is None:
            own = await self._chain.capabilities()
            kept = await self.call("capabilities", _capabilities)
            self._has_words = Capability.LEXICAL in kept and Capability.LEXICAL not in own
        return self._has_words

    async def words(self) -> Space | None:
        """The space of terms that questions can be asked of; None when there is none. Raises BackendUnavailable."""
        if not await self.has_words():
            return None
        return _words(await self.call("spaces", lambda store: store.spaces()))

    def note_gone(self, refs: Iterable[MemoryRef]) -> None:
        """Have the next round of work look whether memories that an answer missed are still there: their deletion may
        have been trimmed from the feed before this index read it."""
        self._gone.update(refs)

    async def purge(self, ids: Sequence[str] | None, *, scope: Scope) -> PurgeReceipt:
        """Erase memories from the store and from the caches of questions. Raises BackendUnavailable."""
        self._sources.cache.clear()
        return await self.call("purge", lambda store: store.purge(ids, scope=scope), unhurried=True)

    async def progress(self) -> tuple[Progress, ...]:
        """How far every space is. Raises BackendUnavailable."""
        now = times.now()
        spaces = await self.call("spaces", lambda store: store.spaces())
        total = await self._total(Scope.everyone(), now=now)
        return tuple([await self._progress_of(space, total=total, now=now) for space in spaces])

    async def coverage(self, space: Space, *, scope: Scope) -> tuple[int, int]:
        """How many memories of a scope a space holds, and how many there are. Raises BackendUnavailable."""
        now = times.now()
        held = await self.call("count", lambda store: store.count(space.id, scope=scope, now=now))
        return held, await self._total(scope, now=now)

    def shortcomings(self, space: Space) -> tuple[str, ...]:
        """Why the last round of work could do nothing, or nothing for most memories of a space. It tells no number and
        no reason of a memory, which would be another owner's."""
        last = self._rounds.get(space.id)
        told = [self._failure] if self._failure else []
        if last is not None and last.put_off and not last.holds_most:
            told.append("most memories have no vector; `memspine engine` says why")
        return tuple(told)

    @property
    def trouble(self) -> str:
        """Why the configured source does not work, as far as is known; empty when it does."""
        embedder = self._sources.configured().embedder
        return "" if embedder is None else embedder.breaker.reason

    async def health(self, *, deep: bool) -> Health:
        """A probe of the store; one that fails is reported, not raised."""
        try:
            return await self.call("health", lambda store: store.health(deep=deep), unhurried=deep)
        except MemspineError as error:
            return Health(ok=False, detail=str(error))

    async def close(self) -> None:
        """Close the sources and the store. Raises the first error, after all were closed."""
        store = self._store.close(patience_seconds=self._settings.deadline_seconds)
        await close_all((self._sources.close(), store))

    # ── inside ──

    async def _forget_gone(self) -> None:
        gone = list(self._gone)
        if gone:
            await self.call("delete", lambda store: forget(self._chain, store, gone), unhurried=True)
            self._gone.difference_update(gone)

    async def _kept(self, spaces: Sequence[Space], *, only_loaded: bool) -> tuple[list[Kept], list[str]]:
        """The spaces of vectors to keep up, the one that answers first, and why others are not."""
        kept: dict[str, Kept] = {}
        troubles: list[str] = []
        active, dead = _active(spaces), ""
        if active is not None:
            try:
                embedder = self._sources.of_space(active)
                if embedder.is_loaded or not only_loaded:
                    await require_identity(embedder, active)
                    kept[active.id] = Kept(space=active, writer=VectorWriter(embedder))
            except EmbeddingError as error:
                dead = str(error)
        for chosen, is_configured in ((self._sources.configured(), True), (self._sources.fallback(), False)):
            if chosen is None or chosen.embedder is None or (only_loaded and not chosen.embedder.is_loaded):
                continue
            try:
                space = await self._newest(await self._shape(chosen.embedder), chosen.document, spaces)
            except EmbeddingError as error:
                troubles.append(str(error))
                continue
            if is_configured and active is None:
                space = await self._activated(space)
            kept[space.id] = Kept(space=space, writer=VectorWriter(chosen.embedder), is_configured=is_configured)
        if dead and not any(one.is_configured for one in kept.values()):
            troubles.append(dead)  # otherwise another space is about to take its place
        return list(kept.values()), troubles

    async def _kept_words(self, spaces: Sequence[Space]) -> list[Space]:
        """The space of terms that answers and the newest one, which is made if there is none; nothing where the store
        keeps none for this primary."""
        if not await self.has_words():
            return []
        newest = await self._newest(_TERMS_SHAPE, {}, spaces)
        answering = _words(spaces) or newest
        return [newest] if answering.id == newest.id or newest.complete else [answering, newest]

    async def _newest(self, shape: SpaceShape, document: Mapping[str, Any], spaces: Sequence[Space]) -> Space:
        """The newest space of a shape, made if there is none, and marked as used from time to time."""
        found = shape.newest(spaces)
        now = times.now()
        if found is not None and now - found.used_at < timedelta(seconds=TOUCH_SECONDS):
            return found
        wanted = shape.space(source=document, now=now) if found is None else attrs.evolve(found, used_at=now)
        return await self.call("open_space", lambda store: store.open_space(wanted))

    async def _open_another(self, shape: SpaceShape, document: Mapping[str, Any], spaces: Sequence[Space]) -> None:
        space = shape.space(source=document, now=times.now(), after=shape.newest(spaces))
        await self.call("open_space", lambda store: store.open_space(space))

    async def _all_kept_up(self, kept: Sequence[Kept], *, seconds: float | None) -> list[tuple[Kept, Round]]:
        deadline = None if seconds is None else time.monotonic() + seconds
        return [(one, await self._keep_up(one, deadline=deadline)) for one in kept]

    async def _keep_up(self, kept: Kept, *, deadline: float | None) -> Round:
        """Fill a space, and hand over to it if it is complete and the configured one."""
        done = await self._upkeep.fill(kept, deadline=deadline)
        self._rounds[kept.space.id] = done
        if done.complete and kept.is_configured and not self._has_taken_over:
            await self._activated(kept.space)
            self._has_taken_over = True
        return done

    async def _wanted(self, spaces: Sequence[Space]) -> set[str]:
        """The spaces that this configuration asks for, however long nobody was there to use them: of each source the
        last that was made for it, which can be told without loading a model, and the keyword index."""
        chosen = (self._sources.configured(), self._sources.fallback())
        documents = [one.document for one in chosen if one is not None and one.embedder is not None]
        kept_as = (self._settings.quantisation, self._settings.chunk_tokens)
        fitting = [space for space in spaces if (space.quantisation, space.chunk_tokens) == kept_as]
        last = [[space for space in fitting if space.source == document][-1:] for document in documents]
        words = [_words(spaces), _TERMS_SHAPE.newest(spaces)] if await self.has_words() else []
        return {space.id for space in (*itertools.chain.from_iterable(last), *words) if space is not None}

    async def _activated(self, space: Space) -> Space:
        now = times.now()
        old = _active(await self.call("spaces", lambda store: store.spaces()))
        if old is not None and old.id != space.id:
            # From now on nobody uses it, and for so long it can be gone back to.
            left = attrs.evolve(old, used_at=now)
            await self.call("open_space", lambda store: store.open_space(left))
        await self.call("activate", lambda store: store.activate(space.id))
        return attrs.evolve(space, active=True)

    async def _drop(self, space: Space) -> None:
        await self.call("drop_space", lambda store: store.drop_space(space.id))

    async def _progress_of(self, space: Space, *, total: int, now: datetime) -> Progress:
        everyone = Scope.everyone()
        held = await self.call("count", lambda store: store.count(space.id, scope=everyone, now=now))
        backlog = await self.call("backlog", lambda store: store.backlog(space.id, now=now))
        left = max(total - held - backlog.postponed, 0)
        if left and backlog.waiting == backlog.postponed and await self._has_read_all(Position.of(backlog.position)):
            left = 0
        return Progress(
            space=space,
            held=held,
            total=total,
            waiting=left,
            leased=backlog.leased,
            failing=backlog.postponed,
            reason=backlog.reason,
        )

    async def _has_read_all(self, position: Position) -> bool:
        """Whether a space has read of everything there is; False where nobody can tell."""
        own = await self._chain.capabilities()
        if position.stage != "feed" or Capability.CHANGES not in own:
            return False
        try:
            page = await self._chain.call_primary(
                "changes",
                lambda backend: backend.changes(scope=Scope.everyone(), limit=1, cursor=position.cursor),
            )
        except CursorError:
            return False
        return not page.value.changes

    async def _shape(self, embedder: Embedder) -> SpaceShape:
        return SpaceShape(
            identity=await embedder.identity(),
            quantisation=self._settings.quantisation,
            chunk_tokens=self._settings.chunk_tokens,
        )

    async def _total(self, scope: Scope, *, now: datetime) -> int:
        counted = await self._chain.call_primary(
            "count", lambda backend: backend.count(MemoryFilter(), scope=scope, now=now)
        )
        return counted.value.total


async def require_identity(embedder: Embedder, space: Space) -> None:
    """Raise EmbeddingError if the source is not the one that made the space's vectors."""
    if await embedder.identity() != space.identity:
        reason = f"the files of {space.identity.model!r} are others than its vectors were made with"
        raise EmbeddingError(embedder.name, reason, expected=f"revision {space.identity.revision}", kind="config")


async def _capabilities(opened: HasCapabilities) -> frozenset[Capability]:
    return opened.capabilities


def _words(spaces: Sequence[Space]) -> Space | None:
    """The newest space of terms that has held everything; before there is one, the newest."""
    return _TERMS_SHAPE.newest([space for space in spaces if space.complete]) or _TERMS_SHAPE.newest(spaces)


def _active(spaces: Sequence[Space]) -> Space | None:
    return next((space for space in spaces if space.active), None)
