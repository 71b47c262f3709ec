"""Defects in what the keyword index that a vector store keeps finds and tells."""

import attrs
from planted_store_base import Clean

from memspine.model import KeywordQuery, MemoryFilter, MemoryRef, Scope


def ref_of(match):
    return MemoryRef(match.owner, match.id)


class FirstTermOnly(Clean):
    breaks = ("VS-120",)

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        kept = tuple(match for match in found.matches if not match.frequencies or match.frequencies[0])
        return attrs.evolve(found, matches=kept, matched=len(kept))


class IndexesAWordOnce(Clean):
    breaks = ("VS-120",)

    async def index_terms(self, space_id, *, records, holder=None):
        once = [attrs.evolve(record, terms=dict.fromkeys(record.terms, 1)) for record in records]
        await super().index_terms(space_id, records=once, holder=holder)


class MatchedIsThePage(Clean):
    breaks = ("VS-120",)

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        return attrs.evolve(found, matched=len(found.matches))


class TermsOfAnyType(Clean):
    breaks = ("VS-120",)

    async def lexical(self, space_id, query, *, filter, **question):
        return await super().lexical(space_id, query, filter=attrs.evolve(filter, types=()), **question)


class TermsOfAnyTime(Clean):
    breaks = ("VS-120",)

    async def lexical(self, space_id, query, *, filter, **question):
        ever = attrs.evolve(filter, created_from=None, created_before=None)
        return await super().lexical(space_id, query, filter=ever, **question)


class NothingForOtherFilters(Clean):
    breaks = ("VS-120",)

    async def lexical(self, space_id, query, *, filter, **question):
        found = await super().lexical(space_id, query, filter=filter, **question)
        return found if filter.key is None and filter.text is None else attrs.evolve(found, matches=(), matched=0)


class WordsOfTheSpace(Clean):
    """Counts the words of everybody in the space."""

    breaks = ("VS-121",)

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        statistics = attrs.evolve(found.statistics, documents=len(self.shelf(space_id).terms))
        return attrs.evolve(found, statistics=statistics)


class WordsOfTheSession(Clean):
    breaks = ("VS-121",)

    async def lexical(self, space_id, query, *, scope, now, **question):
        found = await super().lexical(space_id, query, scope=scope, now=now, **question)
        documents = len(self.indexed(space_id, scope, now))
        return attrs.evolve(found, statistics=attrs.evolve(found.statistics, documents=documents))


class CutsBeforeItRanksWords(Clean):
    breaks = ("VS-122",)

    async def lexical(self, space_id, query, *, limit, **question):
        found = await super().lexical(space_id, query, limit=10_000, **question)
        return attrs.evolve(found, matches=tuple(sorted(found.matches, key=lambda match: match.id)[:limit]))


class WordTiesAsWritten(Clean):
    breaks = ("VS-122",)

    async def lexical(self, space_id, query, *, limit, **question):
        found = await super().lexical(space_id, query, limit=10_000, **question)
        first = found.matches[0].frequencies if found.matches else ()
        if all(match.frequencies == first for match in found.matches):
            found = attrs.evolve(found, matches=found.matches[::-1])
        return attrs.evolve(found, matches=found.matches[:limit])


class IndexesOnce(Clean):
    breaks = ("VS-123", "VS-130")

    async def index_terms(self, space_id, *, records, holder=None):
        held = self.shelf(space_id).terms
        await super().index_terms(
            space_id, records=[r for r in records if MemoryRef(r.owner, r.id) not in held], holder=holder
        )


class DeadWordsCount(Clean):
    breaks = ("VS-123", "VS-121")

    async def lexical(self, space_id, query, *, scope, **question):
        found = await super().lexical(space_id, query, scope=scope, **question)
        documents = sum(ref.owner in scope.owners for ref in self.shelf(space_id).terms)
        return attrs.evolve(found, statistics=attrs.evolve(found.statistics, documents=documents))


class OthersHoldTerms(Clean):
    breaks = ("VS-124", "VS-125")

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        return attrs.evolve(found, others=tuple(match for match in found.others if any(match.frequencies)))


class FewOthers(Clean):
    breaks = ("VS-124",)

    async def lexical(self, space_id, query, **question):
        return await super().lexical(space_id, attrs.evolve(query, also=query.also[:32_766]), **question)


class FilteredOthers(Clean):
    breaks = ("VS-124", "VS-125")

    async def lexical(self, space_id, query, *, filter, **question):
        found = await super().lexical(space_id, query, filter=filter, **question)
        others = tuple(
            match for match in found.others if self.shelf(space_id).terms[ref_of(match)].type in filter.types
        )
        return attrs.evolve(found, others=others) if filter.types else found


class RepeatsMatches(Clean):
    breaks = ("VS-124",)

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        again = tuple(match for match in found.matches if ref_of(match) in query.also)
        return attrs.evolve(found, others=(*found.others, *again))


class OthersLiveOn(Clean):
    breaks = ("VS-124",)

    async def lexical(self, space_id, query, *, now, **question):
        found = await super().lexical(space_id, query, now=now, **question)
        shown = {ref_of(match) for match in found.matches}
        earlier = await super().lexical(space_id, query, now=now.replace(year=2000), **question)
        return attrs.evolve(found, others=tuple(match for match in earlier.others if ref_of(match) not in shown))


