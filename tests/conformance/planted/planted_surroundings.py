"""Defects in what capability lexical tells beside its matches."""

import attrs
from planted_base import Clean

from memspine.model import KeywordQuery, MemoryFilter, MemoryRef, Scope
from memspine.text import speaker_terms


def ref_of(match):
    return MemoryRef(match.owner, match.id)


class OthersAreMatchesOnly(Clean):
    breaks = ("MB-124", "MB-125")

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        return attrs.evolve(found, others=tuple(match for match in found.others if any(match.frequencies)))


class OthersPassTheFilter(Clean):
    breaks = ("MB-124", "MB-125")

    async def lexical(self, query, *, scope, filter, now, limit):
        found = await super().lexical(query, scope=scope, filter=filter, now=now, limit=limit)
        fitting = {(m.owner, m.id) for m in self._matching(filter, scope=scope, now=now)}
        return attrs.evolve(found, others=tuple(match for match in found.others if ref_of(match) in fitting))


class OthersOfFew(Clean):
    breaks = ("MB-124",)

    async def lexical(self, query, **question):
        return await super().lexical(attrs.evolve(query, also=query.also[:32_766]), **question)


class OthersWithoutFrequencies(Clean):
    breaks = ("MB-124",)

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        blank = (0,) * len(query.terms)
        return attrs.evolve(found, others=tuple(attrs.evolve(match, frequencies=blank) for match in found.others))


class OthersRepeatMatches(Clean):
    breaks = ("MB-124",)

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        again = tuple(match for match in found.matches if ref_of(match) in query.also)
        return attrs.evolve(found, others=(*found.others, *again))


class OthersRepeatThemselves(Clean):
    breaks = ("MB-124",)

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        asked = {ref_of(match): match for match in found.others}
        others = [asked.pop(ref, None) or match for ref in query.also for match in found.others if ref_of(match) == ref]
        return attrs.evolve(found, others=(*others, *asked.values()))


class OthersOutlive(Clean):
    breaks = ("MB-124",)

    async def lexical(self, query, *, now, **question):
        found = await super().lexical(query, now=now, **question)
        shown = {ref_of(match) for match in found.matches}
        earlier = await super().lexical(query, now=now.replace(year=2000), **question)
        return attrs.evolve(found, others=tuple(match for match in earlier.others if ref_of(match) not in shown))


class OthersOfAnybody(Clean):
    breaks = ("MB-124", "MB-60")

    async def lexical(self, query, *, scope, **question):
        found = await super().lexical(query, scope=scope, **question)
        others = found.others
        for owner in sorted({ref.owner for ref in query.also} - {*scope.require_readable("lexical")}):
            foreign = await super().lexical(query, scope=Scope.of_owner(owner), **{**question, "limit": 0})
            others += foreign.others
        return attrs.evolve(found, others=others)


class OthersOfTheOwner(Clean):
    """Takes a session for its owner."""

    breaks = ("MB-124",)

    async def lexical(self, query, *, scope, **question):
        found = await super().lexical(query, scope=scope, **question)
        if scope.kind != "session":
            return found
        shown = {ref_of(match) for match in found.matches}
        whole = await super().lexical(query, scope=Scope.of_owner(scope.owner), **{**question, "limit": 0})
        return attrs.evolve(found, others=tuple(match for match in whole.others if ref_of(match) not in shown))


class NothingWithoutTerms(Clean):
    breaks = ("MB-124",)

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        return found if query.terms else attrs.evolve(found, others=(), neighbours=())


class NeighboursOfMatchesOnly(Clean):
    breaks = ("MB-125",)

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        matched = {ref_of(match) for match in found.matches}
        return attrs.evolve(found, neighbours=tuple(n for n in found.neighbours if n.of in matched))


class NeighboursOfTheFilter(Clean):
    breaks = ("MB-125",)

    async def lexical(self, query, *, scope, filter, now, limit):
        found = await super().lexical(query, scope=scope, filter=filter, now=now, limit=limit)
        fitting = {(m.owner, m.id) for m in self._matching(filter, scope=scope, now=now)}
        kept = tuple(n for n in found.neighbours if (n.of.owner, n.id) in fitting)
        return attrs.evolve(found, neighbours=kept)


