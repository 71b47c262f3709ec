"""One batch into a store, through the manager, so that nothing changes that is there already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import attrs

from memspine import times
from memspine.errors import BackendUnavailable, CapabilityError, InvalidMemoryError
from memspine.ids import IdSource
from memspine.model import Memory, MemoryFilter, NewMemory, PutOutcome, canonical_json
from memspine.transfer.items import BadLine, ImportedMemory, ImportedRecord
from memspine.transfer.report import Tally

if TYPE_CHECKING:
    from memspine.manager import MemoryManager

_MILLISECOND = timedelta(milliseconds=1)
# So long before its beginning an import dates what has no time, to have a millisecond for each of some ten thousand.
_DATED_BACK = timedelta(seconds=10)
_CONFLICT = (
    "memory {id!r} at revision {revision} meets another state of that revision, or another memory has its key; "
    "the store was left as it is"
)


class Storing:
    """The way of items into one manager's store, and the tally of what became of them."""

    def __init__(self, manager: MemoryManager, *, management: bool, dry_run: bool) -> None:
        self.tally = Tally()
        self._manager = manager
        self._management = management
        self._dry_run = dry_run
        self._ids = IdSource()
        self._last_time = times.now() - _DATED_BACK
        self._takes_records: bool | None = None
        self._not_kept = _NotKept()

    def fresh_id(self) -> str:
        """An id for what has neither a key nor a place that gives it one."""
        return self._ids.new(times.now())

    def conclude(self) -> None:
        """Say what was not kept."""
        for text in self._not_kept.told():
            self.tally.remark(text)

    # ── memories ──

    async def memories(self, batch: Sequence[ImportedMemory], *, owner: str) -> None:
        """Create those that are not there, replace those that are there with other content."""
        known = await self._standing([str(item.id) for item in batch], owner=owner)
        wanted: list[tuple[ImportedMemory, bool]] = []
        for item in batch:
            old = await self._replaced_by(item, known, owner=owner)
            if old is not None and _says_the_same(old, item.memory):
                self.tally.unchanged += 1
            else:
                wanted.append((item, old is not None))
        if self._dry_run:
            self._count(replaces for _, replaces in wanted)
        elif wanted:
            await self._create(self._placed_in_time(wanted), owner=owner)

    async def _create(self, wanted: list[tuple[ImportedMemory, bool]], *, owner: str) -> None:
        while wanted:
            try:
                results = await self._manager.create_many(
                    [item.memory for item, _ in wanted],
                    ids=[str(item.id) for item, _ in wanted],
                    owner=owner,
                    management=self._management,
                )
            except InvalidMemoryError as error:
                if error.index is None:
                    raise
                item, _ = wanted.pop(error.index)
                self.tally.bad(BadLine(item.line, str(error)))
            else:
                self._count(result.created is False for result in results if not result.pending)
                self.tally.waiting += sum(result.pending for result in results)
                return

    async def _replaced_by(self, item: ImportedMemory, known: dict[str, Memory], *, owner: str) -> Memory | None:
        """The memory that creating this one would replace: the holder of its key, or else of its id."""
        key, same_id = item.memory.key, known.get(str(item.id))
        if not key or (same_id is not None and same_id.key == key):
            return same_id
        with self._asking():
            page = await self._manager.list(MemoryFilter(key=key), limit=1, owner=owner)
        return page.memories[0] if page.memories else same_id

    async def _standing(self, ids: Sequence[str], *, owner: str) -> dict[str, Memory]:
        """Those of the memories that the primary itself holds; what only a fallback has is still to be stored."""
        with self._asking():
            found = await self._manager.get_many(ids, owner=owner, primary_only=True)
        return {id: result.memory for id, result in found.items()}

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """What is there decides what is stored, so nothing is imported while the primary cannot say. Raises
        BackendUnavailable that says so."""
        try:
            yield
        except BackendUnavailable as error:
            cause = "; ".join(error.causes) or str(error)
            done, waiting = self.tally.stored + self.tally.replaced, self.tally.waiting
            went_in = f"{f'{done} memories' if done else 'nothing'} of it went in"
            if waiting:
                went_in += f", {waiting} wait for the primary"
            raise BackendUnavailable(
                error.backend,
                f"importing needs an answer of it, and is never put off: {cause.removeprefix(f'{error.backend}: ')}",
                advice=f"{went_in}; import it again when it is back",
            ) from error

    def _placed_in_time(self, wanted: list[tuple[ImportedMemory, bool]]) -> list[tuple[ImportedMemory, bool]]:
        """Those without a time get one each, never in the future, so that lists keep the order of the file."""
        now = times.now()
        placed = []
        for item, replaces in wanted:
            if item.memory.created_at is None:
                self._last_time = min(self._last_time + _MILLISECOND, now)
                memory = attrs.evolve(item.memory, created_at=self._last_time)
                placed.append((attrs.evolve(item, memory=memory), replaces))
            else:
                placed.append((item, replaces))
        return placed

    def _count(self, replacing: Any) -> None:
        flags = list(replacing)
        self.tally.replaced += sum(flags)
        self.tally.stored += len(flags) - sum(flags)

    # ── whole records ──

    async def records(self, batch: Sequence[ImportedRecord], *, owner: str) -> None:
        """Put whole records, or create their last states where the store takes no whole records."""
        if self._takes_records is None:
            self._takes_records = await self._can_put(owner)
        if not self._takes_records:
            await self._records_as_memories(batch, owner=owner)
            return
        known = await self._standing([record.last.id for record in batch], owner=owner)
        wanted = []
        for record in batch:
            if _is_there(known.get(record.last.id), record):
                self.tally.unchanged += 1
            else:
                wanted.append(record)
        if self._dry_run:
            outcomes = [_expected_outcome(known.get(record.last.id), record) for record in wanted]
        else:
            outcomes = await self._put(wanted, owner=owner)
        for record, outcome in zip(wanted, outcomes, strict=True):
            self._count_outcome(record, outcome, replaces=record.last.id in known)

    async def _put(self, batch: Sequence[ImportedRecord], *, owner: str) -> list[PutOutcome]:
        """The outcome of the last step of each record; the earlier ones are its history."""
        steps = [step for record in batch for step in record.steps]
        answered = iter(await self._manager.put(steps, owner=owner, management=self._management) if steps else ())
        return [[next(answered) for _ in record.steps][-1] for record in batch]

    async def _can_put(self, owner: str) -> bool:
        try:
            with self._asking():
                await self._manager.put((), owner=owner, management=self._management)
        except CapabilityError:
            return False
        return True

    async def _records_as_memories(self, batch: Sequence[ImportedRecord], *, owner: str) -> None:
        memories = []
        for record in batch:
            self._not_kept.add(record)
            if isinstance(record.last, Memory):
                memories.append(ImportedMemory(line=record.line, memory=NewMemory.of(record.last), id=record.last.id))
            else:
                self.tally.bad(BadLine(record.line, "a deletion, which this store cannot take over (capability 'put')"))
        if memories:
            await self.memories(memories, owner=owner)

    def _count_outcome(self, record: ImportedRecord, outcome: PutOutcome, *, replaces: bool) -> None:
        if outcome is PutOutcome.STALE:
            self.tally.stale += 1
        elif outcome is PutOutcome.CONFLICT:
            self.tally.conflicts += 1
            reason = _CONFLICT.format(id=record.last.id, revision=record.last.revision)
            self.tally.bad(BadLine(record.line, reason))
        else:
            self._count([replaces])


