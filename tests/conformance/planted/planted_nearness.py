"""Defects in what a vector store finds, counts and names."""

import attrs
from planted_store_base import Clean

from memspine.conformance.reference.nearness import cosine, numbers_of
from memspine.contracts import VectorMatches
from memspine.model import MemoryFilter, MemoryRef, Scope

ALL = 10_000


def ranked(hits, limit):
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit])


def ref_of(hit):
    return MemoryRef(hit.owner, hit.id)


class Distances(Clean):
    breaks = ("VS-20",)

    async def search(self, space_id, *, limit, **question):
        answer = await super().search(space_id, limit=ALL, **question)
        return attrs.evolve(answer, hits=ranked([attrs.evolve(h, score=1 - h.score) for h in answer.hits], limit))


class TiesAsWritten(Clean):
    breaks = ("VS-20",)

    async def search(self, space_id, *, limit, **question):
        answer = await super().search(space_id, limit=ALL, **question)
        places = {ref: place for place, ref in enumerate(self.shelf(space_id).chunks)}
        hits = sorted(answer.hits, key=lambda hit: (-hit.score, places[ref_of(hit)]))
        return attrs.evolve(answer, hits=tuple(hits[:limit]))


class FirstChunkOnly(Clean):
    breaks = ("VS-21",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=[record for record in records if record.chunk == 0], holder=holder)


class HitsOfTheFirstRevision(Clean):
    breaks = ("VS-21",)

    async def search(self, space_id, **question):
        answer = await super().search(space_id, **question)
        return attrs.evolve(answer, hits=tuple(attrs.evolve(hit, revision=1) for hit in answer.hits))


class Preselects(Clean):
    """Looks for the nearest in a wider circle first, and keeps what belongs to the answer."""

    def widened(self, scope, filter, now):
        raise NotImplementedError

    def applies(self, space):
        return True

    async def search(self, space_id, *, scope, filter, now, limit, also=(), **question):
        options = {"limit": limit, "also": also, **question}
        answer = await super().search(space_id, scope=scope, filter=filter, now=now, **options)
        if not self.applies(self.shelf(space_id).space):
            return answer
        wider, wider_filter, earlier = self.widened(scope, filter, now)
        owners = {ref.owner for ref in self.shelf(space_id).chunks} if wider is None else {None}
        hits = []
        for owner in owners:
            inside = wider if owner is None else Scope.of_owner(owner)
            found = await super().search(
                space_id, scope=inside, filter=wider_filter, now=earlier, **{**options, "limit": ALL, "also": ()}
            )
            hits += found.hits
        near = {ref_of(hit) for hit in ranked(hits, limit * 10)}
        return attrs.evolve(answer, hits=tuple(hit for hit in answer.hits if ref_of(hit) in near))


class WallsAfterTheSearch(Preselects):
    breaks = ("VS-22", "VS-29")

    def widened(self, scope, filter, now):
        return None, filter, now


class SessionsAfterTheSearch(Preselects):
    breaks = ("VS-22", "VS-29")

    def widened(self, scope, filter, now):
        return Scope.of_owner(scope.owner) if scope.kind == "session" else scope, filter, now


class FiltersAfterTheSearch(Preselects):
    breaks = ("VS-23", "VS-29")

    def widened(self, scope, filter, now):
        return scope, MemoryFilter(), now


class ExpiryAfterTheSearch(Preselects):
    breaks = ("VS-23", "VS-29")

    def widened(self, scope, filter, now):
        return scope, filter, now.replace(year=2000)


class BitsOfEverybody(Preselects):
    """Only the quantised spaces look at everybody's vectors first."""

    breaks = ("VS-29",)

    def applies(self, space):
        return space.quantisation == "binary"

    def widened(self, scope, filter, now):
        return None, filter, now


class EveryoneSearches(Clean):
    breaks = ("VS-22",)

    async def search(self, space_id, *, scope, **question):
        if scope.kind == "everyone":
            return VectorMatches(hits=())
        return await super().search(space_id, scope=scope, **question)


