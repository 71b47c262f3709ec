"""Vector stores with one defect each."""

import asyncio
import os
import pickle

import attrs

from memspine.conformance.reference.vectors import ReferenceVectorStore
from memspine.errors import InvalidMemoryError
from memspine.model import MemoryFilter, Scope


class Clean(ReferenceVectorStore):
    """No defect; what it holds outlives it in a file."""

    breaks = ()

    def __init__(self, context):
        super().__init__(context.name)
        self.file = context.data_folder / "vectors.pickle"
        if self.file.exists():
            self.shelves = pickle.loads(self.file.read_bytes())  # noqa: S301 - our own file

    def close(self):
        fresh = self.file.with_name("fresh")
        fresh.write_bytes(pickle.dumps(self.shelves))
        os.replace(fresh, self.file)  # noqa: PTH105 - at once or not at all
        super().close()


class BelievesItIsActive(Clean):
    breaks = ("VS-1",)

    async def open_space(self, space):
        made = space.id not in self.shelves
        found = await super().open_space(space)
        if made:
            self.shelves[space.id].space = found = attrs.evolve(found, active=space.active)
        return found


class LastSpaceWins(Clean):
    breaks = ("VS-1",)

    async def open_space(self, space):
        found = await super().open_space(space)
        self.shelves[space.id].space = attrs.evolve(space, active=found.active)
        return self.shelves[space.id].space


class SpacesByName(Clean):
    breaks = ("VS-2",)

    async def spaces(self):
        return tuple(sorted(await super().spaces(), key=lambda space: space.id))


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


class UnknownIsEmpty(Clean):
    breaks = ("VS-5",)

    async def count(self, space_id, *, scope, now):
        return await super().count(space_id, scope=scope, now=now) if space_id in self.shelves else 0


class ChunksStay(Clean):
    breaks = ("VS-10",)

    async def upsert(self, space_id, *, records):
        before = {place: dict(chunks) for place, chunks in self.shelf(space_id).chunks.items()}
        await super().upsert(space_id, records=records)
        for place, chunks in before.items():
            self.shelf(space_id).chunks[place] = {**chunks, **self.shelf(space_id).chunks[place]}


class LateComersWin(Clean):
    breaks = ("VS-10",)

    async def upsert(self, space_id, *, records):
        for record in records:
            self.shelf(space_id).chunks.pop((record.owner, record.id), None)
        await super().upsert(space_id, records=records)


class OneCallOneMemory(Clean):
    breaks = ("VS-10",)

    async def upsert(self, space_id, *, records):
        for record in records:
            chunks = self.shelf(space_id).chunks.get((record.owner, record.id), {})
            if all(chunk.revision <= record.revision for chunk in chunks.values()):
                self.shelf(space_id).chunks.pop((record.owner, record.id), None)
        await super().upsert(space_id, records=records)


class TakesNaN(Clean):
    breaks = ("VS-11",)

    def checked(self, shelf, vector, *, index):
        try:
            return super().checked(shelf, vector, index=index)
        except InvalidMemoryError:
            if len(vector) == 4 * shelf.space.identity.dimension and any(memoryview(vector)):
                return [0.5] * shelf.space.identity.dimension
            raise


class StoresBeforeItChecks(Clean):
    breaks = ("VS-11",)

    async def upsert(self, space_id, *, records):
        for record in records:
            await super().upsert(space_id, records=[record])


class DeletesInTheActive(Clean):
    breaks = ("VS-12",)

    async def delete(self, ids, *, scope):
        others = list(self.shelves.values())[1:]
        before = [dict(shelf.chunks) for shelf in others]
        await super().delete(ids, scope=scope)
        for shelf, chunks in zip(others, before, strict=True):
            shelf.chunks = chunks


class DeletesForeign(Clean):
    breaks = ("VS-12",)

    async def delete(self, ids, *, scope):
        await super().delete(ids, scope=scope)
        for shelf in self.shelves.values():
            shelf.chunks = {place: chunks for place, chunks in shelf.chunks.items() if place[1] not in ids}


class OneTableForAll(Clean):
    breaks = ("VS-13",)

    async def upsert(self, space_id, *, records):
        self.shelf(space_id)
        for id in self.shelves:
            await super().upsert(id, records=records)


class Distances(Clean):
    breaks = ("VS-20",)

    async def search(self, space_id, *, vector, scope, filter, now, limit):
        options = {"vector": vector, "scope": scope, "filter": filter, "now": now}
        hits = await super().search(space_id, limit=10_000, **options)
        hits = [attrs.evolve(hit, score=1 - hit.score) for hit in hits]
        return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id)))[:limit]


class TiesAsWritten(Clean):
    breaks = ("VS-20",)

    async def search(self, space_id, *, vector, scope, filter, now, limit):
        options = {"vector": vector, "scope": scope, "filter": filter, "now": now}
        hits = await super().search(space_id, limit=10_000, **options)
        places = {place[1]: n for n, place in enumerate(self.shelf(space_id).chunks)}
        return tuple(sorted(hits, key=lambda hit: (-hit.score, places[hit.id])))[:limit]


class FirstChunkOnly(Clean):
    breaks = ("VS-21",)

    async def upsert(self, space_id, *, records):
        await super().upsert(space_id, records=[record for record in records if record.chunk == 0])


