"""Defects in what a vector store writes and erases."""

import itertools

from planted_store_base import Clean

from memspine.errors import InvalidMemoryError
from memspine.model import MemoryRef, PurgeReceipt, Scope


class ChunksStay(Clean):
    breaks = ("VS-10",)

    async def upsert(self, space_id, *, records, holder=None):
        before = {place: dict(chunks) for place, chunks in self.shelf(space_id).chunks.items()}
        await super().upsert(space_id, records=records, holder=holder)
        for place, chunks in before.items():
            self.shelf(space_id).chunks[place] = {**chunks, **self.shelf(space_id).chunks[place]}


class LateComersWin(Clean):
    breaks = ("VS-10",)

    async def upsert(self, space_id, *, records, holder=None):
        for record in records:
            self.shelf(space_id).chunks.pop(MemoryRef(record.owner, record.id), None)
        await super().upsert(space_id, records=records, holder=holder)


class OneCallOneMemory(Clean):
    breaks = ("VS-10",)

    async def upsert(self, space_id, *, records, holder=None):
        for record in records:
            chunks = self.shelf(space_id).chunks.get(MemoryRef(record.owner, record.id), {})
            if all(chunk.revision <= record.revision for chunk in chunks.values()):
                self.shelf(space_id).chunks.pop(MemoryRef(record.owner, record.id), None)
        await super().upsert(space_id, records=records, holder=holder)


class TakesNaN(Clean):
    breaks = ("VS-11",)

    def checked(self, shelf, vector, *, index):
        try:
            return super().checked(shelf, vector, index=index)
        except InvalidMemoryError:
            if len(vector) == 4 * shelf.space.identity.dimension and any(memoryview(vector)):
                return [0.5] * shelf.space.identity.dimension
            raise


class BitsOfAnything(Clean):
    """A bit can be made of any number."""

    breaks = ("VS-11",)

    def checked(self, shelf, vector, *, index):
        try:
            return super().checked(shelf, vector, index=index)
        except InvalidMemoryError:
            if shelf.space.quantisation == "binary" and len(vector) == 4 * shelf.space.identity.dimension:
                return [0.5] * shelf.space.identity.dimension
            raise


class StoresBeforeItChecks(Clean):
    breaks = ("VS-11",)

    async def upsert(self, space_id, *, records, holder=None):
        for record in records:
            await super().upsert(space_id, records=[record], holder=holder)


class DeletesInTheActive(Clean):
    breaks = ("VS-12",)

    async def delete(self, refs):
        others = list(self.shelves.values())[1:]
        before = [dict(shelf.chunks) for shelf in others]
        await super().delete(refs)
        for shelf, chunks in zip(others, before, strict=True):
            shelf.chunks = chunks


class DeletedStaysQueued(Clean):
    breaks = ("VS-12",)

    async def delete(self, refs):
        self.require_open()
        for shelf, ref in itertools.product(self.shelves.values(), refs):
            shelf.chunks.pop(ref, None)


class DeletesFew(Clean):
    breaks = ("VS-12",)

    async def delete(self, refs):
        await super().delete(refs[:32_766])


class DeletesForeign(Clean):
    breaks = ("VS-12", "VS-14")

    async def delete(self, refs):
        ids = {ref.id for ref in refs}
        await super().delete([ref for shelf in self.shelves.values() for ref in shelf.chunks if ref.id in ids])
        await super().delete(refs)


class OneTableForAll(Clean):
    breaks = ("VS-13",)

    async def upsert(self, space_id, *, records, holder=None):
        self.shelf(space_id)
        for id in self.shelves:
            await super().upsert(id, records=records, holder=holder)


class OneQueueForAll(Clean):
    breaks = ("VS-13",)

    async def enqueue(self, space_id, *, revisions, position):
        self.shelf(space_id)
        counts = {id: await super(OneQueueForAll, self).enqueue(id, revisions=revisions, position=position)
                  for id in self.shelves}  # fmt: skip
        return counts[space_id]


class OneOwnerAnId(Clean):
    """The last owner to store an id has it alone."""

    breaks = ("VS-14",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records, holder=holder)
        last = {record.id: record.owner for record in records}
        chunks = self.shelf(space_id).chunks
        self.shelf(space_id).chunks = {
            ref: held for ref, held in chunks.items() if last.get(ref.id, "") in ("", ref.owner)
        }


class UpsertSettlesNothing(Clean):
    breaks = ("VS-15",)

    async def upsert(self, space_id, *, records, holder=None):
        queue = self.shelf(space_id).queue
        waiting = dict(queue.waiting)
        await super().upsert(space_id, records=records, holder=holder)
        queue.waiting = waiting


class UpsertSettlesTheNewer(Clean):
    breaks = ("VS-15",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records, holder=holder)
        self.shelf(space_id).queue.remove([MemoryRef(record.owner, record.id) for record in records])


class SettlesBeforeItChecks(Clean):
    breaks = ("VS-15",)

    async def upsert(self, space_id, *, records, holder=None):
        self.shelf(space_id).queue.settle({MemoryRef(record.owner, record.id): record.revision for record in records})
        await super().upsert(space_id, records=records, holder=holder)


