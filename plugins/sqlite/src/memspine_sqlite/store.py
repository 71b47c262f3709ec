"""The vector store: each call is one operation in a thread of the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TypeVar

from memspine.contracts import (
    Backlog,
    Capability,
    Context,
    Space,
    TermRecord,
    VectorMatches,
    VectorRecord,
    VectorStoreDefaults,
    Work,
)
from memspine.errors import ClosedError
from memspine.model import (
    Health,
    KeywordMatches,
    KeywordQuery,
    MemoryFilter,
    MemoryRef,
    PurgeReceipt,
    Scope,
)
from memspine_sqlite import health, maintenance, nearest, queueing, spaces, storing, vector_health, words
from memspine_sqlite.config import SQLiteVectorsConfig, database_path
from memspine_sqlite.connections import Settings
from memspine_sqlite.database import Database, Operation, Store
from memspine_sqlite.engines import Engines

T = TypeVar("T")


@asynccontextmanager
async def open_store(config: SQLiteVectorsConfig, context: Context) -> AsyncIterator[SQLiteVectors]:
    """The vector store that a configuration names, open until the context is left."""
    path = database_path(config, context)
    settings = Settings(
        busy_timeout_seconds=config.busy_timeout_seconds, readers=config.readers, cache_mb=config.cache_mb
    )
    database = await context.shared(f"sqlite:{path}", lambda: Database(path, settings, backend=context.name))
    store = SQLiteVectors(database, Engines(config.engine, matrix_mb=config.matrix_mb), name=context.name)
    try:
        yield store
    finally:
        store.close()


class SQLiteVectors(VectorStoreDefaults):
    """Vectors in one SQLite file (`memspine.contracts.VectorStore`)."""

    capabilities = frozenset({Capability.LEXICAL})

    def __init__(self, database: Database, engines: Engines, *, name: str = "sqlite") -> None:
        self.name = name
        self._database = database
        self.engines = engines
        self._is_closed = False

    def close(self) -> None:
        """Refuse every further call; the database closes with the last of those who share it."""
        self._is_closed = True
        self.engines.forget()

    # ── spaces ──

    async def spaces(self) -> tuple[Space, ...]:
        """All spaces, oldest first."""
        return await self._read(spaces.spaces)

    async def open_space(self, space: Space) -> Space:
        """Make the space, or find it."""
        return await self._write(partial(spaces.open_space, space=space))

    async def complete_space(self, space_id: str) -> None:
        """Note that the space holds all there was."""
        await self._write(partial(spaces.complete_space, space_id=space_id))

    async def activate(self, space_id: str) -> None:
        """Make this the one space that queries use."""
        await self._write(partial(spaces.activate, space_id=space_id))

    async def drop_space(self, space_id: str) -> None:
        """Remove a space with all that is in it."""
        self.engines.drop(await self._write(partial(spaces.drop_space, space_id=space_id)))

    # ── writing ──

    async def upsert(self, space_id: str, *, records: Sequence[VectorRecord], holder: str | None = None) -> None:
        """Store vectors, all of the call or none."""
        await self._write(partial(storing.upsert, space_id=space_id, records=records, holder=holder))

    async def settle(self, space_id: str, *, revisions: Mapping[MemoryRef, int], holder: str) -> None:
        """Hold nothing of memories in a space."""
        await self._write(partial(storing.settle, space_id=space_id, revisions=revisions, holder=holder))

    async def delete(self, refs: Sequence[MemoryRef]) -> None:
        """Remove memories from every space and every queue."""
        self._check_open()
        if refs:
            await self._write(partial(storing.delete, refs=refs))

    async def purge(self, ids: Sequence[str] | None, *, scope: Scope) -> PurgeReceipt:
        """Erase memories from every place."""
        self._check_open()
        scope.require_owner("purge")
        self.engines.forget()
        work = partial(maintenance.purge_vectors, self._database, ids, scope=scope, backend=self.name)
        try:
            return await self._database.maintain(work, backend=self.name)
        finally:
            # A question that came in between may have loaded what was about to go.
            self.engines.forget()

    async def expire(self, *, now: datetime, limit: int) -> int:
        """Remove the vectors of expired memories."""
        return await self._write(partial(storing.expire, now=now, limit=limit), is_background=True)

    # ── reading ──

    async def search(
        self,
        space_id: str,
        *,
        vector: bytes,
        scope: Scope,
        filter: MemoryFilter,
        now: datetime,
        limit: int,
        also: Sequence[MemoryRef] = (),
    ) -> VectorMatches:
        """The best memories, best first, and the scores of those in `also`."""
        self._check_open()
        scope.require_readable("search")
        return await self._read(
            partial(
                nearest.search,
                space_id=space_id,
                vector=vector,
                scope=scope,
                filter=filter,
                now=now,
                limit=limit,
                also=also,
                comparer=self.engines,
            )
        )

    async def count(self, space_id: str, *, scope: Scope, now: datetime) -> int:
        """How many memories the space holds."""
        return await self._read(partial(storing.count, space_id=space_id, scope=scope, now=now))

    # ── the queue ──

    async def enqueue(self, space_id: str, *, revisions: Mapping[MemoryRef, int], position: str) -> int:
        """Queue what the space does not hold, and note the position."""
        return await self._write(partial(queueing.enqueue, space_id=space_id, revisions=revisions, position=position))

    async def claim(
        self, space_id: str, *, holder: str, now: datetime, lease_seconds: float, limit: int
    ) -> tuple[Work, ...]:
        """Lease what is due and free."""
        return await self._write(
            partial(queueing.claim, space_id=space_id, holder=holder, now=now, lease_seconds=lease_seconds, limit=limit)
        )

    async def postpone(
        self, space_id: str, *, refs: Sequence[MemoryRef], holder: str, until: datetime, reason: str
    ) -> None:
        """End the holder's leases on what failed."""
        await self._write(
            partial(queueing.postpone, space_id=space_id, refs=refs, holder=holder, until=until, reason=reason)
        )

    async def release(self, space_id: str, *, refs: Sequence[MemoryRef], holder: str) -> None:
        """End the holder's leases on what was not done."""
        await self._write(partial(queueing.release, space_id=space_id, refs=refs, holder=holder))

    async def backlog(self, space_id: str, *, now: datetime) -> Backlog:
        """What the space still has to do."""
        return await self._read(partial(queueing.backlog, space_id=space_id, now=now))

    async def health(self, *, deep: bool = False) -> Health:
        """Whether the store works."""
        store = self._check_open()
        path = self._database.path
        facts = await self._read(partial(vector_health.facts, store=store, path=path, engines=self.engines))
        problems = []
        if deep:
            problems = await self._database.maintain(partial(vector_health.problems, self._database), backend=self.name)
        if store.writer.readonly("main"):
            problems = [f"{path} can only be read", *problems]
        findings = (*health.findings(store, path), *vector_health.findings(self.engines))
        return Health(ok=not problems, detail="; ".join(problems), facts=facts, findings=findings)

    # ── lexical ──

    async def index_terms(self, space_id: str, *, records: Sequence[TermRecord], holder: str | None = None) -> None:
        """Store terms, all of the call or none."""
        await self._write(partial(words.index_terms, space_id=space_id, records=records, holder=holder))

    async def lexical(
        self, space_id: str, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """The best memories that hold at least one of the terms."""
        self._check_open()
        scope.require_readable("lexical")
        return await self._read(
            partial(words.lexical, space_id=space_id, query=query, scope=scope, filter=filter, now=now, limit=limit)
        )

    async def speakers(self, space_id: str, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        """Those of the terms that a speaker's name has."""
        self._check_open()
        scope.require_readable("speakers")
        return await self._read(partial(words.speakers, space_id=space_id, terms=terms, scope=scope, now=now))

    # ── how calls run ──

    async def _write(self, operation: Operation[T], *, is_background: bool = False) -> T:
        self._check_open()
        return await self._database.write(operation, backend=self.name, is_background=is_background)

    async def _read(self, operation: Operation[T]) -> T:
        self._check_open()
        return await self._database.read(operation, backend=self.name)

    def _check_open(self) -> Store:
        if self._is_closed:
            raise ClosedError(self.name)
        return self._database.store(self.name)