class NeighboursAreNotTold(Clean):
    breaks = ("MB-125",)

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        return attrs.evolve(found, others=tuple(match for match in found.others if ref_of(match) in query.also))


class NeighboursAcrossSessions(Clean):
    breaks = ("MB-125",)

    async def lexical(self, query, *, scope, **question):
        state, self.state = self.state, self.state.copy()
        for shelf in self.state.shelves.values():
            shelf.memories = {id: attrs.evolve(memory, session="one") for id, memory in shelf.memories.items()}
        whole = Scope.of_session(scope.owner, "one") if scope.kind == "session" else scope
        crossing = await super().lexical(query, scope=whole, **question)
        self.state = state
        found = await super().lexical(query, scope=scope, **question)
        return attrs.evolve(found, neighbours=crossing.neighbours)


class NeighboursWithoutSession(Clean):
    breaks = ("MB-125",)

    async def lexical(self, query, *, scope, **question):
        state, self.state = self.state, self.state.copy()
        for shelf in self.state.shelves.values():
            for id, memory in shelf.memories.items():
                shelf.memories[id] = attrs.evolve(memory, session=memory.session or "none")
        named = Scope.of_session(scope.owner, scope.session or "none") if scope.kind == "session" else scope
        found = await super().lexical(query, scope=named, **question)
        self.state = state
        plain = await super().lexical(query, scope=scope, **question)
        return attrs.evolve(found, matches=plain.matches)


class MomentsByIds(Clean):
    breaks = ("MB-125",)

    async def lexical(self, query, **question):
        for shelf in self.state.shelves.values():
            shelf.memories = dict(sorted(shelf.memories.items()))
        return await super().lexical(query, **question)


class NeighboursOutlive(Clean):
    breaks = ("MB-125",)

    async def lexical(self, query, *, now, **question):
        found = await super().lexical(query, now=now, **question)
        earlier = await super().lexical(query, now=now.replace(year=2000), **question)
        return attrs.evolve(found, neighbours=earlier.neighbours)


class NeighboursOnBothSides(Clean):
    breaks = ("MB-125",)

    async def lexical(self, query, **question):
        wide = max(query.before, query.after)
        return await super().lexical(attrs.evolve(query, before=wide, after=wide), **question)


class AskedForMatches(Clean):
    breaks = ("MB-126",)

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        return attrs.evolve(found, matched=found.matched + sum(any(m.frequencies) for m in found.others))


class AskedForPassesTheFilter(Clean):
    """What is asked for by name is found whatever the filter."""

    breaks = ("MB-126",)

    async def lexical(self, query, *, filter, **question):
        filter = MemoryFilter() if query.also else filter
        return await super().lexical(query, filter=filter, **question)


class StatisticsOfWhatWasAsked(Clean):
    breaks = ("MB-126",)

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        documents = found.statistics.documents + len(query.also)
        return attrs.evolve(found, statistics=attrs.evolve(found.statistics, documents=documents))


class OthersByIds(Clean):
    breaks = ("MB-127",)

    async def lexical(self, query, *, scope, **question):
        owners = scope.require_readable("lexical")
        also = tuple(MemoryRef(owner, ref.id) for ref in query.also for owner in owners)
        return await super().lexical(attrs.evolve(query, also=also), scope=scope, **question)


class OneMatchAnId(Clean):
    breaks = ("MB-127",)

    async def lexical(self, query, *, scope, **question):
        found = await super().lexical(query, scope=scope, **question)
        matches = {match.id: match for match in found.matches[::-1]}
        return attrs.evolve(found, matches=tuple(match for match in found.matches if match is matches[match.id]))


class OwnNeighboursFirst(Clean):
    """The neighbours of an id are those of the caller's memory, whoever's was meant."""

    breaks = ("MB-127",)

    async def lexical(self, query, *, scope, **question):
        found = await super().lexical(query, scope=scope, **question)
        own = {
            neighbour.of.id: neighbour.of.owner for neighbour in found.neighbours if neighbour.of.owner == scope.owner
        }
        kept = tuple(n for n in found.neighbours if own.get(n.of.id, n.of.owner) == n.of.owner)
        return attrs.evolve(found, neighbours=kept)


