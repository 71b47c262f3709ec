"""Defects in the queue of a space."""

import asyncio
from datetime import timedelta

import attrs
from planted_store_base import Clean

from memspine.contracts import Backlog
from memspine.model import MemoryRef


class QueuesEverything(Clean):
    breaks = ("VS-50",)

    async def enqueue(self, space_id, *, revisions, position):
        shelf = self.shelf(space_id)
        shelf.queue.position = position
        return shelf.queue.add(revisions)


class HeldIsHeld(Clean):
    """Takes no notice of the revision that is held."""

    breaks = ("VS-50",)

    async def enqueue(self, space_id, *, revisions, position):
        new = {ref: revision for ref, revision in revisions.items() if ref not in self.shelf(space_id).chunks}
        return await super().enqueue(space_id, revisions=new, position=position)


class CountsWhatWasQueued(Clean):
    breaks = ("VS-50", "VS-52")

    async def enqueue(self, space_id, *, revisions, position):
        await super().enqueue(space_id, revisions=revisions, position=position)
        return sum(ref in self.shelf(space_id).queue.waiting for ref in revisions)


class HeldByAnybody(Clean):
    breaks = ("VS-50", "VS-14")

    async def enqueue(self, space_id, *, revisions, position):
        shelf = self.shelf(space_id)
        held = dict(sorted((ref.id, shelf.revision(ref)) for ref in shelf.chunks))  # the highest of each id
        new = {ref: revision for ref, revision in revisions.items() if held.get(ref.id, 0) < revision}
        return await super().enqueue(space_id, revisions=new, position=position)


class TakesFewMemories(Clean):
    breaks = ("VS-50",)

    async def enqueue(self, space_id, *, revisions, position):
        few = dict([*revisions.items()][:32_766])
        return await super().enqueue(space_id, revisions=few, position=position)


class PositionInAStepOfItsOwn(Clean):
    breaks = ("VS-51",)

    async def enqueue(self, space_id, *, revisions, position):
        before = self.shelf(space_id).queue.position
        count = await super().enqueue(space_id, revisions=revisions, position=before)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await super().enqueue(space_id, revisions={}, position=position)
        return count


class PositionOnlyWithWork(Clean):
    breaks = ("VS-51",)

    async def enqueue(self, space_id, *, revisions, position):
        kept = self.shelf(space_id).queue.position
        count = await super().enqueue(space_id, revisions=revisions, position=position)
        if not count:
            self.shelf(space_id).queue.position = kept
        return count


class KeepsTheOldRevision(Clean):
    breaks = ("VS-52",)

    async def enqueue(self, space_id, *, revisions, position):
        waiting = self.shelf(space_id).queue.waiting
        new = {ref: revision for ref, revision in revisions.items() if ref not in waiting}
        return await super().enqueue(space_id, revisions=new, position=position)


class LastRevisionWins(Clean):
    breaks = ("VS-52",)

    async def enqueue(self, space_id, *, revisions, position):
        count = await super().enqueue(space_id, revisions=revisions, position=position)
        for ref, revision in revisions.items():
            if ref in self.shelf(space_id).queue.waiting:
                self.shelf(space_id).queue.waiting[ref].revision = revision
        return count


class RaisingQueuesAnew(Clean):
    breaks = ("VS-52",)

    async def enqueue(self, space_id, *, revisions, position):
        waiting = self.shelf(space_id).queue.waiting
        count = await super().enqueue(space_id, revisions=revisions, position=position)
        for ref in revisions.keys() & waiting.keys():
            waiting[ref] = waiting.pop(ref)
        return count


class RaisingEndsLeases(Clean):
    breaks = ("VS-52",)

    async def enqueue(self, space_id, *, revisions, position):
        waiting = self.shelf(space_id).queue.waiting
        before = {ref: item.revision for ref, item in waiting.items()}
        count = await super().enqueue(space_id, revisions=revisions, position=position)
        for ref, revision in before.items():
            if waiting[ref].revision > revision:
                waiting[ref].leased_until = None
        return count