class NewerKeepsItsLease(Clean):
    breaks = ("VS-15",)

    async def upsert(self, space_id, *, records, holder=None):
        queue = self.shelf(space_id).queue
        leases = {ref: item.leased_until for ref, item in queue.waiting.items()}
        await super().upsert(space_id, records=records, holder=holder)
        for ref, item in queue.waiting.items():
            item.leased_until = leases[ref]


class NewerIsQueuedAnew(Clean):
    breaks = ("VS-15",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records, holder=holder)
        queue = self.shelf(space_id).queue
        for record in records:
            item = queue.waiting.pop(MemoryRef(record.owner, record.id), None)
            if item is not None:
                queue.waiting[MemoryRef(record.owner, record.id)] = item


class NewerHasFailed(Clean):
    """Takes the end of a lease for a failure."""

    breaks = ("VS-15",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records, holder=holder)
        waiting = self.shelf(space_id).queue.waiting
        for ref in {MemoryRef(record.owner, record.id) for record in records} & waiting.keys():
            waiting[ref].failures += 1


class NewerIsForgiven(Clean):
    breaks = ("VS-15",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records, holder=holder)
        waiting = self.shelf(space_id).queue.waiting
        for ref in {MemoryRef(record.owner, record.id) for record in records} & waiting.keys():
            waiting[ref].due = None


class PurgeLeavesQueues(Clean):
    breaks = ("VS-16",)

    async def purge(self, ids, *, scope):
        queues = [dict(shelf.queue.waiting) for shelf in self.shelves.values()]
        receipt = await super().purge(ids, scope=scope)
        for shelf, waiting in zip(self.shelves.values(), queues, strict=True):
            shelf.queue.waiting = waiting
        return receipt


class PurgesAllForNone(Clean):
    breaks = ("VS-16",)

    async def purge(self, ids, *, scope):
        return await super().purge(ids or None, scope=scope)


class PurgeCountsWhatWasAsked(Clean):
    breaks = ("VS-16",)

    async def purge(self, ids, *, scope):
        receipt = await super().purge(ids, scope=scope)
        return PurgeReceipt(receipt.memories if ids is None else len(ids), receipt.places)


class PurgeTakesForeign(Clean):
    breaks = ("VS-16", "VS-14")

    async def purge(self, ids, *, scope):
        receipt = await super().purge(ids, scope=scope)
        for shelf in self.shelves.values():
            await super().delete([ref for ref in shelf.chunks if ids and ref.id in ids])
        return receipt


class SharedPurges(Clean):
    breaks = ("VS-16",)

    async def purge(self, ids, *, scope):
        return await super().purge(ids, scope=Scope.of_owner(scope.owner) if scope.owner else scope)


class SessionsAreNotPurged(Clean):
    breaks = ("VS-16",)

    async def purge(self, ids, *, scope):
        if scope.kind == "session":
            return PurgeReceipt(0, ())
        return await super().purge(ids, scope=scope)


class PurgeLeavesBytes(Clean):
    breaks = ("VS-17",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records, holder=holder)
        with self.file.with_name("log").open("ab") as log:
            for record in records:
                log.write(record.vector)


class PurgeLeavesNames(Clean):
    breaks = ("VS-17",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records, holder=holder)
        with self.file.with_name("sessions").open("a", encoding="utf-8") as sessions:
            sessions.writelines(f"{record.session}\n" for record in records)


class PurgeSavesOnClosing(Clean):
    breaks = ("VS-17",)

    async def purge(self, ids, *, scope):
        before = self.file.read_bytes()
        receipt = await super().purge(ids, scope=scope)
        self.file.write_bytes(before)
        return receipt

    def close(self):
        self.save()
        super().close()


class ExpiryHasNoLimit(Clean):
    breaks = ("VS-18",)

    async def expire(self, *, now, limit):
        return await super().expire(now=now, limit=1000)


class ExpiryCountsPlaces(Clean):
    breaks = ("VS-18",)

    async def expire(self, *, now, limit):
        before = sum(len(shelf.chunks) for shelf in self.shelves.values())
        await super().expire(now=now, limit=limit)
        return before - sum(len(shelf.chunks) for shelf in self.shelves.values())


class ExpiryOfOneSpace(Clean):
    breaks = ("VS-18",)

    async def expire(self, *, now, limit):
        others = list(self.shelves.values())[1:]
        before = [dict(shelf.chunks) for shelf in others]
        count = await super().expire(now=now, limit=limit)
        for shelf, chunks in zip(others, before, strict=True):
            shelf.chunks = chunks
        return count


class ExpiryEmptiesQueues(Clean):
    breaks = ("VS-18",)

    async def expire(self, *, now, limit):
        held = {ref for shelf in self.shelves.values() for ref in shelf.chunks}
        count = await super().expire(now=now, limit=limit)
        for shelf in self.shelves.values():
            shelf.queue.remove(held - shelf.chunks.keys())
        return count


class ExpiryHidesOnly(Clean):
    breaks = ("VS-18",)

    async def expire(self, *, now, limit):
        before = {id: dict(shelf.chunks) for id, shelf in self.shelves.items()}
        count = await super().expire(now=now, limit=limit)
        for id, chunks in before.items():
            self.shelves[id].chunks = chunks
        return count
