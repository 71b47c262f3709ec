"""Defects in what a vector store makes of leases: storing as a holder, and release."""

import asyncio

import attrs
from planted_store_base import Clean

from memspine.model import MemoryRef


def ref_of(record):
    return MemoryRef(record.owner, record.id)


class HoldersAreIgnored(Clean):
    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records)


class NoNameIsNoHolder(Clean):
    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records, holder=holder or None)


class AnyLeaseWillDo(Clean):
    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        waiting = self.shelf(space_id).queue.waiting
        if holder is not None:
            records = [r for r in records if ref_of(r) in waiting and waiting[ref_of(r)].leased_until is not None]
        await super().upsert(space_id, records=records)


class QueuedWillDo(Clean):
    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        if holder is not None:
            records = [record for record in records if ref_of(record) in self.shelf(space_id).queue.waiting]
        await super().upsert(space_id, records=records)


class LeasedOnceWillDo(Clean):
    """Looks at who had it last, and not at whether the lease was given back."""

    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        waiting = self.shelf(space_id).queue.waiting
        if holder is not None:
            records = [r for r in records if ref_of(r) in waiting and waiting[ref_of(r)].holder == holder]
        await super().upsert(space_id, records=records)


class OneLeaseIsEnough(Clean):
    """Stores the whole call when any of its memories is the holder's."""

    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        queue = self.shelf(space_id).queue
        if holder is not None and not any(queue.is_held(ref_of(record), holder) for record in records):
            records = []
        await super().upsert(space_id, records=records)


class AllLeasesAreNeeded(Clean):
    """Stores nothing of a call in which one memory is not the holder's."""

    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        queue = self.shelf(space_id).queue
        if holder is not None and not all(queue.is_held(ref_of(record), holder) for record in records):
            records = []
        await super().upsert(space_id, records=records, holder=holder)


class HoldersStoreOneChunk(Clean):
    """The first chunk settles the memory, and the others come too late."""

    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        for index, record in enumerate(records):
            self.checked(self.shelf(space_id), record.vector, index=index)
        for record in records:
            await super().upsert(space_id, records=[record], holder=holder)
        await super().upsert(space_id, records=[], holder=holder)


class HoldersSettleWhatTheyPassOver(Clean):
    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records, holder=holder)
        self.shelf(space_id).queue.settle({ref_of(record): record.revision for record in records})


class HoldersCheckTheirOwn(Clean):
    """Does not look at the vectors that it passes over."""

    breaks = ("VS-19", "VS-11")

    async def upsert(self, space_id, *, records, holder=None):
        if holder is not None:
            records = [r for r in records if self.shelf(space_id).queue.is_held(ref_of(r), holder)]
        await super().upsert(space_id, records=records, holder=holder)


class LooksAtLeasesFirst(Clean):
    """Stores in a later step than the one in which it looked."""

    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        queue = self.shelf(space_id).queue
        if holder is not None:
            records = [record for record in records if queue.is_held(ref_of(record), holder)]
            await asyncio.sleep(0)
        await super().upsert(space_id, records=records)


class LeasesBindEverybody(Clean):
    """Without a holder it stores what nobody works on."""

    breaks = ("VS-19",)

    async def upsert(self, space_id, *, records, holder=None):
        waiting = self.shelf(space_id).queue.waiting
        if holder is None:
            free = [r for r in records if ref_of(r) not in waiting or waiting[ref_of(r)].leased_until is None]
            records = free
        await super().upsert(space_id, records=records, holder=holder)


class LeasesOutliveTheQueue(Clean):
    """Keeps in mind who was given a memory, whatever became of it since."""

    breaks = ("VS-19",)

    def __init__(self, context):
        super().__init__(context)
        self.given = {}

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        work = await super().claim(space_id, holder=holder, now=now, lease_seconds=lease_seconds, limit=limit)
        self.given.update({(space_id, item.ref): holder for item in work})
        return work

    async def upsert(self, space_id, *, records, holder=None):
        if holder is not None:
            records = [record for record in records if self.given.get((space_id, ref_of(record))) == holder]
        await super().upsert(space_id, records=records)


