"""What a space of the reference vector store still has to hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import attrs

from memspine.contracts import Backlog, Work
from memspine.model import MemoryRef


@attrs.define
class Waiting:
    """A queued memory: the revision that is wanted, who works on it until when, and when it is due after it failed."""

    revision: int
    failures: int = 0
    due: datetime | None = None
    holder: str = ""
    leased_until: datetime | None = None

    def is_leased(self, now: datetime) -> bool:
        """Whether somebody works on it."""
        return self.leased_until is not None and now < self.leased_until

    def is_postponed(self, now: datetime) -> bool:
        """Whether it has failed and has to wait."""
        return self.due is not None and now < self.due


@attrs.define
class Queue:
    """The memories of a queue, longest queued first, and how far the changes were read.

    `reasons` are those of the memories that have failed, the last to fail at its end.
    """

    position: str = ""
    waiting: dict[MemoryRef, Waiting] = attrs.field(factory=dict)
    reasons: dict[MemoryRef, str] = attrs.field(factory=dict)

    def add(self, revisions: Mapping[MemoryRef, int]) -> int:
        """Queue memories, or raise the revision of those that are queued; returns how many were not.

        What had failed was another text, so that what is raised has not failed and is due.
        """
        before = len(self.waiting)
        for ref, revision in revisions.items():
            known = self.waiting.setdefault(ref, Waiting(revision))
            if known.revision < revision:
                known.revision, known.failures, known.due = revision, 0, None
                self.reasons.pop(ref, None)
        return len(self.waiting) - before

    def settle(self, revisions: Mapping[MemoryRef, int]) -> None:
        """Take out what is queued at these revisions or older ones; what is queued at a newer one is free."""
        self.remove([r for r, n in revisions.items() if r in self.waiting and self.waiting[r].revision <= n])
        for ref in revisions.keys() & self.waiting.keys():
            self.waiting[ref].leased_until = None

    def is_held(self, ref: MemoryRef, holder: str) -> bool:
        """Whether a memory is leased to somebody."""
        item = self.waiting.get(ref)
        return item is not None and item.leased_until is not None and item.holder == holder

    def release(self, refs: Iterable[MemoryRef], *, holder: str) -> None:
        """End the holder's leases."""
        for ref in refs:
            if self.is_held(ref, holder):
                self.waiting[ref].leased_until = None

    def remove(self, refs: Iterable[MemoryRef]) -> None:
        """Take memories out, whatever their revision."""
        for ref in refs:
            self.waiting.pop(ref, None)
            self.reasons.pop(ref, None)

    def claim(self, *, holder: str, now: datetime, lease_seconds: float, limit: int) -> tuple[Work, ...]:
        """Lease what is due and free."""
        free = (r for r, item in self.waiting.items() if not item.is_leased(now) and not item.is_postponed(now))
        claimed = []
        for ref in itertools.islice(free, limit):
            item = self.waiting[ref]
            item.holder, item.leased_until = holder, now + timedelta(seconds=lease_seconds)
            claimed.append(Work(ref=ref, revision=item.revision, failures=item.failures))
        return tuple(claimed)

    def postpone(self, refs: Iterable[MemoryRef], *, holder: str, until: datetime, reason: str) -> None:
        """End the holder's leases, and count the failures."""
        for ref in dict.fromkeys(refs):
            item = self.waiting.get(ref)
            if item is not None and item.leased_until is not None and item.holder == holder:
                item.failures, item.due, item.leased_until = item.failures + 1, until, None
                self.reasons.pop(ref, None)
                self.reasons[ref] = reason

    def backlog(self, now: datetime) -> Backlog:
        """What there is to do."""
        postponed = {ref: item.due for ref, item in self.waiting.items() if item.due and item.is_postponed(now)}
        reasons = [reason for ref, reason in self.reasons.items() if ref in postponed]
        return Backlog(
            position=self.position,
            waiting=len(self.waiting),
            leased=sum(item.is_leased(now) for item in self.waiting.values()),
            postponed=len(postponed),
            next_at=min(postponed.values(), default=None),
            reason=reasons[-1] if reasons else "",
        )
