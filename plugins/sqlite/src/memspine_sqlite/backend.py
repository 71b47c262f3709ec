"""The backend: each call is one operation in a thread of the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from memspine.contracts import Capability, Context, MemoryBackendDefaults
from memspine.errors import ClosedError, ScopeError
from memspine.model import (
    ChangePage,
    Counts,
    Health,
    KeywordMatches,
    KeywordQuery,
    Memory,
    MemoryChanges,
    MemoryFilter,
    MemoryPage,
    NewMemory,
    PurgeReceipt,
    PutOutcome,
    Revision,
    Scope,
    ScoredMemory,
    SearchQuery,
    Tombstone,
    Written,
)
from memspine_sqlite import feed, health, maintenance, putting, reading, speakers, writing
from memspine_sqlite import history as histories
from memspine_sqlite import lexical as searching
from memspine_sqlite.config import SQLiteConfig, database_path
from memspine_sqlite.connections import Settings
from memspine_sqlite.database import Database, Operation, Store

T = TypeVar("T")


@asynccontextmanager
async def open_backend(config: SQLiteConfig, context: Context) -> AsyncIterator[SQLiteBackend]:
    """The store that a configuration names, open until the context is left."""
    path = database_path(config, context)
    settings = Settings(
        busy_timeout_seconds=config.busy_timeout_seconds, readers=config.readers, cache_mb=config.cache_mb
    )
    database = await context.shared(f"sqlite:{path}", lambda: Database(path, settings, backend=context.name))
    backend = SQLiteBackend(database, name=context.name)
    try:
        yield backend
    finally:
        backend.close()


class SQLiteBackend(MemoryBackendDefaults):
    """Memories in one SQLite file (`memspine.contracts.MemoryBackend`)."""

    capabilities = frozenset(
        {
            Capability.PUT,
            Capability.CHANGES,
            Capability.LEXICAL,
            Capability.HISTORY,
            Capability.PURGE,
            Capability.BACKUP,
        }
    )

    def __init__(self, database: Database, *, name: str = "sqlite") -> None:
        self.name = name
        self._database = database
        self._is_closed = False

    def close(self) -> None:
        """Refuse every further call; the database closes with the last of those who share it."""
        self._is_closed = True

    # ── base ──

    async def create(self, memory: NewMemory, *, scope: Scope, id: str, now: datetime) -> Written:
        """Store a memory, or replace the one that has its key or id."""
        self._check_owner(scope, "create")
        (written,) = await self._create([memory], scope=scope, ids=[id], now=now)
        return written

    async def create_many(
        self, memories: Sequence[NewMemory], *, scope: Scope, ids: Sequence[str], now: datetime
    ) -> tuple[Written, ...]:
        """Store all of them in order, or none."""
        self._check_owner(scope, "create_many")
        return await self._create(memories, scope=scope, ids=ids, now=now) if memories else ()

    async def _create(
        self, memories: Sequence[NewMemory], *, scope: Scope, ids: Sequence[str], now: datetime
    ) -> tuple[Written, ...]:
        operation = partial(writing.create_many, memories=memories, scope=scope, ids=ids, now=now)
        return await self._database.write(operation, backend=self.name, ids=ids)

    async def get(self, id: str, *, scope: Scope, now: datetime) -> Memory | None:
        """The memory, or None."""
        return (await self.get_many([id], scope=scope, now=now)).get(id)

    async def get_many(self, ids: Sequence[str], *, scope: Scope, now: datetime) -> dict[str, Memory]:
        """Memories by id, in the order asked."""
        self._check_readable(scope, "get")
        return await self._read(partial(reading.get_many, ids=ids, scope=scope, now=now))

    async def update(
        self, id: str, changes: MemoryChanges, *, scope: Scope, now: datetime, expected_revision: int | None = None
    ) -> Memory:
        """Replace the named fields."""
        self._check_owner(scope, "update")
        operation = partial(
            writing.update, id=id, changes=changes, scope=scope, now=now, expected_revision=expected_revision
        )
        return await self._write(operation)

    async def delete(self, id: str, *, scope: Scope, now: datetime, expected_revision: int | None = None) -> Tombstone:
        """Delete for good."""
        self._check_owner(scope, "delete")
        operation = partial(writing.delete, id=id, scope=scope, now=now, expected_revision=expected_revision)
        return await self._write(operation)

    async def delete_many(self, filter: MemoryFilter, *, scope: Scope, now: datetime, dry_run: bool) -> tuple[str, ...]:
        """Delete all that match, in one step."""
        self._check_owner(scope, "delete_many")
        if dry_run:
            return await self._read(partial(writing.selected_ids, filter=filter, scope=scope, now=now))
        return await self._write(partial(writing.delete_many, filter=filter, scope=scope, now=now))

    async def list(
        self,
        filter: MemoryFilter,
        *,
        scope: Scope,
        now: datetime,
        limit: int,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> MemoryPage:
        """A page in (created_at, id) order, or the reverse."""
        self._check_open()
        return await self._read(
            partial(
                reading.list_page,
                filter=filter,
                scope=scope,
                now=now,
                limit=limit,
                cursor=cursor,
                newest_first=newest_first,
            )
        )

    async def count(
        self,
        filter: MemoryFilter,
        *,
        scope: Scope,
        now: datetime,
        by: Literal["type", "session", "owner"] | None = None,
    ) -> Counts:
        """How many match, in all and by group."""
        self._check_open()
        return await self._read(partial(reading.count, filter=filter, scope=scope, now=now, by=by))

    async def search(self, query: SearchQuery, *, scope: Scope, now: datetime) -> tuple[ScoredMemory, ...]:
        """The best answers by their words."""
        self._check_readable(scope, "search")
        return await self._read(partial(searching.search, query=query, scope=scope, now=now))

    async def record_access(self, counts: Mapping[str, int], *, scope: Scope, now: datetime) -> None:
        """Add to access counts."""
        self._check_owner(scope, "record_access")
        if counts:
            operation = partial(writing.record_access, counts=counts, scope=scope, now=now)
            await self._write(operation, is_background=True)

    async def expire(self, *, scope: Scope, now: datetime, limit: int) -> int:
        """Remove expired memories."""
        self._check_owner_or_everyone(scope, "expire")
        return await self._write(partial(writing.expire, scope=scope, now=now, limit=limit), is_background=True)

    async def health(self, *, deep: bool = False) -> Health:
        """Whether the store works."""
        store = self._check_open()
        path = self._database.path
        facts = await self._read(partial(health.facts, store=store, path=path))
        problems = []
        if deep:
            problems = await self._database.maintain(partial(health.problems, self._database), backend=self.name)
        return Health(ok=not problems, detail="; ".join(problems), facts=facts, findings=health.findings(store, path))

    # ── put, changes ──

    async def put(self, records: Sequence[Memory | Tombstone], *, scope: Scope) -> tuple[PutOutcome, ...]:
        """Store whole records, in one step."""
        self._check_owner(scope, "put")
        return await self._write(partial(putting.put, records=records, scope=scope)) if records else ()

    async def changes(self, *, scope: Scope, limit: int, cursor: str | None = None) -> ChangePage:
        """The feed behind a cursor."""
        self._check_open()
        return await self._read(partial(feed.changes, scope=scope, limit=limit, cursor=cursor))

    async def tombstones(self, ids: Sequence[str], *, scope: Scope) -> dict[str, Tombstone]:
        """The tombstones of these ids."""
        self._check_readable(scope, "tombstones")
        return await self._read(partial(feed.tombstones, ids=ids, scope=scope))

    async def trim_changes(self, *, scope: Scope, before: datetime, limit: int) -> int:
        """Drop old rows of the feed."""
        self._check_owner_or_everyone(scope, "trim_changes")
        operation = partial(feed.trim_changes, scope=scope, before=before, limit=limit)
        return await self._write(operation, is_background=True)

    # ── lexical ──

    async def lexical(
        self, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """The best memories that hold at least one of the terms."""
        self._check_readable(scope, "lexical")
        return await self._read(
            partial(searching.lexical, query=query, scope=scope, filter=filter, now=now, limit=limit)
        )

    async def speakers(self, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        """Those of the terms that a speaker's name has."""
        self._check_readable(scope, "speakers")
        return await self._read(partial(speakers.known, terms=terms, scope=scope, now=now)) if terms else frozenset()

    # ── history, purge, backup ──

    async def history(self, id: str, *, scope: Scope) -> tuple[Revision, ...]:
        """All kept states of a memory."""
        self._check_readable(scope, "history")
        return await self._read(partial(histories.history, id=id, scope=scope))

    async def trim_history(self, *, scope: Scope, before: datetime, tombstones_before: datetime, limit: int) -> int:
        """Drop old states and tombstones."""
        self._check_owner_or_everyone(scope, "trim_history")
        operation = partial(
            histories.trim_history, scope=scope, before=before, tombstones_before=tombstones_before, limit=limit
        )
        return await self._write(operation, is_background=True)

    async def purge(self, ids: Sequence[str] | None, *, scope: Scope, now: datetime) -> PurgeReceipt:
        """Erase memories from every place."""
        self._check_owner(scope, "purge")
        work = partial(maintenance.purge, self._database, ids, scope=scope, now=now, backend=self.name)
        return await self._database.maintain(work, backend=self.name)

    async def backup(self, target: Path) -> None:
        """Write a consistent copy to a new file."""
        self._check_open()
        work = partial(maintenance.backup, self._database, target, backend=self.name)
        await self._database.maintain(work, backend=self.name)

    # ── how calls run ──

    async def _write(self, operation: Operation[T], *, is_background: bool = False) -> T:
        return await self._database.write(operation, backend=self.name, is_background=is_background)

    async def _read(self, operation: Operation[T]) -> T:
        return await self._database.read(operation, backend=self.name)

    def _check_open(self) -> Store:
        if self._is_closed:
            raise ClosedError(self.name)
        return self._database.store(self.name)

    def _check_owner(self, scope: Scope, operation: str) -> None:
        self._check_open()
        scope.require_owner(operation)

    def _check_readable(self, scope: Scope, operation: str) -> None:
        self._check_open()
        scope.require_readable(operation)

    def _check_owner_or_everyone(self, scope: Scope, operation: str) -> None:
        self._check_open()
        if scope.kind == "shared":
            raise ScopeError(operation, scope, "the scope of one owner or of everyone")