@attrs.define
class _NotKept:
    """What a store that takes no whole records does not keep of them."""

    records: int = 0
    revised: int = 0
    states: int = 0
    accessed: int = 0

    def add(self, record: ImportedRecord) -> None:
        """One record more."""
        self.records += 1
        self.states += sum(isinstance(step, Memory) for step in record.steps[:-1])
        if isinstance(record.last, Memory):
            self.revised += record.last.revision > 1
            self.accessed += record.last.access_count > 0

    def told(self) -> tuple[str, ...]:
        """In words; nothing when there were no such records."""
        if not self.records:
            return ()
        text = (
            f"the store takes no whole records (capability 'put'): {self.records} were created anew with their ids and "
            f"creation times; not kept were their update times, the revision numbers of {self.revised}, "
            f"{self.states} earlier states, and the access counts of {self.accessed}"
        )
        return (text,)


def _says_the_same(old: Memory, new: NewMemory) -> bool:
    """Whether creating `new` in the place of `old` would change nothing but its revision."""
    dropped = {name for name, value in new.metadata.items() if value is None}
    merged = {name: value for name, value in {**old.metadata, **new.metadata}.items() if name not in dropped}
    return (
        (old.content, old.type, old.session, old.key, old.expires_at)
        == (new.content, new.type, new.session, new.key, new.expires_at)
        and canonical_json(merged) == canonical_json(dict(old.metadata))
    )  # fmt: skip


def _is_there(old: Memory | None, record: ImportedRecord) -> bool:
    last = record.last
    return (
        old is not None
        and isinstance(last, Memory)
        and old.revision == last.revision
        and old.content_hash == last.content_hash
    )


def _expected_outcome(old: Memory | None, record: ImportedRecord) -> PutOutcome:
    if old is None or old.revision < record.last.revision:
        return PutOutcome.APPLIED
    same = old.revision == record.last.revision and isinstance(record.last, Memory)
    return PutOutcome.CONFLICT if same else PutOutcome.STALE