class RaisingForgivesNothing(Clean):
    """What is raised waits as long as the text before it."""

    breaks = ("VS-52",)

    async def enqueue(self, space_id, *, revisions, position):
        queue = self.shelf(space_id).queue
        before = {ref: (item.failures, item.due) for ref, item in queue.waiting.items()}
        reasons = dict(queue.reasons)
        count = await super().enqueue(space_id, revisions=revisions, position=position)
        for ref, (failures, due) in before.items():
            queue.waiting[ref].failures, queue.waiting[ref].due = failures, due
        queue.reasons = reasons
        return count


class RaisedIsDueLate(Clean):
    breaks = ("VS-52",)

    async def enqueue(self, space_id, *, revisions, position):
        queue = self.shelf(space_id).queue
        before = {ref: item.due for ref, item in queue.waiting.items()}
        count = await super().enqueue(space_id, revisions=revisions, position=position)
        for ref, due in before.items():
            queue.waiting[ref].due = due
        return count


class LastComeFirst(Clean):
    breaks = ("VS-53",)

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        queue = self.shelf(space_id).queue
        queue.waiting = dict([*queue.waiting.items()][::-1])
        try:
            return await super().claim(space_id, holder=holder, now=now, lease_seconds=lease_seconds, limit=limit)
        finally:
            queue.waiting = dict([*queue.waiting.items()][::-1])


class ClaimsByName(Clean):
    breaks = ("VS-53",)

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        queue = self.shelf(space_id).queue
        queue.waiting = dict(sorted(queue.waiting.items()))
        return await super().claim(space_id, holder=holder, now=now, lease_seconds=lease_seconds, limit=limit)


class ClaimHasNoLimit(Clean):
    breaks = ("VS-53",)

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        return await super().claim(space_id, holder=holder, now=now, lease_seconds=lease_seconds, limit=1000)


class FailedGoToTheEnd(Clean):
    breaks = ("VS-53",)

    async def postpone(self, space_id, *, refs, holder, until, reason):
        await super().postpone(space_id, refs=refs, holder=holder, until=until, reason=reason)
        waiting = self.shelf(space_id).queue.waiting
        for ref in refs:
            if ref in waiting:
                waiting[ref] = waiting.pop(ref)


class LeasesForEver(Clean):
    breaks = ("VS-54",)

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        return await super().claim(space_id, holder=holder, now=now, lease_seconds=1e9, limit=limit)


class LeasesAMomentLonger(Clean):
    breaks = ("VS-54",)

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        longer = lease_seconds + 0.001
        return await super().claim(space_id, holder=holder, now=now, lease_seconds=longer, limit=limit)


class RenewsItsOwn(Clean):
    breaks = ("VS-54",)

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        for item in self.shelf(space_id).queue.waiting.values():
            if item.holder == holder:
                item.leased_until = None
        return await super().claim(space_id, holder=holder, now=now, lease_seconds=lease_seconds, limit=limit)


class LeasesNothing(Clean):
    breaks = ("VS-54", "VS-55")

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        return await super().claim(space_id, holder=holder, now=now, lease_seconds=-1, limit=limit)


class ClaimRaces(Clean):
    breaks = ("VS-55",)

    async def claim(self, space_id, *, holder, now, lease_seconds, limit):
        work = await super().claim(space_id, holder=holder, now=now, lease_seconds=-1, limit=limit)
        await asyncio.sleep(0)
        for item in work:
            waiting = self.shelf(space_id).queue.waiting[item.ref]
            waiting.holder, waiting.leased_until = holder, now + timedelta(seconds=lease_seconds)
        return work


class FailedIsDueAtOnce(Clean):
    breaks = ("VS-56",)

    async def postpone(self, space_id, *, refs, holder, until, reason):
        until -= timedelta(days=1)
        await super().postpone(space_id, refs=refs, holder=holder, until=until, reason=reason)