class LeasesByIds(Clean):
    """Takes a lease on one owner's memory for one on all of that id."""

    breaks = ("VS-14",)

    async def upsert(self, space_id, *, records, holder=None):
        queue = self.shelf(space_id).queue
        if holder is not None:
            ids = {ref.id for ref in queue.waiting if queue.is_held(ref, holder)}
            records = [record for record in records if record.id in ids]
        await super().upsert(space_id, records=records)


class LeasesOfAnySpace(Clean):
    breaks = ("VS-13",)

    async def release(self, space_id, *, refs, holder):
        self.shelf(space_id)
        for id in self.shelves:
            await super().release(id, refs=refs, holder=holder)


class UnknownHolderIsFine(Clean):
    """Looks for the space when there is something to store."""

    breaks = ("VS-5",)

    async def upsert(self, space_id, *, records, holder=None):
        if records or holder is None:
            await super().upsert(space_id, records=records, holder=holder)


class UnknownHasNothingToRelease(Clean):
    breaks = ("VS-5",)

    async def release(self, space_id, *, refs, holder):
        if space_id in self.shelves:
            await super().release(space_id, refs=refs, holder=holder)


class ReleasesLate(Clean):
    """Leaves the memory to the end of its lease."""

    breaks = ("VS-58",)

    async def release(self, space_id, *, refs, holder):
        self.shelf(space_id)


class ReleaseIsAFailure(Clean):
    breaks = ("VS-58",)

    async def release(self, space_id, *, refs, holder):
        queue = self.shelf(space_id).queue
        for ref in refs:
            if queue.is_held(ref, holder):
                queue.waiting[ref].failures += 1
        await super().release(space_id, refs=refs, holder=holder)


class ReleaseForgives(Clean):
    """Forgets the failures there were."""

    breaks = ("VS-58",)

    async def release(self, space_id, *, refs, holder):
        queue = self.shelf(space_id).queue
        for ref in refs:
            if queue.is_held(ref, holder):
                queue.waiting[ref].failures = 0
        await super().release(space_id, refs=refs, holder=holder)


class ReleasedGoToTheEnd(Clean):
    breaks = ("VS-58",)

    async def release(self, space_id, *, refs, holder):
        await super().release(space_id, refs=refs, holder=holder)
        waiting = self.shelf(space_id).queue.waiting
        for ref in refs:
            if ref in waiting:
                waiting[ref] = waiting.pop(ref)


class ReleasesForOthers(Clean):
    breaks = ("VS-58",)

    async def release(self, space_id, *, refs, holder):
        waiting = self.shelf(space_id).queue.waiting
        for ref in refs:
            if ref in waiting:
                await super().release(space_id, refs=[ref], holder=waiting[ref].holder)


class ReleasesWhatFailed(Clean):
    """Makes what waits after a failure due."""

    breaks = ("VS-58",)

    async def release(self, space_id, *, refs, holder):
        waiting = self.shelf(space_id).queue.waiting
        for ref in refs:
            if ref in waiting and waiting[ref].holder == holder:
                waiting[ref].due = waiting[ref].leased_until = None


class ReleasesTheWholeHolder(Clean):
    breaks = ("VS-58",)

    async def release(self, space_id, *, refs, holder):
        every = [*self.shelf(space_id).queue.waiting]
        await super().release(space_id, refs=every, holder=holder)


class ReleasedIsNotQueued(Clean):
    breaks = ("VS-58",)

    async def release(self, space_id, *, refs, holder):
        queue = self.shelf(space_id).queue
        queue.remove([ref for ref in refs if queue.is_held(ref, holder)])


class ReleasesFew(Clean):
    breaks = ("VS-58",)

    async def release(self, space_id, *, refs, holder):
        await super().release(space_id, refs=refs[:32_766], holder=holder)


