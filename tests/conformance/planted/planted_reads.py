"""Defects in reading, searching, walls, telemetry and life."""

import asyncio
import fnmatch
import itertools
from datetime import UTC, datetime

import attrs
from planted_base import Clean

from memspine.conformance.reference.shelf import State, handed_out
from memspine.contracts import Capability
from memspine.errors import BackendError, CursorError
from memspine.model import GLOBAL_OWNER, Counts, MemoryPage, NewMemory, Scope, ScoredMemory

EARLY = datetime(2020, 1, 1, tzinfo=UTC)


class ShowsTheExpired(Clean):
    breaks = ("MB-20",)

    async def get(self, id, *, scope, now):
        memory = self.state.shelf(scope.require_readable("get")[0]).memories.get(id)
        return memory if memory is not None and scope.session is None else await super().get(id, scope=scope, now=now)


class ReadsStaleRows(Clean):
    breaks = ("MB-30", "MB-11")

    async def get(self, id, *, scope, now):
        past = self.state.shelf(scope.require_readable("get")[0]).past.get(id)
        memory = await super().get(id, scope=scope, now=now)
        return past[-1].memory if past and memory is not None else memory


class SortsTheQuestion(Clean):
    breaks = ("MB-21",)

    async def get_many(self, ids, *, scope, now):
        return await super().get_many(sorted(ids), scope=scope, now=now)


class TakesFewIds(Clean):
    breaks = ("MB-21",)

    async def get_many(self, ids, *, scope, now):
        if len(ids) > 32_766:
            raise BackendError(self.name, "too many SQL variables")
        return await super().get_many(ids, scope=scope, now=now)


class UnstableTies(Clean):
    breaks = ("MB-40",)

    async def list(self, filter, *, scope, now, limit, cursor=None, newest_first=False):
        page = await super().list(filter, scope=scope, now=now, limit=limit, cursor=cursor, newest_first=newest_first)
        return MemoryPage(
            tuple(sorted(page.memories, key=lambda m: (m.created_at, m.content, m.id[::-1]))), page.cursor
        )


class TiesStayInReverse(Clean):
    breaks = ("MB-40",)

    async def list(self, filter, *, scope, now, limit, cursor=None, newest_first=False):
        page = await super().list(filter, scope=scope, now=now, limit=limit, cursor=cursor, newest_first=newest_first)
        memories = page.memories
        if newest_first:
            memories = sorted(sorted(memories, key=lambda m: m.id), key=lambda m: m.created_at, reverse=True)
        return MemoryPage(tuple(memories), page.cursor)


class ZeroIsEverything(Clean):
    breaks = ("MB-40",)

    async def list(self, filter, *, scope, now, limit, cursor=None, newest_first=False):
        limit = limit or 1000
        return await super().list(filter, scope=scope, now=now, limit=limit, cursor=cursor, newest_first=newest_first)


class CursorIsAnOffset(Clean):
    breaks = ("MB-41",)

    async def list(self, filter, *, scope, now, limit, cursor=None, newest_first=False):
        page = await super().list(filter, scope=scope, now=now, limit=10_000, newest_first=newest_first)
        start = int(cursor.split("-")[1]) if cursor else 0
        rest = page.memories[start:]
        return MemoryPage(rest[:limit], f"offset-{start + limit}" if len(rest) > limit else None)


class CursorSkipsTies(Clean):
    breaks = ("MB-41",)

    async def list(self, filter, *, scope, now, limit, cursor=None, newest_first=False):
        page = await super().list(filter, scope=scope, now=now, limit=10_000, newest_first=newest_first)
        rest = [m for m in page.memories if cursor is None or m.id > cursor or newest_first]
        return MemoryPage(tuple(rest[:limit]), rest[limit - 1].id if len(rest) > limit else None)


class LastPageHasACursor(Clean):
    breaks = ("MB-41",)

    async def list(self, filter, *, scope, now, limit, cursor=None, newest_first=False):
        options = {"scope": scope, "now": now, "newest_first": newest_first}
        page = await super().list(filter, limit=limit, cursor=cursor, **options)
        if page.cursor or not page.memories:
            return page
        ahead = self.state.copy()
        extra = attrs.evolve(page.memories[-1], id="~~~")
        self.state.shelf(extra.owner).memories["~~~"] = extra
        longer = await super().list(filter, limit=len(page.memories), cursor=cursor, **options)
        self.state = ahead
        return MemoryPage(page.memories, longer.cursor)


