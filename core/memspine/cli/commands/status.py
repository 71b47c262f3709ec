"""Ask every backend of the chain now, and tell what waits: which of them work, how far each replica is, what stands in
the journal.

Exit code 9 when there is something to look at; each such thing is a line of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memspine.cli.codes import Exit
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.status import BackendStatus, ChainStatus, JournalStatus, ReplicaStatus

_UNKNOWN: Final = "nobody can say now how far behind"


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command: there are none."""


def run(options: argparse.Namespace, out: Output) -> int:
    """Ask, and tell."""

    async def work(memory: MemoryManager) -> int:
        status = await memory.status()
        _answer(status, out)
        return Exit.PARTIAL if status.problems else Exit.OK

    return with_memory(options, out, work, maintains=False)


def _answer(status: ChainStatus, out: Output) -> None:
    if out.json:
        journal = None if status.journal is None else _journal_to_wire(status.journal)
        backends = [_backend_to_wire(one) for one in status.backends]
        problems, notes = list(status.problems), list(status.notes)
        out.data({"backends": backends, "journal": journal, "problems": problems, "notes": notes})
        return
    rows = [_row(one) for one in status.backends]
    if status.journal is not None:
        rows.append(("journal", str(status.journal.path), *_journal_texts(status.journal)))
    out.table(("what", "name", "state", "more"), rows)
    for note in status.notes:
        out.note(note)
    for problem in status.problems:
        out.error(problem, type="partial")


def _row(one: BackendStatus) -> tuple[str, str, str, str]:
    state = "ok" if one.health.ok else "not ok"
    more = [] if one.breaker == "closed" else [f"this process's breaker is {one.breaker}"]
    if one.role == "replica":
        more = [_UNKNOWN if one.replica is None else _replica_text(one.replica), *more]
    return (one.role, one.name, state, "; ".join(more) or "-")


def _replica_text(replica: ReplicaStatus) -> str:
    from memspine.cli.render import moment

    parts = [replica.stage, *_behind_texts(replica)]
    for count, what in ((replica.pending, "pending"), (replica.conflicts, "in conflict"), (replica.dead, "dead")):
        parts += [f"{count} {what}"] if count else []
    if replica.next_attempt_at is not None:
        parts.append(f"tried {replica.attempts} times, next at {moment(replica.next_attempt_at)}")
    return ", ".join(parts)


def _behind_texts(replica: ReplicaStatus) -> tuple[str, ...]:
    if replica.stage == "left behind":
        return ()
    if replica.behind is None:
        return ("nothing delivered yet" if replica.stage == "new" else _UNKNOWN,)
    more = "more than " if replica.behind_more else ""
    return (f"{more}{replica.behind} behind" if replica.behind else "nothing behind",)


def _journal_texts(journal: JournalStatus) -> tuple[str, str]:
    from memspine.cli.render import moment

    if not journal.is_read:
        return "not ok", "cannot be read"
    since = f" since {moment(journal.oldest_at)}" if journal.oldest_at else ""
    waiting = f"{journal.pending} waiting{since}" if journal.pending else "nothing waiting"
    texts = [f"{waiting}, {journal.dead} dead" if journal.dead else waiting]
    texts += [f"the first because {journal.reason}"] if journal.reason else []
    if journal.error:
        return "not ok", "; ".join(["cannot be written to", *texts])
    return "ok", "; ".join(texts)


def _backend_to_wire(one: BackendStatus) -> dict[str, Any]:
    from memspine.cli.healths import health_to_wire

    replica = None if one.replica is None else _replica_to_wire(one.replica)
    health = health_to_wire(one.health)
    return {"name": one.name, "role": one.role, "health": health, "breaker": one.breaker, "replica": replica}


def _replica_to_wire(replica: ReplicaStatus) -> dict[str, Any]:
    from memspine import times

    return {
        "stage": replica.stage,
        "behind": replica.behind,
        "behindMore": replica.behind_more,
        "pending": replica.pending,
        "conflicts": replica.conflicts,
        "dead": replica.dead,
        "attempts": replica.attempts,
        "nextAttemptAt": None if replica.next_attempt_at is None else times.to_text(replica.next_attempt_at),
        "error": replica.error,
    }


def _journal_to_wire(journal: JournalStatus) -> dict[str, Any]:
    from memspine import times

    return {
        "path": str(journal.path),
        "pending": journal.pending,
        "dead": journal.dead,
        "oldestAt": None if journal.oldest_at is None else times.to_text(journal.oldest_at),
        "reason": journal.reason,
        "error": journal.error,
    }