class ReleasesAsClaimed(Clean):
    """Passes over what was raised since it was claimed."""

    breaks = ("VS-58",)

    def __init__(self, context):
        super().__init__(context)
        self.given = {}

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        work = await super().claim(space_id, holder=holder, now=now, lease_seconds=lease_seconds, limit=limit)
        self.given.update({item.ref: item.revision for item in work})
        return work

    async def release(self, space_id, *, refs, holder):
        waiting = self.shelf(space_id).queue.waiting
        same = [ref for ref in refs if ref in waiting and waiting[ref].revision == self.given.get(ref)]
        await super().release(space_id, refs=same, holder=holder)


class ReleasesByIds(Clean):
    breaks = ("VS-14",)

    async def release(self, space_id, *, refs, holder):
        ids = {ref.id for ref in refs}
        same = [ref for ref in self.shelf(space_id).queue.waiting if ref.id in ids]
        await super().release(space_id, refs=same, holder=holder)


class IndexesForAnybody(Clean):
    breaks = ("VS-137",)

    async def index_terms(self, space_id, *, records, holder=None):
        await super().index_terms(space_id, records=records)


class IndexesWhatIsQueued(Clean):
    breaks = ("VS-137",)

    async def index_terms(self, space_id, *, records, holder=None):
        if holder is not None:
            records = [record for record in records if ref_of(record) in self.shelf(space_id).queue.waiting]
        await super().index_terms(space_id, records=records)


class NoNameMayIndex(Clean):
    breaks = ("VS-137",)

    async def index_terms(self, space_id, *, records, holder=None):
        await super().index_terms(space_id, records=records, holder=holder or None)


class IndexingSettlesForOthers(Clean):
    breaks = ("VS-137",)

    async def index_terms(self, space_id, *, records, holder=None):
        await super().index_terms(space_id, records=records, holder=holder)
        self.shelf(space_id).queue.settle({ref_of(record): record.revision for record in records})


class IndexesInALaterStep(Clean):
    breaks = ("VS-137",)

    async def index_terms(self, space_id, *, records, holder=None):
        queue = self.shelf(space_id).queue
        if holder is not None:
            records = [record for record in records if queue.is_held(ref_of(record), holder)]
            await asyncio.sleep(0)
        await super().index_terms(space_id, records=records)


class UnknownHolderMayIndex(Clean):
    breaks = ("VS-135",)

    async def index_terms(self, space_id, *, records, holder=None):
        if space_id in self.shelves or holder is None:
            await super().index_terms(space_id, records=records, holder=holder)


class IndexedNewerKeepsItsLease(Clean):
    breaks = ("VS-131",)

    async def index_terms(self, space_id, *, records, holder=None):
        queue = self.shelf(space_id).queue
        before = {ref: attrs.evolve(item) for ref, item in queue.waiting.items()}
        await super().index_terms(space_id, records=records, holder=holder)
        queue.waiting = {ref: before[ref] for ref in queue.waiting}


class SettlingIsForgetting(Clean):
    """Takes what is settled out of every space and every queue."""

    breaks = ("VS-59",)

    async def settle(self, space_id, *, revisions, holder):
        queue = self.shelf(space_id).queue
        await self.delete([ref for ref in revisions if queue.is_held(ref, holder)])


class AnybodySettles(Clean):
    breaks = ("VS-59",)

    async def settle(self, space_id, *, revisions, holder):
        shelf = self.shelf(space_id)
        for ref, revision in revisions.items():
            if shelf.revision(ref) <= revision:
                shelf.remove(ref)
        shelf.queue.settle(revisions)
        self.save()


class SettledIsStillHeld(Clean):
    breaks = ("VS-59",)

    async def settle(self, space_id, *, revisions, holder):
        queue = self.shelf(space_id).queue
        queue.settle({ref: revision for ref, revision in revisions.items() if queue.is_held(ref, holder)})
        self.save()


class SettlesWhatIsNewer(Clean):
    breaks = ("VS-59", "VS-131")

    async def settle(self, space_id, *, revisions, holder):
        await super().settle(space_id, revisions=dict.fromkeys(revisions, 99), holder=holder)