class SharedIsOwnOnly(Clean):
    breaks = ("VS-22", "VS-14")

    async def search(self, space_id, *, scope, **question):
        own = Scope.of_owner(scope.owner) if scope.kind == "shared" else scope
        return await super().search(space_id, scope=own, **question)


class FindsTheExpired(Clean):
    breaks = ("VS-23",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(
            space_id, records=[attrs.evolve(record, expires_at=None) for record in records], holder=holder
        )


class RefusesOtherFilters(Clean):
    breaks = ("VS-23",)

    async def search(self, space_id, *, filter, **question):
        answer = await super().search(space_id, filter=filter, **question)
        return answer if filter.key is None else VectorMatches(hits=())


class ScoresByTheCrowd(Clean):
    breaks = ("VS-24",)

    async def search(self, space_id, **question):
        answer = await super().search(space_id, **question)
        share = 1 - 1e-9 * len(self.shelf(space_id).chunks)
        return attrs.evolve(answer, hits=tuple(attrs.evolve(hit, score=hit.score * share) for hit in answer.hits))


class ComparesTheCrowd(Clean):
    breaks = ("VS-24", "VS-26")

    async def search(self, space_id, **question):
        answer = await super().search(space_id, **question)
        return attrs.evolve(answer, compared=len(self.shelf(space_id).chunks))


class Others(Clean):
    """Has its own idea of what was asked for."""

    def asked(self, space_id, also, scope, now):
        raise NotImplementedError

    async def search(self, space_id, *, also=(), scope, now, **question):
        also = self.asked(space_id, also, scope, now)
        return await super().search(space_id, also=also, scope=scope, now=now, **question)


class TellsNobody(Others):
    breaks = ("VS-25", "VS-14")

    def asked(self, space_id, also, scope, now):
        return ()


class TellsOfFew(Others):
    breaks = ("VS-25",)

    def asked(self, space_id, also, scope, now):
        return also[:32_766]


class TellsInOrderOfNames(Others):
    breaks = ("VS-25",)

    def asked(self, space_id, also, scope, now):
        return sorted(also)


class TellsByIds(Others):
    breaks = ("VS-14",)

    def asked(self, space_id, also, scope, now):
        return [ref for one in also for ref in self.shelf(space_id).chunks if ref.id == one.id]


class TellsTheBestAgain(Clean):
    breaks = ("VS-25",)

    async def search(self, space_id, *, limit, also=(), **question):
        answer = await super().search(space_id, limit=limit, also=also, **question)
        alone = await super().search(space_id, limit=0, also=also, **question)
        return attrs.evolve(answer, others=alone.others)


class FiltersWhatWasAskedFor(Clean):
    breaks = ("VS-25",)

    async def search(self, space_id, *, limit, **question):
        answer = await super().search(space_id, limit=limit, **question)
        fitting = {ref_of(hit) for hit in (await super().search(space_id, limit=ALL, **question)).hits}
        return attrs.evolve(answer, others=tuple(hit for hit in answer.others if ref_of(hit) in fitting))


class TellsTheExpired(Clean):
    breaks = ("VS-25",)

    async def search(self, space_id, *, now, limit, **question):
        answer = await super().search(space_id, now=now, limit=limit, **question)
        shown = {ref_of(hit) for hit in answer.hits}
        earlier = await super().search(space_id, now=now.replace(year=2000), limit=0, **question)
        return attrs.evolve(answer, others=tuple(hit for hit in earlier.others if ref_of(hit) not in shown))


class TellsForeign(Clean):
    breaks = ("VS-25",)

    async def search(self, space_id, *, scope, limit, **question):
        answer = await super().search(space_id, scope=scope, limit=limit, **question)
        others = answer.others
        for owner in sorted({ref.owner for ref in question.get("also", ())} - {*scope.require_readable("search")}):
            others += (await super().search(space_id, scope=Scope.of_owner(owner), limit=0, **question)).others
        return attrs.evolve(answer, others=others)


class AskedForIsCompared(Clean):
    breaks = ("VS-25", "VS-26")

    async def search(self, space_id, **question):
        answer = await super().search(space_id, **question)
        return attrs.evolve(answer, compared=answer.compared + len(question.get("also", ())))


class ComparedIsThePage(Clean):
    breaks = ("VS-26",)

    async def search(self, space_id, **question):
        answer = await super().search(space_id, **question)
        return attrs.evolve(answer, compared=len(answer.hits))


class ComparesWithoutTheFilter(Clean):
    breaks = ("VS-26",)

    async def search(self, space_id, *, filter, **question):
        answer = await super().search(space_id, filter=filter, **question)
        every = await super().search(space_id, filter=MemoryFilter(), **question)
        return attrs.evolve(answer, compared=every.compared)


class ComparesChunks(Clean):
    breaks = ("VS-26",)

    async def search(self, space_id, **question):
        answer = await super().search(space_id, **question)
        extra = sum(len(chunks) - 1 for chunks in self.shelf(space_id).chunks.values())
        return attrs.evolve(answer, compared=answer.compared + (extra if answer.compared else 0))


class Rough(Clean):
    """Scores of a quantised space that are as exact as a few bits allow."""

    quantisation = ""

    async def search(self, space_id, *, limit, **question):
        answer = await super().search(space_id, limit=limit, **question)
        if self.shelf(space_id).space.quantisation != self.quantisation:
            return answer
        hits, others = (
            tuple(attrs.evolve(hit, score=round(hit.score * 8) / 8) for hit in some)
            for some in (answer.hits, answer.others)
        )
        return attrs.evolve(answer, hits=hits, others=others)


class RoughBytes(Rough):
    breaks = ("VS-27",)
    quantisation = "int8"


class RoughBits(Rough):
    breaks = ("VS-28",)
    quantisation = "binary"


class NearestByBits(Clean):
    """Looks among the nearest by their signs alone, and scores these exactly."""

    breaks = ("VS-28",)

    async def search(self, space_id, *, limit, vector, **question):
        answer = await super().search(space_id, limit=ALL, vector=vector, **question)
        if self.shelf(space_id).space.quantisation == "binary":
            bits = signs(vector)
            chunks = self.shelf(space_id).chunks
            apart = {ref_of(h): differences(bits, signs(chunks[ref_of(h)][h.chunk].vector)) for h in answer.hits}
            near = sorted(answer.hits, key=lambda hit: (apart[ref_of(hit)], hit.id))[:limit]
            return attrs.evolve(answer, hits=ranked(near, limit))
        return await super().search(space_id, limit=limit, vector=vector, **question)


class NearestChunks(Clean):
    """Looks among the nearest chunks, of which one memory may have all."""

    breaks = ("VS-28",)

    async def search(self, space_id, *, limit, vector, **question):
        answer = await super().search(space_id, limit=ALL, vector=vector, **question)
        if self.shelf(space_id).space.quantisation != "binary":
            return await super().search(space_id, limit=limit, vector=vector, **question)
        chunks = self.shelf(space_id).chunks
        asked = numbers_of(vector)
        apart = [
            (cosine(asked, numbers_of(chunk.vector)), ref_of(hit))
            for hit in answer.hits
            for chunk in chunks[ref_of(hit)].values()
        ]
        near = {ref for _, ref in sorted(apart, reverse=True)[:400]}
        return attrs.evolve(answer, hits=tuple(hit for hit in answer.hits if ref_of(hit) in near)[:limit])


def signs(vector):
    return [number > 0 for number in numbers_of(vector)]


def differences(left, right):
    return sum(a != b for a, b in zip(left, right, strict=True))


class CountsChunks(Clean):
    breaks = ("VS-31",)

    async def count(self, space_id, *, scope, now):
        extra = sum(len(chunks) - 1 for chunks in self.shelf(space_id).chunks.values())
        return extra + await super().count(space_id, scope=scope, now=now)