class FailsOnce(Clean):
    breaks = ("VS-56",)

    async def postpone(self, space_id, *, refs, holder, until, reason):
        await super().postpone(space_id, refs=refs, holder=holder, until=until, reason=reason)
        for item in self.shelf(space_id).queue.waiting.values():
            item.failures = min(item.failures, 1)


class PostponesForOthers(Clean):
    breaks = ("VS-56",)

    async def postpone(self, space_id, *, refs, holder, until, reason):
        for ref in refs:
            known = self.shelf(space_id).queue.waiting.get(ref)
            await super().postpone(
                space_id, refs=[ref], holder=known.holder if known else holder, until=until, reason=reason
            )


class PostponesTheFree(Clean):
    breaks = ("VS-56",)

    async def postpone(self, space_id, *, refs, holder, until, reason):
        for ref in refs:
            known = self.shelf(space_id).queue.waiting.get(ref)
            if known is not None and known.leased_until is None:
                known.holder, known.leased_until = holder, until
        await super().postpone(space_id, refs=refs, holder=holder, until=until, reason=reason)


class PostponesByIds(Clean):
    breaks = ("VS-14",)

    async def postpone(self, space_id, *, refs, holder, until, reason):
        ids = {ref.id for ref in refs}
        same = [ref for ref in self.shelf(space_id).queue.waiting if ref.id in ids]
        await super().postpone(space_id, refs=same, holder=holder, until=until, reason=reason)


class SettlesByIds(Clean):
    breaks = ("VS-14",)

    async def upsert(self, space_id, *, records, holder=None):
        await super().upsert(space_id, records=records, holder=holder)
        queue = self.shelf(space_id).queue
        done = {record.id: record.revision for record in records}
        queue.settle({MemoryRef(ref.owner, ref.id): done.get(ref.id, 0) for ref in queue.waiting})


class Backlogs(Clean):
    """Changes what is told of the backlog."""

    def change(self, backlog, queue, now):
        raise NotImplementedError

    async def backlog(self, space_id, *, now):
        found = await super().backlog(space_id, now=now)
        return self.change(found, self.shelf(space_id).queue, now)


class WaitingIsFree(Backlogs):
    breaks = ("VS-57",)

    def change(self, backlog, queue, now):
        return attrs.evolve(backlog, waiting=backlog.waiting - backlog.leased - backlog.postponed)


class LeasesNeverEnd(Backlogs):
    breaks = ("VS-57",)

    def change(self, backlog, queue, now):
        leased = sum(item.leased_until is not None for item in queue.waiting.values())
        return attrs.evolve(backlog, leased=leased)


class FailedIsPostponed(Backlogs):
    breaks = ("VS-57",)

    def change(self, backlog, queue, now):
        return attrs.evolve(backlog, postponed=sum(item.failures > 0 for item in queue.waiting.values()))


class NextIsTheLast(Backlogs):
    breaks = ("VS-57",)

    def change(self, backlog, queue, now):
        due = [item.due for item in queue.waiting.values() if item.is_postponed(now)]
        return attrs.evolve(backlog, next_at=max(due, default=None))


class FirstReason(Backlogs):
    breaks = ("VS-57",)

    def change(self, backlog, queue, now):
        return attrs.evolve(backlog, reason=next(iter(queue.reasons.values()), "") if backlog.postponed else "")


class ReasonOfTheDone(Clean):
    breaks = ("VS-57",)
    last = ""

    async def postpone(self, space_id, *, refs, holder, until, reason):
        await super().postpone(space_id, refs=refs, holder=holder, until=until, reason=reason)
        self.last = reason

    async def backlog(self, space_id, *, now):
        found = await super().backlog(space_id, now=now)
        return attrs.evolve(found, reason=self.last if found.waiting else "")


class UnknownHasNoBacklog(Clean):
    breaks = ("VS-5",)

    async def backlog(self, space_id, *, now):
        return await super().backlog(space_id, now=now) if space_id in self.shelves else Backlog()
