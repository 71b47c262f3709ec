"""What is becoming of a batch of writes that waited, while it is executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import attrs

from memspine.chain.operations import WAITED, Create, Delete, Outcome, Write, from_waiting
from memspine.contracts import Capability
from memspine.errors import InvalidMemoryError, MemspineError
from memspine.journal.entries import Waiting
from memspine.model import Memory, MemoryRef, Written


@attrs.define
class Round:
    """A batch, its writes by number as they are to be done, and what became of each. `capabilities` are the primary's,
    once it could be asked."""

    batch: Sequence[Waiting]
    capabilities: frozenset[Capability] = frozenset()
    writes: dict[int, Write] = attrs.field(factory=dict)
    begun: set[int] = attrs.field(factory=set)
    results: dict[int, Outcome | Exception] = attrs.field(factory=dict)
    refused: dict[int, str] = attrs.field(factory=dict)
    failed: dict[int, str] = attrs.field(factory=dict)
    renamed: set[int] = attrs.field(factory=set)
    tried: set[int] = attrs.field(factory=set)
    put_off: set[MemoryRef] = attrs.field(factory=set)
    troubles: dict[str, None] = attrs.field(factory=dict)
    is_down: bool = False
    outage: str = ""

    @classmethod
    def of(cls, batch: Sequence[Waiting]) -> Round:
        """A round that begins; what cannot be read is refused, and with it all of its unit."""
        round = cls(batch)
        unreadable: dict[int, InvalidMemoryError] = {}
        for entry in batch:
            try:
                round.writes[entry.number] = from_waiting(entry)
            except InvalidMemoryError as error:
                unreadable[entry.unit] = error
        for entry in batch:
            if entry.unit in unreadable:
                round.refuse(entry, unreadable[entry.unit])
        return round

    @property
    def has_feed(self) -> bool:
        """Whether the primary says by itself what changed."""
        return Capability.CHANGES in self.capabilities

    def ref(self, entry: Waiting) -> MemoryRef:
        """The memory that a write is about, by the id that it has."""
        return MemoryRef(entry.owner, self.writes[entry.number].id)

    def creates(self, run: Sequence[Waiting]) -> list[Create]:
        """The writes of entries that are all creates."""
        return [write for entry in run if isinstance(write := self.writes[entry.number], Create)]

    def based(self, entry: Waiting) -> Write:
        """The write of an entry, which expects the revision that the one before it has made, if it was based on what
        only waited."""
        write = self.writes[entry.number]
        if isinstance(write, Create) or write.expected_revision != WAITED:
            return write
        before = [one for one in self.batch if one.number < entry.number and one.number in self.writes]
        last = next((one for one in reversed(before) if self._became(one) == self.ref(entry)), None)
        memory = None if last is None else memory_of(self.results.get(last.number))
        return write if memory is None else attrs.evolve(write, expected_revision=memory.revision)

    def _became(self, entry: Waiting) -> MemoryRef:
        """The memory that a write is about, by the id that it has after it."""
        memory = memory_of(self.results.get(entry.number))
        return self.ref(entry) if memory is None else MemoryRef(entry.owner, memory.id)

    def revisions(self) -> Mapping[MemoryRef, tuple[int, int]]:
        """The last write of each memory that was done, and the revision that it has made."""
        return {
            MemoryRef(entry.owner, memory.id): (entry.number, memory.revision)
            for entry in self.batch
            if (memory := memory_of(self.results.get(entry.number))) is not None
        }

    def rename(self, entry: Waiting, became: str) -> None:
        """Have what follows a create go to the memory that it became, up to its deletion."""
        known = self.ref(entry)
        self.renamed.add(entry.number)
        for later in self.batch:
            write = self.writes.get(later.number)
            if write is not None and later.number > entry.number and self.ref(later) == known:
                self.writes[later.number] = attrs.evolve(write, id=became)
                if isinstance(write, Delete):
                    return

    def refuse(self, entry: Waiting, error: MemspineError) -> None:
        """A write that will never go by itself."""
        self.results[entry.number] = error
        self.refused[entry.number] = str(error)

    def fail(self, entry: Waiting, error: MemspineError) -> None:
        """A write that the primary cannot bear, although it works."""
        ref = self.ref(entry)
        self.put_off.add(ref)
        self.failed[entry.number] = str(error)
        self.troubles[f"a write of memory {ref.id!r} fails: {error}"] = None

    def stop(self, error: MemspineError) -> None:
        """The primary cannot be used: nothing more is tried."""
        self.is_down, self.outage = True, str(error)
        self.troubles[f"the primary does not take what waits: {error}"] = None

    def runs(self, todo: Sequence[Waiting]) -> list[list[Waiting]]:
        """What is to be done, in order, with what is done in one call together: a unit; and new memories of one owner
        that follow each other and replace nothing, so that nothing depends on which came first."""
        runs: list[list[Waiting]] = []
        ids: set[str] = set()
        sizes = Counter(entry.unit for entry in todo)
        for entry in todo:
            write = self.writes[entry.number]
            if runs and runs[-1][0].unit == entry.unit:
                runs[-1].append(entry)
                continue
            is_alone = sizes[entry.unit] == 1 and not entry.is_tried
            is_new = is_alone and isinstance(write, Create) and not write.memory.key
            if is_new and ids and runs[-1][0].owner == entry.owner and entry.id not in ids:
                runs[-1].append(entry)
                ids.add(entry.id)
            else:
                runs.append([entry])
                ids = {entry.id} if is_new else set()
        return runs


def memory_of(result: Outcome | Exception | None) -> Memory | None:
    """The memory that a write made, if it made one."""
    if isinstance(result, Written):
        return result.memory
    return result if isinstance(result, Memory) else None