class WordsOfTheFirst(Clean):
    """Frequencies are looked up by id alone."""

    breaks = ("MB-127",)

    async def lexical(self, query, *, scope, **question):
        found = await super().lexical(query, scope=scope, **question)
        every = await super().lexical(KeywordQuery(query.terms), scope=scope, **{**question, "limit": 1000})
        known = {match.id: match.frequencies for match in every.matches[::-1]}
        others = (attrs.evolve(m, frequencies=known.get(m.id, m.frequencies)) for m in found.others)
        return attrs.evolve(found, others=tuple(others))


class Told(Clean):
    """Changes what is told of memories."""

    def change(self, match, query):
        raise NotImplementedError

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        matches, others = (tuple(self.change(m, query) for m in some) for some in (found.matches, found.others))
        return attrs.evolve(found, matches=matches, others=others)


class SpeakersAreNotTold(Told):
    breaks = ("MB-128",)

    def change(self, match, query):
        return attrs.evolve(match, speaker=())


class SpeakersOfTheText(Told):
    """Takes every word of the question that a memory holds for a part of the speaker's name."""

    breaks = ("MB-128",)

    def change(self, match, query):
        return attrs.evolve(match, speaker=tuple(place for place, count in enumerate(match.frequencies) if count))


class NobodyAsks(Told):
    breaks = ("MB-128",)

    def change(self, match, query):
        return attrs.evolve(match, asks=False)


class AnyQuestionMarkAsks(Told):
    breaks = ("MB-128",)

    def change(self, match, query):
        content = self.state.shelf(match.owner).memories[match.id].content
        return attrs.evolve(match, asks=match.asks or "?" in content)


class SpeaksOnce(Told):
    """Who spoke is noted when a memory is created, and never again."""

    breaks = ("MB-128",)

    def change(self, match, query):
        past = self.state.shelf(match.owner).past.get(match.id)
        named = speaker_terms(past[0].memory.metadata) if past else None
        places = tuple(place for place, term in enumerate(query.terms) if named is not None and term in named)
        return attrs.evolve(match, speaker=match.speaker if named is None else places)


class OthersSpeakNot(Clean):
    breaks = ("MB-128",)

    async def lexical(self, query, **question):
        found = await super().lexical(query, **question)
        return attrs.evolve(found, others=tuple(attrs.evolve(m, speaker=(), asks=False) for m in found.others))


class SpeakersOfTheSession(Clean):
    breaks = ("MB-129",)

    async def speakers(self, terms, *, scope, now):
        found = await super().speakers(terms, scope=scope, now=now)
        named = {term for memory in self.state.visible(scope, now) for term in speaker_terms(memory.metadata)}
        return found & named


class SpeakersOutlive(Clean):
    breaks = ("MB-129",)

    async def speakers(self, terms, *, scope, now):
        return await super().speakers(terms, scope=scope, now=now.replace(year=2000))


class SpeakersOfThePast(Clean):
    breaks = ("MB-129",)

    async def speakers(self, terms, *, scope, now):
        found = await super().speakers(terms, scope=scope, now=now)
        past = [
            state.memory
            for owner in scope.owners
            for states in self.state.shelf(owner).past.values()
            for state in states
        ]
        return found | {term for memory in past for term in speaker_terms(memory.metadata) & {*terms}}


class SpeakersOfEverybody(Clean):
    breaks = ("MB-129", "MB-60")

    async def speakers(self, terms, *, scope, now):
        found = await super().speakers(terms, scope=scope, now=now)
        for owner in [*self.state.shelves]:
            found |= await super().speakers(terms, scope=Scope.of_owner(owner), now=now)
        return found


class EverySpokenWord(Clean):
    breaks = ("MB-129",)

    async def speakers(self, terms, *, scope, now):
        found = await super().speakers(terms, scope=scope, now=now)
        return found | {term for term in terms for m in self.state.visible(scope, now) if term in m.content}
