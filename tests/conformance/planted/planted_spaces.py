"""Defects in spaces, and in the life of a vector store."""

import asyncio

import attrs
from planted_store_base import BaseOnly, Clean

from memspine.conformance.reference.queues import Queue
from memspine.errors import ScopeError


class BelievesItIsActive(Clean):
    breaks = ("VS-1",)

    async def open_space(self, space):
        made = space.id not in self.shelves
        found = await super().open_space(space)
        if made:
            self.shelves[space.id].space = found = attrs.evolve(found, active=space.active)
        return found


class BelievesItIsComplete(Clean):
    breaks = ("VS-1",)

    async def open_space(self, space):
        made = space.id not in self.shelves
        found = await super().open_space(space)
        if made:
            self.shelves[space.id].space = found = attrs.evolve(found, complete=space.complete)
        return found


class LastSpaceWins(Clean):
    breaks = ("VS-1",)

    async def open_space(self, space):
        found = await super().open_space(space)
        kept = {"active": found.active, "complete": found.complete, "used_at": found.used_at}
        self.shelves[space.id].space = attrs.evolve(space, **kept)
        return self.shelves[space.id].space


class OpeningEmptiesTheQueue(Clean):
    breaks = ("VS-1",)

    async def open_space(self, space):
        found = await super().open_space(space)
        self.shelf(space.id).queue.remove([*self.shelf(space.id).queue.waiting])
        return found


class SpacesByName(Clean):
    breaks = ("VS-2",)

    async def spaces(self):
        return tuple(sorted(await super().spaces(), key=lambda space: space.id))


class SpacesWithoutChunkSize(Clean):
    breaks = ("VS-2",)

    async def spaces(self):
        return tuple(attrs.evolve(space, chunk_tokens=0) for space in await super().spaces())


class SpacesWithoutSource(Clean):
    breaks = ("VS-2",)

    async def spaces(self):
        return tuple(attrs.evolve(space, source={}) for space in await super().spaces())


class ActivatesInTwoSteps(Clean):
    breaks = ("VS-3",)

    async def activate(self, space_id):
        self.shelf(space_id)
        for shelf in self.shelves.values():
            shelf.space = attrs.evolve(shelf.space, active=False)
        await asyncio.sleep(0)
        await super().activate(space_id)


class SeveralActive(Clean):
    breaks = ("VS-3",)

    async def activate(self, space_id):
        shelf = self.shelf(space_id)
        shelf.space = attrs.evolve(shelf.space, active=True)


class DropsTheActive(Clean):
    breaks = ("VS-4",)

    async def drop_space(self, space_id):
        self.shelf(space_id)
        del self.shelves[space_id]


class DropLeavesVectors(Clean):
    breaks = ("VS-4",)

    async def drop_space(self, space_id):
        chunks = self.shelf(space_id).chunks
        await super().drop_space(space_id)
        self.left = {**getattr(self, "left", {}), space_id: chunks}

    async def open_space(self, space):
        found = await super().open_space(space)
        self.shelves[space.id].chunks.update(getattr(self, "left", {}).get(space.id, {}))
        return found


class DropLeavesTheQueue(Clean):
    breaks = ("VS-4",)
    left = ()

    async def drop_space(self, space_id):
        queue = self.shelf(space_id).queue
        await super().drop_space(space_id)
        self.left = {space_id: queue}

    async def open_space(self, space):
        made = space.id not in self.shelves
        found = await super().open_space(space)
        if made and space.id in self.left:
            self.shelves[space.id].queue = self.left[space.id]
        return found


class UnknownIsEmpty(Clean):
    breaks = ("VS-5",)

    async def count(self, space_id, *, scope, now):
        return await super().count(space_id, scope=scope, now=now) if space_id in self.shelves else 0


class UnknownHasNothingToDo(Clean):
    breaks = ("VS-5",)

    async def enqueue(self, space_id, *, revisions, position):
        return await super().enqueue(space_id, revisions=revisions, position=position) if revisions else 0


class CompletesEverySpace(Clean):
    breaks = ("VS-6",)

    async def complete_space(self, space_id):
        await super().complete_space(space_id)
        for id in self.shelves:
            await super().complete_space(id)


