"""What a person does with entries of the journal: try them again, or give them up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memspine.chain.spool import WORK
from memspine.delivery.debts import Debts
from memspine.errors import JournalError, NotFoundError
from memspine.journal import Journal, entries, replicas
from memspine.journal.whose import read_whose
from memspine.status import Adoption


async def retry(journal: Journal, debts: Debts, numbers: Sequence[int] | None) -> int:
    """Try entries now (None: all that are not in conflict); returns how many of them are gone. Raises NotFoundError for
    an unknown number, JournalError."""
    if numbers is not None:
        await _check(journal, numbers)
    revived = await journal.write(partial(entries.revive, numbers=numbers))
    await journal.write(replicas.hurry)
    await debts.run(seconds=None)
    left = await journal.read(partial(entries.known, numbers=revived))
    return len(revived) - sum(state != "renamed" for state in left.values())


async def drop(journal: Journal, numbers: Sequence[int]) -> int:
    """Give entries up; returns how many. Raises NotFoundError for an unknown number, and none is given up then."""
    await _check(journal, numbers)
    return await journal.write(partial(entries.remove, numbers=numbers))


async def adopt(journal: Journal, *, dry_run: bool) -> Adoption:
    """Make a journal this chain's own, whosever it was; with `dry_run` only tell. Raises JournalError, also where there
    is none, or somebody is executing what waits in it."""
    if not journal.is_there():
        advice = "name the file that is to be adopted in `[journal] path`"
        raise JournalError(str(journal.path), "there is no such file", advice=advice)
    before = await journal.read(read_whose, of_anybody=True)
    counts = await journal.read(entries.counts, of_anybody=True)
    is_ours = before == journal.whose
    if not is_ours and not dry_run:
        async with journal.held(WORK) as is_held:
            if not is_held:
                reason = "another process is executing what waits in it"
                raise JournalError(str(journal.path), reason, advice="end it, and repeat the command")
            await journal.adopt()
    return Adoption(
        path=journal.path,
        owner="" if is_ours else before.told_from(journal.whose),
        new_owner=journal.whose.told_from(before),
        writes=sum(count for (kind, _, state), count in counts.items() if kind == "write" and state != "renamed"),
        deliveries=sum(count for (kind, _, _), count in counts.items() if kind == "delivery"),
    )


async def _check(journal: Journal, numbers: Sequence[int]) -> None:
    known = await journal.read(partial(entries.known, numbers=numbers))
    for number in numbers:
        if number not in known:
            raise NotFoundError("journal", str(number), what="entry")
