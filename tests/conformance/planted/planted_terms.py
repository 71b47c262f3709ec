"""Defects in how a vector store stores, settles and removes the terms of memories."""

import asyncio
import itertools

import attrs
from planted_store_base import Clean

from memspine.conformance.reference.vectors import Shelf
from memspine.model import MemoryRef, Scope


class LateTermsWin(Clean):
    breaks = ("VS-130",)

    async def index_terms(self, space_id, *, records, holder=None):
        for record in records:
            self.shelf(space_id).terms.pop(MemoryRef(record.owner, record.id), None)
        await super().index_terms(space_id, records=records, holder=holder)


class TermsAddUp(Clean):
    breaks = ("VS-130",)

    async def index_terms(self, space_id, *, records, holder=None):
        held = self.shelf(space_id).terms
        old = {ref: held[ref].terms for r in records if (ref := MemoryRef(r.owner, r.id)) in held}
        more = [attrs.evolve(r, terms={**old.get(MemoryRef(r.owner, r.id), {}), **r.terms}) for r in records]
        await super().index_terms(space_id, records=more, holder=holder)


class LastOfACallWins(Clean):
    breaks = ("VS-130",)

    async def index_terms(self, space_id, *, records, holder=None):
        last = {(record.owner, record.id): record for record in records}
        await super().index_terms(space_id, records=[*last.values()], holder=holder)


class WithoutTermsIsNothing(Clean):
    breaks = ("VS-130",)

    async def index_terms(self, space_id, *, records, holder=None):
        await super().index_terms(space_id, records=[record for record in records if record.terms], holder=holder)


class IndexesInSteps(Clean):
    breaks = ("VS-130",)

    async def index_terms(self, space_id, *, records, holder=None):
        self.shelf(space_id)
        for record in records:
            await super().index_terms(space_id, records=[record], holder=holder)
            await asyncio.sleep(0)


class LosesTerms(Clean):
    breaks = ("VS-130",)

    async def index_terms(self, space_id, *, records, holder=None):
        terms = dict(self.shelf(space_id).terms)
        await asyncio.sleep(0)
        self.shelf(space_id).terms = terms
        await super().index_terms(space_id, records=records, holder=holder)


class IndexingSettlesNothing(Clean):
    breaks = ("VS-131",)

    async def index_terms(self, space_id, *, records, holder=None):
        queue = self.shelf(space_id).queue
        waiting = dict(queue.waiting)
        await super().index_terms(space_id, records=records, holder=holder)
        queue.waiting = waiting


class IndexingSettlesTheNewer(Clean):
    breaks = ("VS-131",)

    async def index_terms(self, space_id, *, records, holder=None):
        await super().index_terms(space_id, records=records, holder=holder)
        self.shelf(space_id).queue.remove([MemoryRef(record.owner, record.id) for record in records])


class QueuesWhatIsIndexed(Clean):
    breaks = ("VS-131",)

    async def enqueue(self, space_id, *, revisions, position):
        shelf = self.shelf(space_id)
        terms, shelf.terms = shelf.terms, {}
        try:
            return await super().enqueue(space_id, revisions=revisions, position=position)
        finally:
            shelf.terms = terms


class CountsVectorsOnly(Clean):
    breaks = ("VS-131",)

    async def count(self, space_id, *, scope, now):
        shelf = self.shelf(space_id)
        terms, shelf.terms = shelf.terms, {}
        try:
            return await super().count(space_id, scope=scope, now=now)
        finally:
            shelf.terms = terms


class TermsStay(Clean):
    """Removes vectors and queued memories, and forgets the terms."""

    async def removing(self, call):
        before = [dict(shelf.terms) for shelf in self.shelves.values()]
        result = await call
        for shelf, terms in zip(self.shelves.values(), before, strict=True):
            shelf.terms = terms
        return result