class NeighboursOfMatches(Clean):
    breaks = ("VS-125",)

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        matched = {ref_of(match) for match in found.matches}
        return attrs.evolve(found, neighbours=tuple(n for n in found.neighbours if n.of in matched))


class LinesByIds(Clean):
    breaks = ("VS-125",)

    def indexed(self, space_id, scope, now):
        return sorted(super().indexed(space_id, scope, now), key=lambda record: record.id)


class ReplacedComesLast(Clean):
    """What is stored again stands behind all others of its moment."""

    breaks = ("VS-125",)

    async def index_terms(self, space_id, *, records, holder=None):
        held = self.shelf(space_id).terms
        moved = {ref: held.pop(ref) for r in records if (ref := MemoryRef(r.owner, r.id)) in held}
        held.update(moved)
        await super().index_terms(space_id, records=records, holder=holder)


class LinesWithoutSession(Clean):
    breaks = ("VS-125",)

    async def lexical(self, space_id, query, *, scope, **question):
        found = await super().lexical(space_id, query, scope=scope, **question)
        shelf = self.shelf(space_id)
        before = shelf.terms
        shelf.terms = {ref: attrs.evolve(r, session=r.session or "none") for ref, r in before.items()}
        named = Scope.of_session(scope.owner, scope.session or "none") if scope.kind == "session" else scope
        near = await super().lexical(space_id, query, scope=named, **question)
        shelf.terms = before
        return attrs.evolve(found, neighbours=near.neighbours, others=near.others)


class NeighboursAreNotTold(Clean):
    breaks = ("VS-125",)

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        return attrs.evolve(found, others=tuple(match for match in found.others if ref_of(match) in query.also))


class AskedForByNameMatches(Clean):
    breaks = ("VS-126",)

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        return attrs.evolve(found, matched=found.matched + sum(any(match.frequencies) for match in found.others))


class AskedForByNameIsNotFiltered(Clean):
    breaks = ("VS-126",)

    async def lexical(self, space_id, query, *, filter, **question):
        filter = MemoryFilter() if query.also else filter
        return await super().lexical(space_id, query, filter=filter, **question)


class OthersByIds(Clean):
    breaks = ("VS-127",)

    async def lexical(self, space_id, query, *, scope, **question):
        owners = scope.require_readable("lexical")
        also = tuple(MemoryRef(owner, ref.id) for ref in query.also for owner in owners)
        return await super().lexical(space_id, attrs.evolve(query, also=also), scope=scope, **question)


class OneMatchAnId(Clean):
    breaks = ("VS-127",)

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        matches = {match.id: match for match in found.matches[::-1]}
        return attrs.evolve(found, matches=tuple(match for match in found.matches if match is matches[match.id]))


class TermsOfTheFirst(Clean):
    """Frequencies are looked up by id alone."""

    breaks = ("VS-127",)

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        every = await super().lexical(space_id, KeywordQuery(query.terms), **{**question, "limit": 1000})
        known = {match.id: match.frequencies for match in every.matches[::-1]}
        others = (attrs.evolve(m, frequencies=known.get(m.id, m.frequencies)) for m in found.others)
        return attrs.evolve(found, others=tuple(others))


class NobodySpoke(Clean):
    breaks = ("VS-128", "VS-129")

    async def index_terms(self, space_id, *, records, holder=None):
        await super().index_terms(
            space_id, records=[attrs.evolve(r, speaker=frozenset()) for r in records], holder=holder
        )


class NobodyAsks(Clean):
    breaks = ("VS-128",)

    async def index_terms(self, space_id, *, records, holder=None):
        await super().index_terms(
            space_id, records=[attrs.evolve(record, asks=False) for record in records], holder=holder
        )


class OthersAreMute(Clean):
    breaks = ("VS-128",)

    async def lexical(self, space_id, query, **question):
        found = await super().lexical(space_id, query, **question)
        return attrs.evolve(found, others=tuple(attrs.evolve(m, speaker=(), asks=False) for m in found.others))


class SpeakersOfTheSession(Clean):
    breaks = ("VS-129",)

    async def speakers(self, space_id, terms, *, scope, now):
        found = await super().speakers(space_id, terms, scope=scope, now=now)
        return frozenset(term for r in self.indexed(space_id, scope, now) for term in found & r.speaker)


class SpeakersLiveOn(Clean):
    breaks = ("VS-129",)

    async def speakers(self, space_id, terms, *, scope, now):
        return await super().speakers(space_id, terms, scope=scope, now=now.replace(year=2000))


class SpeakersOfEverybody(Clean):
    breaks = ("VS-129",)

    async def speakers(self, space_id, terms, *, scope, now):
        found = await super().speakers(space_id, terms, scope=scope, now=now)
        return found | {term for r in self.shelf(space_id).terms.values() for term in r.speaker & {*terms}}


class EveryHeldWord(Clean):
    breaks = ("VS-129",)

    async def speakers(self, space_id, terms, *, scope, now):
        found = await super().speakers(space_id, terms, scope=scope, now=now)
        return found | {term for r in self.indexed(space_id, scope, now) for term in r.terms.keys() & {*terms}}