class AnyCursorIsTheStart(Clean):
    breaks = ("MB-42",)

    async def list(self, filter, *, scope, now, limit, cursor=None, newest_first=False):
        options = {"scope": scope, "now": now, "limit": limit, "newest_first": newest_first}
        try:
            return await super().list(filter, cursor=cursor, **options)
        except CursorError:
            return await super().list(filter, **options)


class EmptyCursorIsNone(Clean):
    breaks = ("MB-42",)

    async def list(self, filter, *, scope, now, limit, cursor=None, newest_first=False):
        cursor = cursor or None
        return await super().list(filter, scope=scope, now=now, limit=limit, cursor=cursor, newest_first=newest_first)


class Filters(Clean):
    """Has its own idea of a filter."""

    def fits(self, memory, filter):
        raise NotImplementedError

    def _matching(self, filter, *, scope, now):
        return tuple(memory for memory in self.state.visible(scope, now) if self.fits(memory, filter))


class TextIsAPattern(Filters):
    breaks = ("MB-43",)

    def fits(self, memory, filter):
        if filter.text is None:
            return filter.holds_for(memory)
        pattern = f"*{filter.text.casefold().replace('%', '*').replace('_', '?')}*"
        found = fnmatch.fnmatchcase(memory.content.casefold(), pattern)
        return found and attrs.evolve(filter, text=None).holds_for(memory)


class TextHasACase(Filters):
    breaks = ("MB-43",)

    def fits(self, memory, filter):
        found = filter.text is None or filter.text.lower() in f"{memory.content}\n{memory.key}".lower()
        return found and attrs.evolve(filter, text=None).holds_for(memory)


class EmptyKeyIsNoFilter(Filters):
    breaks = ("MB-43",)

    def fits(self, memory, filter):
        return attrs.evolve(filter, key=filter.key or None).holds_for(memory)


class BeforeIsInclusive(Filters):
    breaks = ("MB-43",)

    def fits(self, memory, filter):
        edge = filter.created_before is not None and memory.created_at == filter.created_before
        return (attrs.evolve(filter, created_before=None) if edge else filter).holds_for(memory)


class CategoryIsText(Filters):
    breaks = ("MB-43",)

    def fits(self, memory, filter):
        same = filter.category is None or str(memory.metadata.get("category")) == filter.category
        return same and attrs.evolve(filter, category=None).holds_for(memory)


class IgnoresUpdatedBefore(Filters):
    breaks = ("MB-43",)

    def fits(self, memory, filter):
        return attrs.evolve(filter, updated_before=None).holds_for(memory)


class CountsWithoutSessions(Clean):
    breaks = ("MB-44",)

    async def count(self, filter, *, scope, now, by=None):
        whole = Scope.of_owner(scope.owner) if scope.kind == "session" else scope
        return await super().count(filter, scope=whole, now=now, by=by)


class CountsEmptyGroups(Clean):
    breaks = ("MB-44",)

    async def count(self, filter, *, scope, now, by=None):
        counts = await super().count(filter, scope=scope, now=now, by=by)
        return Counts(counts.total, {"semantic": 0, **counts.groups}) if by == "type" else counts


class EveryoneReads(Clean):
    breaks = ("MB-45",)

    async def get_many(self, ids, *, scope, now):
        found = {}
        for id in ids:
            memory = self.find(id, scope=scope, now=now)
            if memory is not None:
                found[id] = handed_out(memory)
        return found


class EveryoneIsNobody(Clean):
    breaks = ("MB-45",)

    async def count(self, filter, *, scope, now, by=None):
        return Counts(0) if scope.kind == "everyone" else await super().count(filter, scope=scope, now=now, by=by)


class AnswersByAge(Clean):
    breaks = ("MB-50",)

    async def search(self, query, *, scope, now):
        hits = await super().search(query, scope=scope, now=now)
        return tuple(sorted(hits, key=lambda hit: (hit.memory.created_at, hit.memory.id[::-1])))


class SearchTiesAreAsWritten(Clean):
    breaks = ("MB-50",)

    async def search(self, query, *, scope, now):
        hits = await super().search(attrs.evolve(query, limit=1000), scope=scope, now=now)
        places = {id: place for place, id in enumerate(self.state.shelf(scope.owner).memories)}
        return tuple(sorted(hits, key=lambda hit: (-hit.score, places[hit.memory.id])))[: query.limit]


