"""Writes whose memories the primary names: deleting all that a filter fits, purging an owner."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from memspine.chain.answers import Answer
from memspine.chain.notes import Touched
from memspine.errors import BackendUnavailable, MemspineError
from memspine.journal import Journal, intents, now_milliseconds
from memspine.model import LIMIT_MAX, MemoryFilter, PurgeReceipt, Scope

if TYPE_CHECKING:
    from memspine.chain.routing import Chain

PURGE: Final = "purge"
"""The kind of work of whoever purges, and of whoever settles what another left."""


async def delete_many(chain: Chain, filter: MemoryFilter, *, scope: Scope, now: datetime) -> Answer[tuple[str, ...]]:
    """Delete all that match; their ids, oldest first. Raises BackendUnavailable, JournalError."""
    owner = scope.require_owner("delete_many")
    await chain.go_behind("delete_many", owner, None)
    touched = None
    if chain.notes is not None and await chain.notes.are_kept():
        foreseen = await chain.call_primary(
            "delete_many",
            lambda backend: backend.delete_many(filter, scope=scope, now=now, dry_run=True),
            unhurried=True,
        )
        touched = Touched(owner=owner, ids=foreseen.value, deletes=True)
    deleted = await chain.write(
        "delete_many",
        lambda backend: backend.delete_many(filter, scope=scope, now=now, dry_run=False),
        touched=touched,
        unhurried=True,
    )
    if touched is not None and chain.notes is not None:
        more = tuple(id for id in deleted.value if id not in set(touched.ids))
        if more:  # stored between the two calls
            async with chain.notes.around(Touched(owner=owner, ids=more, deletes=True)):
                pass
    return deleted


async def purge(chain: Chain, ids: Sequence[str] | None, *, scope: Scope, now: datetime) -> Answer[PurgeReceipt]:
    """Purge memories (None: all of the owner) in the primary. That replicas and the journal have to follow is noted
    before, and stays noted until `memspine.delivery` has seen to it. Raises CapabilityError, BackendUnavailable,
    JournalError."""
    owner = scope.require_owner("purge")
    if chain.spool is not None:  # what waits and is done after the purge would bring it back
        await chain.spool.drain(seconds=chain.deadline_seconds)
    touched, journal = None, chain.journal
    known = tuple(ids or ())
    if chain.notes is not None and await chain.notes.are_kept():
        journal = chain.notes.journal
        if ids is None:
            known = tuple(await _ids(chain, scope=scope, now=now))
        touched = Touched(owner=owner, ids=known, deletes=True)
    async with _purging(journal, owner, known if ids is not None else ("", *known)):
        return await chain.write(
            "purge",
            lambda backend: backend.purge(ids, scope=scope, now=now),
            ids=ids or (),
            touched=touched,
            unhurried=True,
        )


@asynccontextmanager
async def _purging(journal: Journal | None, owner: str, ids: Sequence[str]) -> AsyncIterator[None]:
    """Note a purge before it begins, and take that back where it was not done. Nobody settles it meanwhile,
    unless it began while another purge was under way, which ended first."""
    if journal is None:
        yield
        return
    async with journal.held(PURGE):
        at = now_milliseconds()
        await journal.write(partial(intents.begin_purging, owner=owner, ids=ids, now=at))
        try:
            yield
        except MemspineError as error:
            if not (isinstance(error, BackendUnavailable) and error.outcome == "unknown"):
                await journal.write(partial(intents.end_purging, owner=owner, ids=ids))
            raise


async def _ids(chain: Chain, *, scope: Scope, now: datetime) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await chain.call_primary(
            "list",
            lambda backend: backend.list(MemoryFilter(), scope=scope, now=now, limit=LIMIT_MAX, cursor=cursor),  # noqa: B023
            unhurried=True,
        )
        found += [memory.id for memory in page.value.memories]
        cursor = page.value.cursor
        if cursor is None:
            return found
