"""Defects in what a capability brings."""

import pickle

import attrs
from planted_base import Clean

from memspine.errors import CursorError, ScopeError
from memspine.model import ChangePage, PurgedPlace, PurgeReceipt, PutOutcome


class PutRenumbers(Clean):
    breaks = ("MB-100",)

    def _put_memory(self, memory):
        return super()._put_memory(attrs.evolve(memory, revision=1))


class PutForgetsTelemetry(Clean):
    breaks = ("MB-100", "MB-101")

    def _put_memory(self, memory):
        return super()._put_memory(attrs.evolve(memory, access_count=0, last_accessed_at=None))


class PutTakesTelemetry(Clean):
    breaks = ("MB-101",)

    def _put_memory(self, memory):
        outcome = super()._put_memory(memory)
        kept = self.state.shelf(memory.owner).memories.get(memory.id)
        if outcome is PutOutcome.APPLIED and kept is not None:
            fields = {"access_count": memory.access_count, "last_accessed_at": memory.last_accessed_at}
            self.state.shelf(memory.owner).memories[memory.id] = attrs.evolve(kept, **fields)
        return outcome


class PutGoesBack(Clean):
    breaks = ("MB-102",)

    def _put_memory(self, memory):
        old = self.state.shelf(memory.owner).memories.get(memory.id)
        if old is not None and memory.revision < old.revision:
            self.keep(memory, now=memory.updated_at)
            return PutOutcome.APPLIED
        return super()._put_memory(memory)


class PutAppendsAlways(Clean):
    breaks = ("MB-102", "MB-110")

    def _put_memory(self, memory):
        outcome = super()._put_memory(memory)
        if outcome is PutOutcome.APPLIED:
            self.state.feed.append(
                id=memory.id, owner=memory.owner, revision=memory.revision, deleted=False, now=memory.updated_at
            )
        return outcome


class LastPutWins(Clean):
    breaks = ("MB-103",)

    def _put_memory(self, memory):
        outcome = super()._put_memory(memory)
        if outcome is PutOutcome.CONFLICT:
            self.keep(memory, now=memory.updated_at)
            return PutOutcome.APPLIED
        return outcome


class PutIgnoresKeys(Clean):
    breaks = ("MB-103",)

    def _put_memory(self, memory):
        holder = self.state.shelf(memory.owner).holder(memory.key)
        if holder is not None and holder.id != memory.id:
            self.keep(memory, now=memory.updated_at)
            return PutOutcome.APPLIED
        return super()._put_memory(memory)


class PutKeepsExpiredKeys(Clean):
    breaks = ("MB-103",)

    def _put_memory(self, memory):
        holder = self.state.shelf(memory.owner).holder(memory.key)
        if holder is not None and holder.id != memory.id and holder.is_expired(memory.updated_at):
            return PutOutcome.CONFLICT
        return super()._put_memory(memory)


class PutDigsUpTheDead(Clean):
    breaks = ("MB-104",)

    def _put_memory(self, memory):
        self.state.shelf(memory.owner).tombstones.pop(memory.id, None)
        return super()._put_memory(memory)


class TombstonesBuryTheNewer(Clean):
    breaks = ("MB-104",)

    def _put_tombstone(self, tombstone):
        memory = self.state.shelf(tombstone.owner).memories.get(tombstone.id)
        if memory is not None and memory.revision == tombstone.revision:
            self.bury(memory, now=tombstone.deleted_at, revision=tombstone.revision)
            return PutOutcome.APPLIED
        return super()._put_tombstone(tombstone)


class PutStopsHalfway(Clean):
    breaks = ("MB-105",)

    async def put(self, records, *, scope):
        outcomes = ()
        for record in records:
            outcomes += await super().put([record], scope=scope)
        return outcomes


class PutInOrderOfRevisions(Clean):
    breaks = ("MB-105",)

    async def put(self, records, *, scope):
        if any(record.owner != scope.owner for record in records):
            raise ScopeError("put", scope, "own records")
        ordered = sorted(range(len(records)), key=lambda n: -records[n].revision)
        outcomes = await super().put([records[n] for n in ordered], scope=scope)
        return tuple(outcome for _, outcome in sorted(zip(ordered, outcomes, strict=True)))


class PurgeIsNoChange(Clean):
    breaks = ("MB-110",)

    async def purge(self, ids, *, scope, now):
        before = [*self.state.feed.changes]
        receipt = await super().purge(ids, scope=scope, now=now)
        self.state.feed.changes = before
        return receipt


class FeedWithoutReplacements(Clean):
    breaks = ("MB-110",)

    def keep(self, memory, *, now):
        replaced = memory.id in self.state.shelf(memory.owner).memories and memory.key
        kept = super().keep(memory, now=now)
        if replaced:
            self.state.feed.changes.pop()
        return kept


class ExpiryIsAChange(Clean):
    breaks = ("MB-110",)

    def forget(self, memory):
        super().forget(memory)
        self.state.feed.append(
            id=memory.id, owner=memory.owner, revision=memory.revision, deleted=True, now=memory.expires_at
        )


