"""The façade: long-term memory over the stores that a configuration names."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from memspine import times
from memspine.chain import Answer, Create, Delete, Outcome, Touched, Update
from memspine.chain.bulk import delete_many
from memspine.errors import BackendUnavailable, ClosedError, InvalidMemoryError, NotFoundError
from memspine.ids import IdSource, keyed_id
from memspine.intake import Intake
from memspine.keeping import Keeping
from memspine.model import (
    UNSET,
    Counts,
    Memory,
    MemoryChanges,
    MemoryFilter,
    MemoryType,
    NewMemory,
    PutOutcome,
    Revision,
    Tombstone,
    Unset,
    Written,
)
from memspine.results import DeleteResult, InjectionResult, MemoryResult, PageResult, SearchResult
from memspine.text import TokenCounter, estimate_tokens

if TYPE_CHECKING:
    from memspine.config import Config
    from memspine.plugins import Plugins
    from memspine.policy import StrategyName
    from memspine.running import Running


GROUPS: Final[tuple[Literal["type", "session", "owner"], ...]] = ("type", "session", "owner")


class MemoryManager(Keeping):
    """Remember, recall, inject, forget: asynchronous; `memspine.blocking.MemoryManager` is its twin without async.

        async with MemoryManager("memspine.toml") as memory:
            await memory.create("Juno eats duck and potato now.")
            result = await memory.search("What does the dog eat?")

    `config` is a path, a mapping of the same shape as the TOML, a loaded Config, or None for the usual search. It is
    read when the manager is entered, which is also when ConfigError is raised; stores are opened when first needed.

    Every call acts for `owner` (default: `[memory] owner`). All may raise InvalidMemoryError for unusable input,
    ScopeError for an owner that the caller may not act for, BackendUnavailable, and ClosedError outside the `with`.
    """

    def __init__(
        self,
        config: Config | Mapping[str, Any] | str | Path | None = None,
        *,
        plugins: Plugins | None = None,
        count_tokens: TokenCounter = estimate_tokens,
        background: bool = True,
    ) -> None:
        self._source = config
        self._plugins = plugins
        self._count_tokens = count_tokens
        self._background = background
        self._ids = IdSource()
        self._running: Running | None = None
        self.injection_failures = 0
        """How many requests were left as they were because recalling or placing failed."""

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    async def initialize(self) -> None:
        """Read the configuration and start; a second call changes nothing. Raises ConfigError."""
        if self._running is None:
            # Imported here: a program that only names the class should not wait for what opening needs.
            from memspine.running import Running, read_config

            config, plugins = read_config(self._source, plugins=self._plugins)
            self._running = Running(config, plugins, count_tokens=self._count_tokens)
            if self._background:
                self._running.start_background()

    async def shutdown(self) -> None:
        """Write what is still in memory (telemetry), close every store; a second call changes nothing."""
        running, self._running = self._running, None
        if running is not None:
            await running.close()

    @property
    def config(self) -> Config:
        """The configuration in use."""
        return self._open.config

    # ── writing ──

    async def create(
        self,
        content: str,
        *,
        type: MemoryType | str = MemoryType.FACTUAL,
        key: str = "",
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
        created_at: datetime | None = None,
        id: str | None = None,
        owner: str | None = None,
        management: bool = False,
    ) -> MemoryResult:
        """Remember a text. With a key that the owner has already, that memory is replaced and its metadata merged.

        `created_at` is for things that happened earlier. Repeating a call with the same `id` or `key` is safe.
        """
        running = self._open
        intake = Intake()
        scope, now = running.policy.writing_scope(owner, management=management), times.now()
        memory = intake.memory(
            NewMemory(
                content=content,
                type=intake.type(type),
                key=key,
                session=running.config.memory.session if session is None else session,
                metadata=metadata or {},
                expires_at=expires_at,
                created_at=created_at,
            ),
            now=now,
        )
        new_id = self._new_id(scope.owner, memory, now) if id is None else intake.id(id)
        write = Create(owner=scope.owner, id=new_id, memory=memory, now=now)
        return self._written(await running.chain.submit(write), notes=intake.notes)

    async def create_many(
        self,
        memories: Iterable[NewMemory],
        *,
        ids: Sequence[str] | None = None,
        owner: str | None = None,
        management: bool = False,
    ) -> tuple[MemoryResult, ...]:
        """Remember many in one step: all of them or, when one is unusable (InvalidMemoryError.index), none.

        Their sessions are as given: `[memory] session` is for `create` alone.
        """
        running = self._open
        scope, now = running.policy.writing_scope(owner, management=management), times.now()
        checked: builtins.list[NewMemory] = []
        notes: builtins.list[tuple[str, ...]] = []
        for index, memory in enumerate(memories):
            intake = Intake(index=index)
            checked.append(intake.memory(memory, now=now))
            notes.append(tuple(intake.notes))
        if ids is None:
            new_ids = [self._new_id(scope.owner, memory, now) for memory in checked]
        elif len(new_ids := Intake().ids(ids)) != len(checked):
            raise InvalidMemoryError("ids", len(new_ids), f"as many as there are memories, {len(checked)}")
        writes = [
            Create(owner=scope.owner, id=id, memory=memory, now=now)
            for id, memory in zip(new_ids, checked, strict=True)
        ]
        answers = await running.chain.submit_creates(writes)
        return tuple(self._written(answer, notes=note) for answer, note in zip(answers, notes, strict=True))

    async def update(
        self,
        id: str,
        *,
        content: str | Unset = UNSET,
        type: MemoryType | str | Unset = UNSET,
        key: str | Unset = UNSET,
        session: str | Unset = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
        expires_at: datetime | Unset | None = UNSET,
        expected_revision: int | None = None,
        owner: str | None = None,
        management: bool = False,
    ) -> MemoryResult:
        """Replace the named fields, metadata as a whole. Raises NotFoundError, ConflictError."""
        intake = Intake()
        known, revision = intake.id(id), intake.expected_revision(expected_revision)
        scope, now = self._open.policy.writing_scope(owner, management=management), times.now()
        changes = intake.changes(
            MemoryChanges(
                content=content,
                type=UNSET if type is UNSET else intake.type(type),
                key=key,
                session=session,
                metadata=metadata,
                expires_at=expires_at,
            ),
            now=now,
        )
        write = Update(owner=scope.owner, id=known, changes=changes, expected_revision=revision, now=now)
        return self._written(await self._open.chain.submit(write), notes=intake.notes)

    async def delete(
        self, id: str, *, expected_revision: int | None = None, owner: str | None = None, management: bool = False
    ) -> DeleteResult:
        """Forget one memory; its history stays for `[memory] history_days`. Raises NotFoundError, ConflictError."""
        known, revision = Intake().id(id), Intake().expected_revision(expected_revision)
        scope, now = self._open.policy.writing_scope(owner, management=management), times.now()
        write = Delete(owner=scope.owner, id=known, expected_revision=revision, now=now)
        answer = await self._open.chain.submit(write)
        self._open.note_changes()
        stone = answer.value
        assert isinstance(stone, Tombstone)  # noqa: S101 - what a delete is answered with
        return DeleteResult(
            id=stone.id,
            owner=stone.owner,
            revision=stone.revision,
            deleted_at=stone.deleted_at,
            backend=answer.backend,
            pending=answer.pending,
            degraded=answer.degraded,
        )

    async def delete_many(
        self,
        filter: MemoryFilter,
        *,
        session: str | None = None,
        dry_run: bool = True,
        owner: str | None = None,
        management: bool = False,
    ) -> tuple[str, ...]:
        """Forget all that match, or with `dry_run` only tell which; returns their ids, oldest first."""
        checked = Intake().filter(filter)
        scope = self._open.policy.writing_scope(owner, session=session, management=management)
        now = times.now()
        if dry_run:
            foreseen = await self._open.chain.call_primary(
                "delete_many",
                lambda backend: backend.delete_many(checked, scope=scope, now=now, dry_run=True),
                unhurried=True,
            )
            return foreseen.value
        deleted = await delete_many(self._open.chain, checked, scope=scope, now=now)
        self._open.note_changes()
        return deleted.value

    async def restore(
        self, id: str, *, revision: int, owner: str | None = None, management: bool = False
    ) -> MemoryResult:
        """Bring an earlier state back, as a new revision; a deleted memory comes back with its id. Raises
        NotFoundError, ConflictError, CapabilityError."""
        from memspine.restoring import restore_state

        known, wanted = Intake().id(id), Intake().count("revision", revision, least=1)
        scope, now = self._open.policy.writing_scope(owner, management=management), times.now()
        await self._open.chain.go_behind("restore", scope.owner, [known])
        answer = await self._open.chain.write(
            "restore",
            lambda backend: restore_state(backend, known, revision=wanted, scope=scope, now=now),
            ids=[known],
            touched=Touched(owner=scope.owner, ids=(known,)),
        )
        self._open.note_changes()
        memory, notes = answer.value
        return MemoryResult(memory=memory, backend=answer.backend, notes=notes, degraded=answer.degraded)

    async def put(
        self, records: Sequence[Memory | Tombstone], *, owner: str | None = None, management: bool = False
    ) -> tuple[PutOutcome, ...]:
        """Store whole records with ids, revisions and times as they are. Raises CapabilityError, ScopeError."""
        checked = [Intake(index=index).record(record) for index, record in enumerate(records)]
        scope = self._open.policy.writing_scope(owner, management=management)
        ids = tuple(dict.fromkeys(record.id for record in checked))
        deletes = any(isinstance(record, Tombstone) for record in checked)
        await self._open.chain.go_behind("put", scope.owner, ids)
        answer = await self._open.chain.write(
            "put",
            lambda backend: backend.put(checked, scope=scope),
            ids=ids,
            touched=Touched(owner=scope.owner, ids=ids, deletes=deletes),
            records=len(checked),
        )
        self._open.note_changes()
        return answer.value

    # ── reading ──

    async def get(self, id: str, *, owner: str | None = None, shared: bool = False) -> MemoryResult:
        """One memory. Raises NotFoundError, or BackendUnavailable when a store that may hold it did not answer."""
        found = await self.get_many([id], owner=owner, shared=shared)
        if id not in found:
            raise NotFoundError(self._open.chain.primary.name, id)
        return found[id]

    async def get_many(
        self, ids: Sequence[str], *, owner: str | None = None, shared: bool = False, primary_only: bool = False
    ) -> dict[str, MemoryResult]:
        """Those of the memories that exist (with `primary_only`, there), by id, in the order asked. Raises
        BackendUnavailable when one is missing and a store that may hold it did not answer."""
        known, scope = Intake().ids(ids), self._open.policy.reading_scope(owner, shared=shared)
        found = await self._open.chain.get_many(known, scope=scope, now=times.now(), primary_only=primary_only)
        missing = [id for id in known if id not in found.memories and id not in found.pending]
        if missing and found.failures:
            reason = f"memory {missing[0]!r} was not found where it could be looked for: {'; '.join(found.failures)}"
            raise BackendUnavailable(self._open.chain.primary.name, reason, causes=found.failures)
        return {
            id: MemoryResult(
                memory=memory,
                backend=found.backends[id],
                degraded=(*found.failures, *found.degraded),
                pending=id in found.pending,
            )
            for id, memory in found.memories.items()
        }

    async def list(
        self,
        filter: MemoryFilter | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
        owner: str | None = None,
        session: str | None = None,
        shared: bool = False,
        everyone: bool = False,
        management: bool = False,
    ) -> PageResult:
        """A page of memories by creation time, and how many there are. Raises CursorError."""
        intake = Intake()
        checked = intake.filter(filter or MemoryFilter())
        size, place = intake.limit(limit), intake.cursor(cursor)
        scope = self._open.policy.listing_scope(
            owner, session=session, shared=shared, everyone=everyone, management=management
        )
        now, waiting = times.now(), await self._open.chain.waiting(scope)
        page = await self._open.chain.read_listing(
            "list",
            lambda backend: backend.list(
                checked, scope=scope, now=now, limit=size, cursor=place, newest_first=newest_first
            ),
        )
        counts = await self._open.chain.read_listing(
            "count", lambda backend: backend.count(checked, scope=scope, now=now)
        )
        hidden = await self._open.chain.hidden(page.value.memories, scope=scope, backend=page.backend, before=waiting)
        return PageResult(
            memories=hidden.without(page.value.memories),
            total=counts.value.total,
            cursor=page.value.cursor,
            backend=page.backend,
            degraded=(*page.degraded, *hidden.degraded),
        )

    async def count(
        self,
        filter: MemoryFilter | None = None,
        *,
        by: Literal["type", "session", "owner"] | None = None,
        owner: str | None = None,
        session: str | None = None,
        shared: bool = False,
        everyone: bool = False,
        management: bool = False,
    ) -> Counts:
        """How many memories there are, in all and by group."""
        checked = Intake().filter(filter or MemoryFilter())
        group = None if by is None else Intake().choice("by", by, GROUPS)
        scope = self._open.policy.listing_scope(
            owner, session=session, shared=shared, everyone=everyone, management=management
        )
        now = times.now()
        answer = await self._open.chain.read_listing(
            "count", lambda backend: backend.count(checked, scope=scope, now=now, by=group)
        )
        counts, hidden = answer.value, await self._open.chain.hidden((), scope=scope, backend=answer.backend)
        return Counts(counts.total, counts.groups, answer.backend, (*answer.degraded, *hidden.degraded))

    async def search(
        self,
        text: str,
        *,
        strategy: StrategyName | None = None,
        filter: MemoryFilter | None = None,
        limit: int | None = None,
        max_tokens: int | None = None,
        preview: bool = False,
        owner: str | None = None,
        session: str | None = None,
        shared: bool | None = None,
    ) -> SearchResult:
        """Recall the memories that answer a question, best first, with the trace of how they were found.

        Without `max_tokens` the answer has no token budget. A `preview` does not count as a recall in the telemetry.
        """
        running = self._open
        request = running.policy.recall_request(
            text,
            scope=running.policy.search_scope(owner, session=session, shared=shared),
            strategy=strategy,
            filter=filter,
            limit=limit,
            max_tokens=max_tokens,
        )
        result = await running.recall(request)
        if not preview:
            running.record_accesses(result)
        return result

    async def history(self, id: str, *, owner: str | None = None) -> tuple[Revision, ...]:
        """All kept states of a memory, oldest first, also of a deleted one. Raises NotFoundError, CapabilityError."""
        known = Intake().id(id)
        scope = self._open.policy.reading_scope(owner)
        answer = await self._open.chain.call_primary("history", lambda backend: backend.history(known, scope=scope))
        if not answer.value:
            raise NotFoundError(answer.backend, id)
        return answer.value

    # ── conversation ──

    async def inject(
        self,
        request: Mapping[str, Any],
        *,
        shape: str,
        owner: str | None = None,
        session: str | None = None,
        shared: bool | None = None,
        limit: int | None = None,
        max_tokens: int | None = None,
        placement: Literal["system", "user"] | None = None,
    ) -> InjectionResult:
        """Place the memories that fit the user's question into a chat request of the given shape.

        `session` names the conversation: a block of an earlier call for it is replaced. Memories of other sessions are
        recalled too, unless `[retrieval] scope` is "session". The request is never changed in place. When recalling or
        placing fails, it comes back as it was, `reason` says why, and `injection_failures` is one higher. Raises
        UnknownPluginError for a shape that no plugin knows.
        """
        running = self._open
        policy, settings = running.policy, running.config.injection
        intake = Intake()
        intake.request(request)
        session = intake.session(running.config.memory.session if session is None else session)
        only_session = session if running.config.retrieval.scope == "session" else None
        result, well = await running.place(
            request,
            shape=shape,
            scope=policy.search_scope(owner, session=only_session, shared=shared),
            session=session,
            limit=policy.injected_limit(limit),
            max_tokens=policy.budget(max_tokens),
            where=intake.choice("placement", placement or settings.placement, ("system", "user")),
        )
        self.injection_failures += not well
        return result

    # ── inside ──

    def _written(self, answer: Answer[Outcome], *, notes: Sequence[str]) -> MemoryResult:
        """What a create or an update is answered with."""
        self._open.note_changes()
        value = answer.value
        assert not isinstance(value, Tombstone)  # noqa: S101 - what a delete is answered with
        created = value.created if isinstance(value, Written) else None
        return MemoryResult(
            memory=value.memory if isinstance(value, Written) else value,
            backend=answer.backend,
            degraded=answer.degraded,
            notes=tuple(notes),
            created=created,
            pending=answer.pending,
        )

    @property
    def _open(self) -> Running:
        if self._running is None:
            raise ClosedError("memory manager")
        return self._running

    def _new_id(self, owner: str, memory: NewMemory, now: datetime) -> str:
        return keyed_id(owner, memory.key) if memory.key else self._ids.new(now)