class LimitIsAHint(Clean):
    breaks = ("MB-50",)

    async def search(self, query, *, scope, now):
        return await super().search(attrs.evolve(query, limit=query.limit + 1), scope=scope, now=now)


class NoiseComesFirst(Clean):
    breaks = ("MB-51",)

    async def search(self, query, *, scope, now):
        hits = await super().search(query, scope=scope, now=now)
        found = {hit.memory.id for hit in hits}
        noise = [m for m in self._matching(query.filter, scope=scope, now=now) if m.id not in found]
        return (*(ScoredMemory(memory, 99.0) for memory in noise[:1]), *hits)[: query.limit]


class FindsAsciiOnly(Clean):
    breaks = ("MB-51",)

    async def search(self, query, *, scope, now):
        text = query.text.encode("ascii", "ignore").decode()
        return await super().search(attrs.evolve(query, text=text), scope=scope, now=now)


class QuotesAreSyntax(Clean):
    breaks = ("MB-52",)

    async def search(self, query, *, scope, now):
        if query.text.count('"') % 2:
            raise BackendError(self.name, "unterminated string")
        return await super().search(query, scope=scope, now=now)


class StarsAreSyntax(Clean):
    breaks = ("MB-52",)

    async def search(self, query, *, scope, now):
        if query.text.endswith("*"):
            words = {word for m in self.state.visible(scope, now) for word in m.content.split()}
            text = " ".join(fnmatch.filter(words, query.text))
            query = attrs.evolve(query, text=text)
        return await super().search(query, scope=scope, now=now)


class LeaksForeign(Clean):
    breaks = ("MB-60", "MB-20")

    async def get(self, id, *, scope, now):
        found = [s.memories[id] for s in self.state.shelves.values() if id in s.memories]
        memory = await super().get(id, scope=scope, now=now)
        return memory or (found[0] if found and scope.kind == "owner" and not found[0].is_expired(now) else None)


class PrefixState(State):
    def owners(self, scope):
        if scope.owners is None:
            return super().owners(scope)
        return tuple(o for o in [scope.owner, *self.shelves] if o.startswith(scope.owners))


class OwnersByPrefix(Clean):
    breaks = ("MB-61", "MB-64")

    def __init__(self, context):
        super().__init__(context)
        self.state = PrefixState(self.state.shelves, self.state.feed)


class PatternState(State):
    def owners(self, scope):
        if scope.owners is None:
            return super().owners(scope)
        pattern = scope.owner.replace("%", "*").replace("_", "?")
        return tuple(dict.fromkeys([*scope.owners, *fnmatch.filter(self.shelves, pattern)]))


class OwnersAsPatterns(Clean):
    breaks = ("MB-61",)

    def __init__(self, context):
        super().__init__(context)
        self.state = PatternState(self.state.shelves, self.state.feed)


class FoldingState(State):
    def visible(self, scope, now):
        session = scope.session
        for owner in self.owners(scope):
            for memory in self.shelf(owner).memories.values():
                same = session is None or memory.session.strip().casefold() == session.strip().casefold()
                if same and not memory.is_expired(now):
                    yield memory


class FoldsSessions(Clean):
    breaks = ("MB-61",)

    def __init__(self, context):
        super().__init__(context)
        self.state = FoldingState(self.state.shelves, self.state.feed)


class GlobalFirstState(State):
    def owners(self, scope):
        return tuple(sorted(super().owners(scope), key=lambda owner: owner != GLOBAL_OWNER))


class GlobalComesFirst(Clean):
    breaks = ("MB-62",)

    def __init__(self, context):
        super().__init__(context)
        self.state = GlobalFirstState(self.state.shelves, self.state.feed)


class SharedIsOwnOnly(Clean):
    breaks = ("MB-62",)

    async def search(self, query, *, scope, now):
        return await super().search(query, scope=Scope.of_owner(scope.owner or "nobody"), now=now)


class StoreWideStatistics(Clean):
    breaks = ("MB-64", "MB-121")

    async def lexical(self, query, *, scope, filter, now, limit):
        found = await super().lexical(query, scope=scope, filter=filter, now=now, limit=limit)
        documents = sum(1 for _ in self.state.visible(Scope.everyone(), now))
        return attrs.evolve(found, statistics=attrs.evolve(found.statistics, documents=documents))