class HitsWithoutSession(Clean):
    breaks = ("VS-21",)

    async def search(self, space_id, *, vector, scope, filter, now, limit):
        options = {"vector": vector, "scope": scope, "filter": filter, "now": now}
        return tuple(attrs.evolve(h, session="") for h in await super().search(space_id, limit=limit, **options))


class WallsAfterTheSearch(Clean):
    breaks = ("VS-22",)

    async def search(self, space_id, *, vector, scope, filter, now, limit):
        scope.require_readable("search")
        options = {"vector": vector, "filter": filter, "now": now}
        whole = Scope("owner", scope.owner)
        hits = []
        for owner in {place[0] for place in self.shelf(space_id).chunks}:
            hits += await super().search(space_id, scope=attrs.evolve(whole, owner=owner), limit=10_000, **options)
        hits.sort(key=lambda hit: (-hit.score, hit.id))
        near = hits[: limit * 10]
        return tuple(hit for hit in near if hit.owner in scope.owners and scope.session in (None, hit.session))[:limit]


class EveryoneSearches(Clean):
    breaks = ("VS-22",)

    async def delete(self, ids, *, scope):
        if scope.kind != "everyone":
            await super().delete(ids, scope=scope)


class FiltersAfterTheSearch(Clean):
    breaks = ("VS-23",)

    async def search(self, space_id, *, vector, scope, filter, now, limit):
        options = {"vector": vector, "scope": scope, "now": now}
        near = await super().search(space_id, filter=MemoryFilter(), limit=limit, **options)
        fitting = await super().search(space_id, filter=filter, limit=10_000, **options)
        return tuple(hit for hit in near if hit in fitting)


class FindsTheExpired(Clean):
    breaks = ("VS-23",)

    async def upsert(self, space_id, *, records):
        await super().upsert(space_id, records=[attrs.evolve(r, expires_at=None) for r in records])


class RefusesOtherFilters(Clean):
    breaks = ("VS-23",)

    async def search(self, space_id, *, vector, scope, filter, now, limit):
        found = await super().search(space_id, vector=vector, scope=scope, filter=filter, now=now, limit=limit)
        return found if filter.key is None else ()


class ScoresByTheCrowd(Clean):
    breaks = ("VS-24",)

    async def search(self, space_id, *, vector, scope, filter, now, limit):
        hits = await super().search(space_id, vector=vector, scope=scope, filter=filter, now=now, limit=limit)
        crowd = len(self.shelf(space_id).chunks)
        return tuple(attrs.evolve(hit, score=hit.score * (1 - 1e-9 * crowd)) for hit in hits)


class MissingIsAbsence(Clean):
    breaks = ("VS-30",)

    def revision(self, shelf, place):
        return 1_000_000 if place in shelf.chunks else 0


class MissingInOrderOfIds(Clean):
    breaks = ("VS-30",)

    async def missing(self, space_id, *, revisions, scope):
        return tuple(sorted(await super().missing(space_id, revisions=revisions, scope=scope)))


class CountsChunks(Clean):
    breaks = ("VS-31",)

    async def count(self, space_id, *, scope, now):
        extra = sum(len(chunks) - 1 for chunks in self.shelf(space_id).chunks.values())
        return extra + await super().count(space_id, scope=scope, now=now)


class LeasesForEver(Clean):
    breaks = ("VS-32",)

    async def claim(self, space_id, *, ids, holder, now, lease_seconds):
        return await super().claim(space_id, ids=ids, holder=holder, now=now, lease_seconds=1e9)


class LeasesNothing(Clean):
    breaks = ("VS-32", "VS-33")

    async def claim(self, space_id, *, ids, holder, now, lease_seconds):
        self.shelf(space_id)
        return tuple(ids)


class ClaimRaces(Clean):
    breaks = ("VS-33",)

    async def claim(self, space_id, *, ids, holder, now, lease_seconds):
        free = await super().claim(space_id, ids=ids, holder=holder, now=now, lease_seconds=-1)
        await asyncio.sleep(0)
        return free


class NeighboursOfEveryone(Clean):
    breaks = ("VS-34",)

    async def neighbours(self, ids, *, scope, now, before, after):
        owners = {place[0] for shelf in self.shelves.values() for place in shelf.chunks}
        found = ()
        for owner in [scope.require_readable("neighbours")[0], *sorted(owners - {scope.owner})]:
            found += await super().neighbours(ids, scope=Scope.of_owner(owner), now=now, before=before, after=after)
        return found


class NeighboursByIds(Clean):
    breaks = ("VS-34",)

    def _lines(self, scope, now):
        return [sorted(line) for line in super()._lines(scope, now)]


class NeighboursWithItself(Clean):
    breaks = ("VS-34",)

    async def neighbours(self, ids, *, scope, now, before, after):
        found = await super().neighbours(ids, scope=scope, now=now, before=before, after=after)
        itself = [attrs.evolve(found[0], id=found[0].of, offset=0)] if found else []
        return (*itself, *found)


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


class ForgetsTheActive(Clean):
    breaks = ("VS-42",)

    def close(self):
        for shelf in self.shelves.values():
            shelf.space = attrs.evolve(shelf.space, active=False)
        super().close()


class LosesBatches(Clean):
    breaks = ("VS-43",)

    async def upsert(self, space_id, *, records):
        chunks = dict(self.shelf(space_id).chunks)
        await asyncio.sleep(0)
        self.shelf(space_id).chunks = chunks
        await super().upsert(space_id, records=records)
