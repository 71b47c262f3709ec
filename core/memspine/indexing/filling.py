"""Writes what a space has queued, a leased batch at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import attrs

from memspine.chain import Chain
from memspine.contracts import Space, VectorStore, Work
from memspine.errors import EmbeddingError
from memspine.indexing.forgetting import fetched, forget
from memspine.indexing.writers import Writer

LEASE_SECONDS = 60.0
"""How long a batch stays with a process that died over it."""
RETRY_SECONDS = 60.0
RETRY_SECONDS_MAX = 86_400.0


@attrs.frozen(kw_only=True)
class BatchDone:
    """What became of one batch: how many memories were claimed, written, and put off because of themselves.
    `trouble` is why the source could not go on."""

    claimed: int = 0
    written: int = 0
    failed: int = 0
    trouble: str = ""


async def fill_batch(
    chain: Chain, store: VectorStore, space: Space, *, writer: Writer, holder: str, now: datetime, limit: int
) -> BatchDone:
    """Claim and write up to `limit` memories. A source that does not work ends the leases and says so."""
    claimed = await store.claim(space.id, holder=holder, now=now, lease_seconds=LEASE_SECONDS, limit=limit)
    if not claimed:
        return BatchDone()
    refs = [work.ref for work in claimed]
    is_settled = False
    try:
        done = await _filled(chain, store, space, claimed, writer=writer, holder=holder, now=now)
        is_settled = not done.trouble
    finally:
        if not is_settled:
            # That the source fails, or that nobody waits any longer, is not the memories' fault.
            await asyncio.shield(store.release(space.id, refs=refs, holder=holder))
    return done


async def _filled(
    chain: Chain,
    store: VectorStore,
    space: Space,
    claimed: Sequence[Work],
    *,
    writer: Writer,
    holder: str,
    now: datetime,
) -> BatchDone:
    memories = await fetched(chain, [work.ref for work in claimed])
    if gone := [work.ref for work in claimed if work.ref not in memories]:
        await forget(chain, store, gone)
    there = [work for work in claimed if work.ref in memories]
    if not there:
        return BatchDone(claimed=len(claimed))
    try:
        done = await writer.write(store, space, [memories[work.ref] for work in there], holder=holder)
    except EmbeddingError as error:
        return BatchDone(claimed=len(claimed), trouble=str(error))
    for work in there:
        if work.ref in done.refused:
            await _put_off(store, space, work, done.refused[work.ref], holder=holder, now=now)
    return BatchDone(claimed=len(claimed), written=done.stored, failed=len(done.refused))


async def _put_off(
    store: VectorStore, space: Space, work: Work, error: EmbeddingError, *, holder: str, now: datetime
) -> None:
    pause = min(RETRY_SECONDS * 2 ** min(work.failures, 20), RETRY_SECONDS_MAX)
    until = now + timedelta(seconds=pause)
    await store.postpone(space.id, refs=[work.ref], holder=holder, until=until, reason=str(error))