class CompleteUntilQueued(Clean):
    breaks = ("VS-6",)

    async def enqueue(self, space_id, *, revisions, position):
        count = await super().enqueue(space_id, revisions=revisions, position=position)
        shelf = self.shelf(space_id)
        shelf.space = attrs.evolve(shelf.space, complete=shelf.space.complete and not count)
        return count


class LastUseWins(Clean):
    breaks = ("VS-7",)

    async def open_space(self, space):
        found = await super().open_space(space)
        self.shelves[space.id].space = attrs.evolve(found, used_at=space.used_at)
        return self.shelves[space.id].space


class FirstUseWins(Clean):
    breaks = ("VS-7",)

    async def open_space(self, space):
        known = self.shelves.get(space.id)
        return await super().open_space(space) if known is None else known.space


class ClosesLate(Clean):
    breaks = ("VS-40",)

    def close(self):
        pass


class OpensEarly(Clean):
    breaks = ("VS-40",)

    @staticmethod
    def on_construction(context):
        (context.data_folder / "vectors.lock").touch()


class HealthWrites(Clean):
    breaks = ("VS-41",)

    async def health(self, *, deep=False):
        health = await super().health(deep=deep)
        for shelf in self.shelves.values():
            shelf.chunks.pop(next(iter(shelf.chunks), None), None)
        return health


class HealthIsWork(Clean):
    breaks = ("VS-41",)

    async def health(self, *, deep=False):
        health = await super().health(deep=deep)
        for shelf in self.shelves.values():
            shelf.queue.remove([*shelf.queue.waiting][:1])
        return health


class ForgetsTheActive(Clean):
    breaks = ("VS-42",)

    def close(self):
        for shelf in self.shelves.values():
            shelf.space = attrs.evolve(shelf.space, active=False)
        self.save()
        super().close()


class ForgetsLeases(Clean):
    breaks = ("VS-42",)

    def close(self):
        for shelf in self.shelves.values():
            for item in shelf.queue.waiting.values():
                item.leased_until = None
        self.save()
        super().close()


class ForgetsThePosition(Clean):
    breaks = ("VS-42",)

    def close(self):
        for shelf in self.shelves.values():
            shelf.queue.position = ""
        self.save()
        super().close()


class LosesBatches(Clean):
    breaks = ("VS-43",)

    async def upsert(self, space_id, *, records, holder=None):
        chunks = dict(self.shelf(space_id).chunks)
        await asyncio.sleep(0)
        self.shelf(space_id).chunks = chunks
        await super().upsert(space_id, records=records, holder=holder)


class LosesWork(Clean):
    breaks = ("VS-43",)

    async def enqueue(self, space_id, *, revisions, position):
        waiting = dict(self.shelf(space_id).queue.waiting)
        await asyncio.sleep(0)
        self.shelf(space_id).queue.waiting = waiting
        return await super().enqueue(space_id, revisions=revisions, position=position)


class UpsertInSteps(Clean):
    breaks = ("VS-44",)

    async def upsert(self, space_id, *, records, holder=None):
        for index, record in enumerate(records):
            self.checked(self.shelf(space_id), record.vector, index=index)
        for record in records:
            await super().upsert(space_id, records=[record], holder=holder)
            await asyncio.sleep(0)


class BreaksWhenCancelled(Clean):
    breaks = ("VS-44",)
    busy = False

    async def upsert(self, space_id, *, records, holder=None):
        if self.busy:
            raise ScopeError("upsert", "a call", "one at a time")
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        await super().upsert(space_id, records=records, holder=holder)


class SavesOnClosing(Clean):
    breaks = ("VS-45",)

    def save(self):
        pass

    def close(self):
        Clean.save(self)
        super().close()


class QueuesInMemory(Clean):
    breaks = ("VS-45",)

    def save(self):
        queues = [(shelf, shelf.queue) for shelf in self.shelves.values()]
        for shelf, _ in queues:
            shelf.queue = Queue()
        super().save()
        for shelf, queue in queues:
            shelf.queue = queue


class ClaimsInSecret(Clean):
    breaks = ("VS-46",)
    capabilities = frozenset({"teleport"})


class CanMoreThanItClaims(BaseOnly):
    breaks = ("VS-46",)

    async def speakers(self, space_id, terms, *, scope, now):
        return frozenset()
