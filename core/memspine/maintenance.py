"""Background work, one function for all kinds: bounded after a command, repeated in a long-lived process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import attrs

from memspine.chain import Chain
from memspine.contracts import Capability, MemoryBackend
from memspine.indexing import VectorIndex
from memspine.intake import Intake
from memspine.model import Scope

Kind = Literal["expire", "history", "spaces", "embed"]

KINDS: Final[tuple[Kind, ...]] = ("expire", "history", "spaces", "embed")
"""Every kind, in the order they are run: sweep expired memories; drop old states, tombstones and feed rows; drop vector
spaces that nobody uses any more and the vectors of expired memories; embed what has no vector yet."""

TOMBSTONE_DAYS_MIN: Final = 30
STEP_ROWS: Final = 500
"""Rows of one step, so that a time limit can be kept and no write lock is held for long."""

OVERTIME_SECONDS: Final = 2.0
"""What a batch that is being embedded when the time is over may still take; then it is given up."""


@attrs.frozen(kw_only=True)
class MaintenanceReport:
    """How many rows each kind removed, how many memories were embedded, and whether there is more to do.

    `troubles` say what keeps memories from being embedded.
    """

    removed: Mapping[Kind, int]
    complete: bool
    embedded: int = 0
    troubles: tuple[str, ...] = ()


async def run_maintenance(
    chain: Chain,
    *,
    index: VectorIndex | None = None,
    now: datetime,
    history_days: int,
    feed_days: int,
    kinds: Sequence[Kind] = KINDS,
    budget_seconds: float | None = None,
    only_loaded: bool = False,
) -> MaintenanceReport:
    """Run the kinds on the primary and the index, in steps, until done or the budget is spent (None: until done).

    With `only_loaded`, nothing is embedded by a model that was not used yet.
    """
    for kind in kinds:
        Intake().choice("kind", kind, KINDS)
    deadline = None if budget_seconds is None else time.monotonic() + budget_seconds
    removed: dict[Kind, int] = {kind: 0 for kind in kinds if kind != "embed"}
    for kind in kinds:
        if kind == "embed":
            continue
        async for rows in _removing(chain, kind, index=index, now=now, history_days=history_days, feed_days=feed_days):
            removed[kind] += rows
            if deadline is not None and time.monotonic() >= deadline:
                return MaintenanceReport(removed=removed, complete=False)
    if "embed" not in kinds or index is None:
        return MaintenanceReport(removed=removed, complete=True)
    left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
    try:
        async with asyncio.timeout(None if left is None else left + OVERTIME_SECONDS):
            done = await index.work(seconds=left, only_loaded=only_loaded)
    except TimeoutError:
        trouble = f"the embedding source took longer than {OVERTIME_SECONDS:g} s"
        return MaintenanceReport(removed=removed, complete=False, troubles=(trouble,))
    return MaintenanceReport(removed=removed, complete=done.complete, embedded=done.embedded, troubles=done.troubles)


async def _removing(
    chain: Chain, kind: Kind, *, index: VectorIndex | None, now: datetime, history_days: int, feed_days: int
) -> AsyncIterator[int]:
    """The steps of a kind that removes rows: how many went with each, until none is left."""
    if kind == "spaces":
        yield 0 if index is None else await index.collect()
        return
    for step in await _steps(chain, kind, now=now, history_days=history_days, feed_days=feed_days):
        rows = STEP_ROWS
        while rows >= STEP_ROWS:
            rows = (await chain.write(f"maintenance ({kind})", step)).value
            yield rows


Step = Callable[[MemoryBackend], Awaitable[int]]


async def _steps(chain: Chain, kind: Kind, *, now: datetime, history_days: int, feed_days: int) -> list[Step]:
    everyone = Scope.everyone()
    if kind == "expire":
        return [lambda backend: backend.expire(scope=everyone, now=now, limit=STEP_ROWS)]
    before = now - timedelta(days=history_days)
    tombstones_before = now - timedelta(days=max(history_days, TOMBSTONE_DAYS_MIN))
    feed_before = now - timedelta(days=feed_days)
    capabilities = (await chain.call_primary("maintenance", _capabilities)).value
    steps: list[Step] = []
    if Capability.HISTORY in capabilities:
        steps.append(
            lambda backend: backend.trim_history(
                scope=everyone, before=before, tombstones_before=tombstones_before, limit=STEP_ROWS
            )
        )
    if Capability.CHANGES in capabilities:
        steps.append(lambda backend: backend.trim_changes(scope=everyone, before=feed_before, limit=STEP_ROWS))
    return steps


async def _capabilities(backend: MemoryBackend) -> frozenset[Capability]:
    return backend.capabilities