class FeedRepeats(Clean):
    breaks = ("MB-111",)

    async def changes(self, *, scope, limit, cursor=None):
        page = await super().changes(scope=scope, limit=limit, cursor=cursor)
        if cursor is None or not page.changes or page.more:
            return page
        again = [change for change in self.state.feed.changes if change.cursor == cursor]
        return attrs.evolve(page, changes=(*again, *page.changes))


class FeedForgetsItsEnd(Clean):
    breaks = ("MB-111",)

    async def changes(self, *, scope, limit, cursor=None):
        page = await super().changes(scope=scope, limit=limit, cursor=cursor)
        return page if page.changes else ChangePage((), "0", more=False)


class FeedOfEveryone(Clean):
    breaks = ("MB-111", "MB-60")

    async def changes(self, *, scope, limit, cursor=None):
        return await super().changes(scope=type(scope).everyone(), limit=limit, cursor=cursor)


class MoreForEver(Clean):
    breaks = ("MB-111",)

    async def changes(self, *, scope, limit, cursor=None):
        page = await super().changes(scope=scope, limit=limit, cursor=cursor)
        return attrs.evolve(page, more=len(page.changes) == limit)


class TombstonesForEver(Clean):
    breaks = ("MB-112",)

    def keep(self, memory, *, now):
        shelf = self.state.shelf(memory.owner)
        tombstone = shelf.tombstones.get(memory.id)
        kept = super().keep(memory, now=now)
        if tombstone is not None:
            shelf.tombstones[memory.id] = tombstone
        return kept


class TrimsInSilence(Clean):
    breaks = ("MB-113",)

    async def trim_changes(self, *, scope, before, limit):
        dropped = await super().trim_changes(scope=scope, before=before, limit=limit)
        self.state.feed.trimmed.clear()
        return dropped


class AnyFeedCursor(Clean):
    breaks = ("MB-113",)

    async def changes(self, *, scope, limit, cursor=None):
        try:
            return await super().changes(scope=scope, limit=limit, cursor=cursor)
        except CursorError:
            return await super().changes(scope=scope, limit=limit)


class FirstTermOnly(Clean):
    breaks = ("MB-120",)

    async def lexical(self, query, *, scope, filter, now, limit):
        found = await super().lexical(query, scope=scope, filter=filter, now=now, limit=limit)
        kept = tuple(match for match in found.matches if not match.frequencies or match.frequencies[0])
        return attrs.evolve(found, matches=kept, matched=len(kept))


class CountsAWordOnce(Clean):
    breaks = ("MB-120",)

    async def lexical(self, query, *, scope, filter, now, limit):
        found = await super().lexical(query, scope=scope, filter=filter, now=now, limit=limit)
        once = tuple(attrs.evolve(m, frequencies=tuple(min(f, 1) for f in m.frequencies)) for m in found.matches)
        return attrs.evolve(found, matches=once)


class MatchedIsThePage(Clean):
    breaks = ("MB-120",)

    async def lexical(self, query, *, scope, filter, now, limit):
        found = await super().lexical(query, scope=scope, filter=filter, now=now, limit=limit)
        return attrs.evolve(found, matched=len(found.matches))


class StatisticsOfTheFilter(Clean):
    breaks = ("MB-121",)

    async def lexical(self, query, *, scope, filter, now, limit):
        found = await super().lexical(query, scope=scope, filter=filter, now=now, limit=limit)
        documents = len(self._matching(filter, scope=scope, now=now))
        return attrs.evolve(found, statistics=attrs.evolve(found.statistics, documents=documents))


class StatisticsOfTheDead(Clean):
    breaks = ("MB-121", "MB-123")

    async def lexical(self, query, *, scope, filter, now, limit):
        found = await super().lexical(query, scope=scope, filter=filter, now=now, limit=limit)
        shelves = [self.state.shelf(owner) for owner in scope.require_readable("lexical")]
        documents = sum(len(shelf.memories) for shelf in shelves)
        return attrs.evolve(found, statistics=attrs.evolve(found.statistics, documents=documents))


class CutsBeforeItRanks(Clean):
    breaks = ("MB-122",)

    async def lexical(self, query, *, scope, filter, now, limit):
        found = await super().lexical(query, scope=scope, filter=filter, now=now, limit=10_000)
        return attrs.evolve(found, matches=tuple(sorted(found.matches, key=lambda match: match.id)[:limit]))


class TiesAsWritten(Clean):
    breaks = ("MB-122",)

    async def lexical(self, query, *, scope, filter, now, limit):
        found = await super().lexical(query, scope=scope, filter=filter, now=now, limit=10_000)
        first = found.matches[0].frequencies if found.matches else ()
        if all(match.frequencies == first for match in found.matches):
            found = attrs.evolve(found, matches=found.matches[::-1])
        return attrs.evolve(found, matches=found.matches[:limit])


