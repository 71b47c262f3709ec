"""What has not arrived yet: writes that wait for the primary, and memories that a replica does not take.

A pending entry goes by itself when its turn comes, one in conflict when `memspine reconcile` has decided, a dead one
never: retry it when its reason is gone, or drop it. A renamed one was done, and says which id its memory has instead of
the one that was acknowledged; it is listed for 30 days. Exit code 9 when entries that were retried did not go.

A journal belongs to one store. When that was moved or renamed, `adopt` makes the journal its own again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memspine.cli.codes import Exit
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.status import JournalEntry

HAS_ACTIONS: Final = True
"""The word after the command decides about the rest."""

_COLUMNS: Final = ("number", "state", "operation", "id", "owner", "to", "since", "attempts", "next", "error")


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    from memspine.cli.parser import Parser, add_global_options

    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    for name, nargs, help in (
        ("list", None, "every entry, in order"),
        ("retry", "*", "try pending and dead entries now: those of these numbers, or all"),
        ("drop", "+", "remove entries for good; what they hold is lost"),
    ):
        action = actions.add_parser(name, help=help, description=help)
        if nargs is not None:
            action.add_argument("numbers", nargs=nargs, type=int, metavar="N", help="the number that list shows")
        add_global_options(action)
    help = "have the journal of another store belong to this one: what waits in it is done here"
    action = actions.add_parser("adopt", help=help, description=help)
    action.add_argument("--yes", action="store_true", help="do not ask")
    add_global_options(action)


def run(options: argparse.Namespace, out: Output) -> int:
    """Do what the action says."""

    async def work(memory: MemoryManager) -> int:
        if options.action == "list":
            return await _list(memory, out)
        if options.action == "adopt":
            return await _adopt(memory, out, yes=options.yes)
        return await {"retry": _retry, "drop": _drop}[options.action](memory, options.numbers, out)

    return with_memory(options, out, work, maintains=False)


async def _list(memory: MemoryManager, out: Output) -> int:
    from memspine.model import LIMIT_MAX

    entries = await memory.journal_entries()
    if out.json:
        is_cut = len(entries) == LIMIT_MAX
        out.data({"data": [_to_wire(entry) for entry in entries], "total": len(entries), "cut": is_cut})
        return Exit.OK
    if entries or not out.is_terminal:
        out.table(_COLUMNS, [_row(entry, memory.config.primary.name) for entry in entries])
    if len(entries) == LIMIT_MAX:
        out.note(f"these are the first {LIMIT_MAX}; there may be more")
    if not entries:
        out.remark("nothing waits")
    return Exit.OK


async def _retry(memory: MemoryManager, numbers: Sequence[int], out: Output) -> int:
    gone = await memory.retry(numbers or None)
    left = [entry for entry in await memory.journal_entries() if _is_tried(entry, numbers)]
    if out.json:
        out.data({"gone": gone, "left": [_to_wire(entry) for entry in left]})
    else:
        out.table(("what", "entries"), [("gone", str(gone)), ("left", str(len(left)))])
        for entry in left:
            why = entry.error or "it waits behind others; `memspine status` tells who does not answer"
            out.error(f"entry {entry.number} is {entry.state}: {why}", type="partial")
    return Exit.PARTIAL if left else Exit.OK


def _is_tried(entry: JournalEntry, numbers: Sequence[int]) -> bool:
    return entry.state != "renamed" and (entry.number in numbers if numbers else entry.state != "conflict")


async def _drop(memory: MemoryManager, numbers: Sequence[int], out: Output) -> int:
    dropped = await memory.drop(numbers)
    if out.json:
        out.data({"dropped": dropped})
    else:
        out.cells("dropped", str(dropped))
    return Exit.OK


async def _adopt(memory: MemoryManager, out: Output, *, yes: bool) -> int:
    from memspine.cli.asking import confirm

    found = await memory.adopt_journal()
    if found.owner:
        held = f"{found.writes} writes and {found.deliveries} deliveries"
        question = f"{found.path} ({held}) belongs to {found.owner}; shall it belong to {found.new_owner}?"
        if not confirm(question, yes=yes):
            out.remark("nothing was changed")
            return Exit.OK
        found = await memory.adopt_journal(dry_run=False)
    if out.json:
        counts = {"writes": found.writes, "deliveries": found.deliveries}
        out.data({"path": str(found.path), "before": found.owner or None, **counts})
        return Exit.OK
    out.note(f"{found.path} belonged to {found.owner}" if found.owner else f"{found.path} is this store's already")
    return await _list(memory, out)


def _row(entry: JournalEntry, primary: str) -> tuple[str, ...]:
    from memspine.cli.render import moment

    return (
        str(entry.number),
        entry.state,
        entry.operation,
        entry.id,
        entry.owner,
        entry.replica or primary,
        moment(entry.noted_at),
        str(entry.attempts),
        moment(entry.next_attempt_at) if entry.next_attempt_at else "-",
        entry.error or "-",
    )


def _to_wire(entry: JournalEntry) -> dict[str, Any]:
    from memspine import times

    return {
        "number": entry.number,
        "kind": entry.kind,
        "state": entry.state,
        "operation": entry.operation,
        "apiKeyId": entry.owner,
        "id": entry.id,
        "replica": entry.replica,
        "notedAt": times.to_text(entry.noted_at),
        "attempts": entry.attempts,
        "nextAttemptAt": None if entry.next_attempt_at is None else times.to_text(entry.next_attempt_at),
        "error": entry.error,
    }
