"""Background work, one function for all kinds: bounded after a command, repeated in a long-lived process."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import attrs

from memspine.chain import Chain
from memspine.contracts import Capability, MemoryBackend
from memspine.intake import Intake
from memspine.model import Scope

Kind = Literal["expire", "history"]

KINDS: Final[tuple[Kind, ...]] = ("expire", "history")
"""Every kind, in the order they are run: sweep expired memories; drop old states, tombstones and feed rows."""

TOMBSTONE_DAYS_MIN: Final = 30
STEP_ROWS: Final = 500
"""Rows of one step, so that a time limit can be kept and no write lock is held for long."""


@attrs.frozen(kw_only=True)
class MaintenanceReport:
    """How many rows each kind removed, and whether there is more to do."""

    removed: Mapping[Kind, int]
    complete: bool


async def run_maintenance(
    chain: Chain,
    *,
    now: datetime,
    history_days: int,
    feed_days: int,
    kinds: Sequence[Kind] = KINDS,
    budget_seconds: float | None = None,
) -> MaintenanceReport:
    """Run the kinds on the primary, in steps, until done or the budget is spent (None: until done)."""
    started = time.monotonic()
    for kind in kinds:
        Intake().choice("kind", kind, KINDS)
    removed = dict.fromkeys(kinds, 0)
    for kind in kinds:
        for step in await _steps(chain, kind, now=now, history_days=history_days, feed_days=feed_days):
            while True:
                if budget_seconds is not None and time.monotonic() - started >= budget_seconds:
                    return MaintenanceReport(removed=removed, complete=False)
                rows = (await chain.write(f"maintenance ({kind})", step)).value
                removed[kind] += rows
                if rows < STEP_ROWS:
                    break
    return MaintenanceReport(removed=removed, complete=True)


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