class DeletedTermsStay(TermsStay):
    breaks = ("VS-132",)

    async def delete(self, refs):
        await self.removing(super().delete(refs))


class PurgedTermsStay(TermsStay):
    breaks = ("VS-132",)

    async def purge(self, ids, *, scope):
        return await self.removing(super().purge(ids, scope=scope))


class ExpiredTermsStay(TermsStay):
    breaks = ("VS-132",)

    async def expire(self, *, now, limit):
        return await self.removing(super().expire(now=now, limit=limit))


class DeletesForeignTerms(Clean):
    breaks = ("VS-132",)

    async def delete(self, refs):
        ids = {ref.id for ref in refs}
        await super().delete([ref for shelf in self.shelves.values() for ref in shelf.terms if ref.id in ids])
        await super().delete(refs)


class PurgesTheOwner(Clean):
    """Takes a session for its owner."""

    breaks = ("VS-132", "VS-16")

    async def purge(self, ids, *, scope):
        whole = Scope.of_owner(scope.owner) if scope.kind == "session" else scope
        return await super().purge(ids, scope=whole)


class DropLeavesTerms(Clean):
    breaks = ("VS-132",)

    async def drop_space(self, space_id):
        terms = self.shelf(space_id).terms
        await super().drop_space(space_id)
        self.left = {**getattr(self, "left", {}), space_id: terms}

    async def open_space(self, space):
        found = await super().open_space(space)
        self.shelves[space.id].terms.update(getattr(self, "left", {}).get(space.id, {}))
        return found


class OneIndexForAll(Clean):
    breaks = ("VS-133",)

    async def index_terms(self, space_id, *, records, holder=None):
        self.shelf(space_id)
        for id in self.shelves:
            await super().index_terms(id, records=records, holder=holder)


class SpeakersOfAllSpaces(Clean):
    breaks = ("VS-133",)

    async def speakers(self, space_id, terms, *, scope, now):
        found = await super().speakers(space_id, terms, scope=scope, now=now)
        every = [
            await super(SpeakersOfAllSpaces, self).speakers(id, terms, scope=scope, now=now) for id in self.shelves
        ]
        return found.union(*every)


class ForgetsTerms(Clean):
    breaks = ("VS-134",)

    def close(self):
        for shelf in self.shelves.values():
            shelf.terms = {}
        self.save()
        super().close()


class UnknownHoldsNoTerms(Clean):
    breaks = ("VS-135",)

    async def lexical(self, space_id, query, **question):
        self.require_open()
        self.shelves.setdefault(space_id, self.shelves.get(space_id) or Shelf(next(iter(self.shelves.values())).space))
        return await super().lexical(space_id, query, **question)


class NothingToIndexIsFine(Clean):
    breaks = ("VS-135",)

    async def index_terms(self, space_id, *, records, holder=None):
        if records:
            await super().index_terms(space_id, records=records, holder=holder)


class EveryoneSpeaks(Clean):
    breaks = ("VS-135",)

    async def speakers(self, space_id, terms, *, scope, now):
        if scope.kind != "everyone":
            return await super().speakers(space_id, terms, scope=scope, now=now)
        records = self.shelf(space_id).terms.values()
        return frozenset(itertools.chain.from_iterable(record.speaker for record in records)) & {*terms}


class TermsAreLogged(Clean):
    breaks = ("VS-136",)

    async def index_terms(self, space_id, *, records, holder=None):
        await super().index_terms(space_id, records=records, holder=holder)
        with self.file.with_name("log").open("a", encoding="utf-8") as log:
            log.writelines(f"{' '.join(record.terms)}\n" for record in records)


class NamesAreLogged(Clean):
    breaks = ("VS-136",)

    async def index_terms(self, space_id, *, records, holder=None):
        await super().index_terms(space_id, records=records, holder=holder)
        with self.file.with_name("names").open("a", encoding="utf-8") as names:
            names.writelines(f"{' '.join(record.speaker)}\n" for record in records)