class AccessIsAChange(Clean):
    breaks = ("MB-70", "MB-110")

    async def record_access(self, counts, *, scope, now):
        await super().record_access(counts, scope=scope, now=now)
        for id in counts:
            memory = self.find(id, scope=scope, now=now)
            if memory is not None:
                self.keep(attrs.evolve(memory, revision=memory.revision + 1), now=now)


class AccessMovesBack(Clean):
    breaks = ("MB-70",)

    async def record_access(self, counts, *, scope, now):
        await super().record_access(counts, scope=scope, now=now)
        for id in counts:
            memory = self.find(id, scope=scope, now=now)
            if memory is not None:
                shelf = self.state.shelf(memory.owner)
                shelf.memories[id] = attrs.evolve(memory, last_accessed_at=now)


class AccessStopsAtTheUnknown(Clean):
    breaks = ("MB-70",)

    async def record_access(self, counts, *, scope, now):
        known = itertools.takewhile(lambda name: self.find(name, scope=scope, now=now) is not None, counts)
        await super().record_access({id: counts[id] for id in known}, scope=scope, now=now)


class ExpiryLeavesTombstones(Clean):
    breaks = ("MB-71",)

    def forget(self, memory):
        self.bury(memory, now=memory.expires_at)


class ExpiryHasNoLimit(Clean):
    breaks = ("MB-71",)

    async def expire(self, *, scope, now, limit):
        return await super().expire(scope=scope, now=now, limit=1000)


class ExpiryKeepsHistory(Clean):
    breaks = ("MB-71",)

    def forget(self, memory):
        del self.state.shelf(memory.owner).memories[memory.id]


class ExpiryHidesOnly(Clean):
    breaks = ("MB-71",)

    def forget(self, memory):
        pass


class HealthWrites(Clean):
    breaks = ("MB-72",)

    async def health(self, *, deep=False):
        health = await super().health(deep=deep)
        await self.create(NewMemory(content="probe"), scope=Scope.of_owner("probe"), id="probe", now=EARLY)
        return health


class NeverWell(Clean):
    breaks = ("MB-72",)

    async def health(self, *, deep=False):
        return attrs.evolve(await super().health(deep=deep), ok=not deep)


class ClosesLate(Clean):
    breaks = ("MB-80",)

    def close(self):
        pass


class OpensEarly(Clean):
    breaks = ("MB-80",)

    @staticmethod
    def on_construction(context):
        (context.data_folder / "state.lock").touch()


class SavesOnClosing(Clean):
    breaks = ("MB-81",)

    def save(self):
        self.late = True

    def close(self):
        Clean.save(self)
        super().close()


class ForgetsOnClosing(Clean):
    breaks = ("MB-81",)

    def close(self):
        for shelf in self.state.shelves.values():
            shelf.memories = {id: attrs.evolve(m, access_count=0) for id, m in shelf.memories.items()}
        Clean.save(self)
        super().close()


class ClaimsInSecret(Clean):
    breaks = ("MB-83",)
    capabilities = Clean.capabilities | {"teleport"}


class CanMoreThanItClaims(Clean):
    breaks = ("MB-83",)
    capabilities = Clean.capabilities - {Capability.PURGE}


class BreaksWhenCancelled(Clean):
    breaks = ("MB-84",)

    async def update(self, id, changes, *, scope, now, expected_revision=None):
        options = {"scope": scope, "now": now, "expected_revision": expected_revision}
        first = type(changes)(content=changes.content)
        changed = await super().update(id, first, **options)
        await asyncio.sleep(0)
        if changes.named().keys() - {"content"}:
            memory = attrs.evolve(changed, metadata=changes.metadata)
            self.state.shelf(memory.owner).memories[id] = memory
            return memory
        return changed


class NativeLeaks(Clean):
    breaks = ("MB-150", "MB-60")

    async def search(self, query, *, scope, now):
        hits = await super().search(query, scope=scope, now=now)
        for owner in [o for o in self.state.shelves if o not in scope.require_readable("search")]:
            hits += await super().search(query, scope=Scope.of_owner(owner), now=now)
        return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.memory.id)))[: query.limit]