class IndexesOnce(Clean):
    """The index entry of a memory is made when it is created, and never again."""

    breaks = ("MB-123",)

    def _matching(self, filter, *, scope, now):
        found = super()._matching(filter, scope=scope, now=now)
        if scope.kind == "everyone":
            return found
        return tuple(self.first(memory) for memory in found)

    def first(self, memory):
        past = self.state.shelf(memory.owner).past.get(memory.id)
        return attrs.evolve(memory, content=past[0].memory.content) if past else memory


class KeyIsNotIndexed(Clean):
    breaks = ("MB-123", "MB-120")

    async def lexical(self, query, *, scope, filter, now, limit):
        shelves, self.state.shelves = (
            self.state.shelves,
            {
                owner: attrs.evolve(shelf, memories={id: attrs.evolve(m, key="") for id, m in shelf.memories.items()})
                for owner, shelf in self.state.shelves.items()
            },
        )
        try:
            return await super().lexical(query, scope=scope, filter=filter, now=now, limit=limit)
        finally:
            self.state.shelves = shelves


class HistoryFromTheEnd(Clean):
    breaks = ("MB-130",)

    async def history(self, id, *, scope):
        return (await super().history(id, scope=scope))[::-1]


class HistoryWithoutTheCurrent(Clean):
    breaks = ("MB-130",)

    async def history(self, id, *, scope):
        return tuple(state for state in await super().history(id, scope=scope) if state.replaced_at is not None)


class HistoryForgetsDeletions(Clean):
    breaks = ("MB-130",)

    async def history(self, id, *, scope):
        return tuple(attrs.evolve(state, deleted=False) for state in await super().history(id, scope=scope))


class TrimsTooMuch(Clean):
    breaks = ("MB-131",)

    async def trim_history(self, *, scope, before, tombstones_before, limit):
        dropped = await super().trim_history(
            scope=scope, before=before, tombstones_before=tombstones_before, limit=limit
        )
        for shelf in self.state.shelves.values():
            old = [id for id, memory in shelf.memories.items() if memory.updated_at < before]
            for id in old[: limit - dropped]:
                del shelf.memories[id]
        return dropped


class TrimsTombstonesWithStates(Clean):
    breaks = ("MB-131",)

    async def trim_history(self, *, scope, before, tombstones_before, limit):
        return await super().trim_history(scope=scope, before=before, tombstones_before=before, limit=limit)


class HistoryLeaks(Clean):
    breaks = ("MB-132", "MB-60")

    async def history(self, id, *, scope):
        for owner in [scope.require_readable("history")[0], *self.state.shelves]:
            if states := await super().history(id, scope=type(scope).of_owner(owner)):
                return states
        return ()


class PurgeLeavesHistory(Clean):
    breaks = ("MB-140",)

    async def purge(self, ids, *, scope, now):
        past = {owner: {id: [*p] for id, p in s.past.items()} for owner, s in self.state.shelves.items()}
        receipt = await super().purge(ids, scope=scope, now=now)
        for owner, shelf in self.state.shelves.items():
            shelf.past = past.get(owner, {})
        return receipt


class PurgesAllForNone(Clean):
    breaks = ("MB-140",)

    async def purge(self, ids, *, scope, now):
        return await super().purge(ids or None, scope=scope, now=now)


class PurgeTakesNeighbours(Clean):
    breaks = ("MB-140",)

    async def purge(self, ids, *, scope, now):
        for owner, shelf in self.state.shelves.items():
            if owner != scope.owner:
                for id in ids or ():
                    shelf.memories.pop(id, None)
        return await super().purge(ids, scope=scope, now=now)


class PurgeLeavesNoTombstone(Clean):
    breaks = ("MB-141",)

    async def purge(self, ids, *, scope, now):
        receipt = await super().purge(ids, scope=scope, now=now)
        self.state.shelf(scope.owner).tombstones.clear()
        return receipt


class ReceiptHidesTombstones(Clean):
    breaks = ("MB-141",)

    async def purge(self, ids, *, scope, now):
        receipt = await super().purge(ids, scope=scope, now=now)
        return PurgeReceipt(receipt.memories, (PurgedPlace(place="rows", status="erased"),))


class PurgeLeavesBytes(Clean):
    breaks = ("MB-142",)

    def save(self):
        super().save()
        with self.file.with_name("log").open("ab") as log:
            log.write(pickle.dumps(self.state))


class PurgeLeavesWords(Clean):
    breaks = ("MB-142",)

    def keep(self, memory, *, now):
        with self.file.with_name("words").open("a", encoding="utf-16-le") as words:
            words.write(memory.key.casefold())
        return super().keep(memory, now=now)


class BackupOverwrites(Clean):
    breaks = ("MB-160",)

    async def backup(self, target):
        self.require_open()
        target.write_bytes(pickle.dumps(self.state))


class BackupOfHalf(Clean):
    breaks = ("MB-160",)

    async def backup(self, target):
        half = self.state.copy()
        for shelf in half.shelves.values():
            shelf.memories = dict([*shelf.memories.items()][::2])
        with target.open("xb") as file:
            file.write(pickle.dumps(half))
