"""Background work, one function for all kinds: bounded after a command, repeated in a long-lived process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

import attrs

from memspine.chain import Chain, Member
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import BackendError, BackendUnavailable, JournalError, LoopError
from memspine.indexing import VectorIndex
from memspine.intake import Intake
from memspine.model import Scope

if TYPE_CHECKING:  # most chains have nothing to deliver
    from memspine.delivery import Debts

Kind = Literal["deliver", "expire", "history", "spaces", "embed"]

KINDS: Final[tuple[Kind, ...]] = ("deliver", "expire", "history", "spaces", "embed")
"""Every kind, in the order they are run: execute the writes that wait, and deliver to replicas; sweep expired memories;
drop old states, tombstones and rows of feed and outbox; drop vector spaces that nobody uses any more and the vectors of
expired memories; embed what has no vector yet."""

REMOVING: Final[tuple[Kind, ...]] = ("expire", "history", "spaces")
TOMBSTONE_DAYS_MIN: Final = 30
STEP_ROWS: Final = 500
"""Rows of one step, so that a time limit can be kept and no write lock is held for long."""

OVERTIME_SECONDS: Final = 2.0
"""What a batch that is being embedded when the time is over may still take; then it is given up."""


@attrs.frozen(kw_only=True)
class MaintenanceReport:
    """How many rows each kind removed, how many memories were embedded, and whether there is more to do.

    `executed` writes that had waited were done, and `delivered` records given to replicas. `troubles` say what keeps
    memories from being embedded or delivered; `failure` is what kept the primary, or the vector store, from the rest.
    """

    removed: Mapping[Kind, int]
    complete: bool
    embedded: int = 0
    executed: int = 0
    delivered: int = 0
    troubles: tuple[str, ...] = ()
    failure: BackendError | None = None


async def run_maintenance(
    chain: Chain,
    *,
    index: VectorIndex | None = None,
    debts: Debts | None = None,
    now: datetime,
    history_days: int,
    feed_days: int,
    kinds: Sequence[Kind] = KINDS,
    budget_seconds: float | None = None,
    only_loaded: bool = False,
) -> MaintenanceReport:
    """Run the kinds on the stores of the chain and the index, in steps, until done or the budget is spent (None: until
    done).

    With `only_loaded`, nothing is embedded by a model that was not used yet. What keeps the primary from it ends it,
    and stands in the report beside what was done; what keeps a replica is a trouble. Raises JournalError.
    """
    for kind in kinds:
        Intake().choice("kind", kind, KINDS)
    clock = _Clock(None if budget_seconds is None else time.monotonic() + budget_seconds)
    removed: dict[Kind, int] = {kind: 0 for kind in kinds if kind in REMOVING}
    report = MaintenanceReport(removed=removed, complete=True)
    if "deliver" in kinds and debts is not None:
        report = await _deliver(debts, clock, report)
    keeping = _Keeping(now=now, history_days=history_days, feed_days=feed_days)
    try:
        for kind in removed:
            async for rows in _removing(chain, kind, index=index, debts=debts, keeping=keeping):
                removed[kind] += rows
                if clock.is_over:
                    return attrs.evolve(report, complete=False)
        if "embed" in kinds and index is not None:
            report = await _embed(index, clock, report, only_loaded=only_loaded)
    except (BackendUnavailable, LoopError) as error:
        return attrs.evolve(report, complete=False, failure=error)
    return report


@attrs.frozen
class _Clock:
    """When the budget is spent; None means never."""

    ends_at: float | None

    @property
    def left(self) -> float | None:
        return None if self.ends_at is None else max(self.ends_at - time.monotonic(), 0.0)

    @property
    def is_over(self) -> bool:
        return self.ends_at is not None and time.monotonic() >= self.ends_at


@attrs.frozen(kw_only=True)
class _Keeping:
    """What is kept, and the time it is counted from."""

    now: datetime
    history_days: int
    feed_days: int

    @property
    def feed_before(self) -> datetime:
        return self.now - timedelta(days=self.feed_days)


async def _deliver(debts: Debts, clock: _Clock, report: MaintenanceReport) -> MaintenanceReport:
    """Deliver while there is time; a store that does not answer by then is given up."""
    try:
        async with asyncio.timeout(clock.left):
            done = await debts.run(seconds=clock.left)
    except TimeoutError:
        return attrs.evolve(report, complete=False)
    return attrs.evolve(
        report,
        complete=done.complete,
        executed=done.executed,
        delivered=done.delivered,
        troubles=done.troubles,
    )


async def _embed(
    index: VectorIndex, clock: _Clock, report: MaintenanceReport, *, only_loaded: bool
) -> MaintenanceReport:
    """Embed while there is time; a source that does not answer by then is given up."""
    try:
        async with asyncio.timeout(None if clock.left is None else clock.left + OVERTIME_SECONDS):
            embedded = await index.work(seconds=clock.left, only_loaded=only_loaded)
    except TimeoutError:
        trouble = f"the embedding source took longer than {OVERTIME_SECONDS:g} s"
        return attrs.evolve(report, complete=False, troubles=(*report.troubles, trouble))
    return attrs.evolve(
        report,
        complete=report.complete and embedded.complete,
        embedded=embedded.embedded,
        troubles=(*report.troubles, *embedded.troubles),
    )


async def _removing(
    chain: Chain, kind: Kind, *, index: VectorIndex | None, debts: Debts | None, keeping: _Keeping
) -> AsyncIterator[int]:
    """The steps of a kind that removes rows: how many went with each, until none is left."""
    if kind == "spaces":
        yield 0 if index is None else await index.collect()
        return
    if kind == "history" and debts is not None:
        # What keeps the journal from being read is told by delivery, and the primary has other things to drop.
        with contextlib.suppress(JournalError):
            rows = STEP_ROWS
            while rows >= STEP_ROWS:
                rows = await debts.trim(keeping.feed_before, limit=STEP_ROWS)
                yield rows
    for member in (chain.primary, *chain.replicas):
        try:
            async for rows in _removing_from(member, kind, keeping=keeping, seconds=chain.deadline_seconds):
                yield rows
        except BackendUnavailable:
            if member is chain.primary:
                raise
            # A replica that is away keeps what is old until it is back; what keeps it away is told by its delivery.
            continue


async def _removing_from(member: Member, kind: Kind, *, keeping: _Keeping, seconds: float) -> AsyncIterator[int]:
    capabilities = await member.capabilities(seconds=seconds)
    for step in _steps(kind, capabilities, keeping):
        rows = STEP_ROWS
        while rows >= STEP_ROWS:
            rows = await member.call(f"maintenance ({kind})", step, seconds=seconds, write_ids=())
            yield rows


Step = Callable[[MemoryBackend], Awaitable[int]]


def _steps(kind: Kind, capabilities: frozenset[Capability], keeping: _Keeping) -> list[Step]:
    everyone = Scope.everyone()
    if kind == "expire":
        return [lambda backend: backend.expire(scope=everyone, now=keeping.now, limit=STEP_ROWS)]
    before = keeping.now - timedelta(days=keeping.history_days)
    tombstones_before = keeping.now - timedelta(days=max(keeping.history_days, TOMBSTONE_DAYS_MIN))
    steps: list[Step] = []
    if Capability.HISTORY in capabilities:
        steps.append(
            lambda backend: backend.trim_history(
                scope=everyone, before=before, tombstones_before=tombstones_before, limit=STEP_ROWS
            )
        )
    if Capability.CHANGES in capabilities:
        steps.append(lambda backend: backend.trim_changes(scope=everyone, before=keeping.feed_before, limit=STEP_ROWS))
    return steps
