"""Items into a store: in batches, each for one owner, and every line that does not go in is told."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs

from memspine.ids import keyed_id
from memspine.intake import Intake
from memspine.model import Memory, Tombstone
from memspine.transfer.items import BadLine, ImportedMemory, ImportedRecord, Item, Note
from memspine.transfer.report import ImportReport, Tally
from memspine.transfer.storing import Storing

if TYPE_CHECKING:
    from memspine.manager import MemoryManager

BATCH_STEPS_MAX = 5000
"""A batch ends early when the histories of its records come to this many states."""

OWNERS_LISTED_MAX = 10
"""How many of the owners that memories were brought with are named."""


async def import_items(
    manager: MemoryManager,
    items: Iterable[Item],
    *,
    owner: str | None = None,
    session: str | None = None,
    management: bool = False,
    batch_size: int = 500,
    on_progress: Callable[[int], None] | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Store what was read. Doing it again changes nothing: what is there already is left as it is.

    Memories go to `owner`, and where they name no session, to `session` (None: those of the configuration). Whole
    records keep ids, revisions, times and history where the primary claims `put`; elsewhere a note says what was not
    kept. With `management` and no `owner`, what names an owner also keeps it; otherwise it becomes `owner`'s, which is
    refused for what is of a second owner, because two people's memories would be mixed. A dry run stores nothing.

    `on_progress` is told after each batch how many items are done. Raises what the manager raises; what was done by
    then stays, and importing again goes on from there.
    """
    run = _Run(
        Storing(manager, management=management, dry_run=dry_run),
        owner=manager.config.memory.owner if owner is None else Intake().owner(owner),
        keep_owners=owner is None and management,
        session=manager.config.memory.session if session is None else Intake().session(session),
        session_named=session is not None,
        batch_size=max(batch_size, 1),
        on_progress=on_progress,
    )
    for item in items:
        await run.take(item)
    await run.flush()
    return run.report()


@attrs.define
class _Run:
    """The batch that is being gathered: either memories or whole records, no memory twice."""

    _storing: Storing
    owner: str
    keep_owners: bool
    session: str
    session_named: bool
    batch_size: int
    on_progress: Callable[[int], None] | None
    _memories: list[ImportedMemory] = attrs.field(factory=list)
    _records: list[ImportedRecord] = attrs.field(factory=list)
    _steps: int = 0
    _names: set[tuple[str, ...]] = attrs.field(factory=set)
    _source_owner: str | None = None
    _kept_owners: dict[str, None] = attrs.field(factory=dict)

    @property
    def tally(self) -> Tally:
        """The numbers so far."""
        return self._storing.tally

    async def take(self, item: Item) -> None:
        """One item; a full batch is stored."""
        if isinstance(item, BadLine):
            self.tally.bad(item)
        elif isinstance(item, Note):
            self.tally.note(item.line, item.text)
        elif isinstance(item, ImportedMemory):
            await self._take_memory(item)
        else:
            await self._take_record(item)

    async def flush(self) -> None:
        """Store what was gathered."""
        memories, self._memories = self._memories, []
        records, self._records = self._records, []
        self._steps, self._names = 0, set()
        to_owner: dict[str, list[ImportedMemory]] = {}
        for memory in memories:
            to_owner.setdefault(memory.owner, []).append(memory)
        for owner, some in to_owner.items():
            await self._storing.memories(some, owner=owner)
        by_owner: dict[str, list[ImportedRecord]] = {}
        for record in records:
            by_owner.setdefault(record.last.owner, []).append(record)
        for owner, group in by_owner.items():
            await self._storing.records(group, owner=owner)
        if self.on_progress is not None and (memories or records):
            self.on_progress(self.tally.handled)

    def report(self) -> ImportReport:
        """The report, with what concerns the import as a whole."""
        self._storing.conclude()
        if self._source_owner not in (None, self.owner):
            self.tally.remark(f"the records of {self._source_owner!r} now belong to {self.owner!r}")
        if self._kept_owners:
            named = ", ".join(map(repr, itertools.islice(self._kept_owners, OWNERS_LISTED_MAX)))
            more = len(self._kept_owners) - OWNERS_LISTED_MAX
            listed = f"{named} and {more} more" if more > 0 else named
            self.tally.remark(f"owners were kept as the source names them: {listed}; name one to give it what is there")
        return self.tally.report()

    def _given(self, source: str, *, line: int) -> str | None:
        """Who gets what belongs to `source` where it comes from; None if that would mix two people's, which is told."""
        if not source:
            return self.owner
        if self.keep_owners:
            return source
        self._source_owner = source if self._source_owner is None else self._source_owner
        if source != self._source_owner:
            self.tally.bad(BadLine(line, _second_owner(source, first=self._source_owner)))
            return None
        return self.owner

    async def _take_memory(self, item: ImportedMemory) -> None:
        given = self._given(item.owner, line=item.line)
        if given is None:
            return
        if item.owner and self.keep_owners and given != self.owner:
            self._kept_owners[given] = None
        item = attrs.evolve(item, owner=given)
        memory = item.memory
        if not memory.session:
            item = attrs.evolve(item, memory=attrs.evolve(memory, session=self.session))
        elif self.session_named and memory.session != self.session:
            self.tally.note(item.line, "the session that the file names was kept")
        if item.id is None:
            # Without a key there is nothing to find it again by, so it is new every time.
            id = keyed_id(item.owner, memory.key) if memory.key else self._storing.fresh_id()
            item = attrs.evolve(item, id=id)
        names = [(item.owner, str(item.id)), (item.owner, "key", memory.key)] if memory.key else [
            (item.owner, str(item.id))
        ]  # fmt: skip
        if self._records or not self._names.isdisjoint(names):
            await self.flush()
        self._names.update(names)
        self._memories.append(item)
        if len(self._memories) >= self.batch_size:
            await self.flush()

    async def _take_record(self, item: ImportedRecord) -> None:
        given = self._given(item.last.owner, line=item.line)
        if given is None:
            return
        if not self.keep_owners:
            item = attrs.evolve(item, steps=tuple(_given_to(given, step) for step in item.steps))
        name = (item.last.owner, item.last.id)
        if self._memories or name in self._names:
            await self.flush()
        if self.session_named:
            self.tally.note(item.line, "whole records keep their sessions")
        self._names.add(name)
        self._records.append(item)
        self._steps += len(item.steps)
        if len(self._records) >= self.batch_size or self._steps >= BATCH_STEPS_MAX:
            await self.flush()


def _given_to(owner: str, step: Memory | Tombstone) -> Memory | Tombstone:
    return step if step.owner == owner else attrs.evolve(step, owner=owner)


def _second_owner(owner: str, *, first: str) -> str:
    return (
        f"this record belongs to {owner!r}, those before it to {first!r}; to become one owner's they are imported one "
        "owner at a time, and with the management role and no owner named all keep theirs"
    )
