"""How a chain stands: a live probe of every store, and what the journal holds."""

from __future__ import annotations

from collections.abc import Mapping

from memspine import times
from memspine.chain import Chain
from memspine.delivery.sources import PrimaryReader
from memspine.errors import CursorError, JournalError, MemspineError
from memspine.journal import Journal, entries, replicas
from memspine.journal.replicas import ReplicaPosition
from memspine.status import BackendStatus, ChainStatus, JournalStatus, ReplicaStatus, Role, Stage

Counted = Mapping[tuple[str, str, str], int]


async def chain_status(chain: Chain) -> ChainStatus:
    """The state of a chain, asked for now. What cannot be told is told as an error, never raised."""
    healths = await chain.health()
    counts: Counted = {}
    positions: Mapping[str, ReplicaPosition] = {}
    journal: JournalStatus | None = None
    if chain.journal is not None:
        try:
            counts = await chain.journal.read(entries.counts)
            oldest = await chain.journal.read(entries.oldest)
            reason = await chain.journal.read(entries.first_reason)
            positions = await chain.journal.read(
                lambda connection: {one.name: replicas.position(connection, one.name) for one in chain.replicas}
            )
        except JournalError as error:
            journal = JournalStatus(path=chain.journal.path, is_read=False, error=f"{error.reason}; {error.advice}")
        else:
            journal = JournalStatus(
                path=chain.journal.path,
                pending=counts.get(("write", "", "pending"), 0),
                dead=counts.get(("write", "", "dead"), 0),
                oldest_at=None if oldest is None else times.from_milliseconds(oldest),
                reason=reason,
                error=await _unwritable(chain.journal),
            )
    backends = []
    for member in chain.members:
        role: Role = "primary" if member is chain.primary else "replica" if member.replicates else "fallback"
        replica = None
        if chain.journal is not None and member.name in positions:
            reader = PrimaryReader(chain, chain.journal) if healths[chain.primary.name].ok else None
            position = positions[member.name]
            if position.is_of_another(member.store):
                stage: Stage = "left behind" if position.stage == "left behind" else "new"
                replica = ReplicaStatus(stage=stage, error=replicas.MOVED)
            else:
                replica = await _replica(member.name, position, counts=counts, reader=reader)
        backends.append(
            BackendStatus(
                name=member.name,
                role=role,
                health=healths[member.name],
                breaker=member.breaker_state,
                replica=replica,
            )
        )
    return ChainStatus(backends=tuple(backends), journal=journal)


async def _unwritable(journal: Journal) -> str:
    """Why nothing can be written to a journal now; empty when it can."""
    try:
        await journal.probe()
    except JournalError as error:
        return f"cannot be written to: {error.reason}; {error.advice}"
    return ""


async def _replica(
    name: str, position: ReplicaPosition, *, counts: Counted, reader: PrimaryReader | None
) -> ReplicaStatus:
    """How far a replica is; without a reader nobody can say how much it lacks."""
    stage, behind, more, error = position.stage, None, False, position.error
    if stage == "following" and reader is not None:
        try:
            behind, more = await reader.behind(position)
        except CursorError:
            stage = "left behind"
        except MemspineError as problem:
            error = error or str(problem)
    return ReplicaStatus(
        stage=stage,
        behind=behind,
        behind_more=more,
        pending=counts.get(("delivery", name, "pending"), 0),
        conflicts=counts.get(("delivery", name, "conflict"), 0),
        dead=counts.get(("delivery", name, "dead"), 0),
        attempts=position.attempts,
        next_attempt_at=None if position.next_attempt_at is None else times.from_milliseconds(position.next_attempt_at),
        error=error,
    )
