"""What a person does with entries of the journal: try them again, or give them up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memspine.errors import NotFoundError
from memspine.journal import Journal, entries, replicas
from memspine.replication.deliveries import Deliveries


async def retry(journal: Journal, deliveries: Deliveries, numbers: Sequence[int] | None) -> int:
    """Try entries now (None: all that are not in conflict); returns how many of them are gone. Raises NotFoundError for
    an unknown number, JournalError."""
    if numbers is not None:
        await _check(journal, numbers)
    revived = await journal.write(partial(entries.revive, numbers=numbers))
    await journal.write(replicas.hurry)
    await deliveries.run(seconds=None)
    left = await journal.read(partial(entries.known, numbers=revived))
    return len(revived) - sum(state != "renamed" for state in left.values())


async def drop(journal: Journal, numbers: Sequence[int]) -> int:
    """Give entries up; returns how many. Raises NotFoundError for an unknown number, and none is given up then."""
    await _check(journal, numbers)
    return await journal.write(partial(entries.remove, numbers=numbers))


async def _check(journal: Journal, numbers: Sequence[int]) -> None:
    known = await journal.read(partial(entries.known, numbers=numbers))
    for number in numbers:
        if number not in known:
            raise NotFoundError("journal", str(number), what="entry")
