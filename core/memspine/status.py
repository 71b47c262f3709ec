"""What a chain says of itself: who works, what waits in the journal, how far each replica is."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

import attrs

from memspine.model import Health

Role = Literal["primary", "replica", "fallback"]
"""What a backend is in its chain: a replica is a fallback that receives every change."""

Stage = Literal["new", "copying", "following", "left behind"]
"""How far a replica is: nothing was delivered yet; all memories are being copied; it follows the changes; or those that
it had to follow were trimmed away, and `memspine reconcile` has to compare both."""

EntryState = Literal["pending", "conflict", "dead", "renamed"]


@attrs.frozen(kw_only=True)
class JournalEntry:
    """Something that waits in the journal: a write for the primary, or a memory that a replica does not take.

    A pending one is tried again at `next_attempt_at` (None: as soon as its turn comes). In conflict is a memory that
    was changed in a replica by others; dead is what will never go by itself. Renamed is a create that was done and came
    to another id than the one that was acknowledged: `error` names it, and the entry goes after 30 days. `number` rises
    in the order of entering.
    `attempts` counts its own failures alone; `error` is the last of them, or why the primary could not take it.
    """

    number: int
    kind: Literal["write", "delivery"]
    state: EntryState
    operation: Literal["create", "update", "delete", "put", "purge"]
    owner: str
    id: str
    replica: str = ""
    noted_at: datetime
    attempts: int = 0
    next_attempt_at: datetime | None = None
    error: str = ""


@attrs.frozen(kw_only=True)
class ReplicaStatus:
    """How far a replica is. `behind` are the changes that it has not got (None: nobody can say now; with `behind_more`
    there are more of them); `pending`, `conflicts` and `dead` are single memories that were set aside. `error` is why
    the last delivery failed, and then `next_attempt_at` is when it is tried again."""

    stage: Stage
    behind: int | None = None
    behind_more: bool = False
    pending: int = 0
    conflicts: int = 0
    dead: int = 0
    attempts: int = 0
    next_attempt_at: datetime | None = None
    error: str = ""


@attrs.frozen(kw_only=True)
class BackendStatus:
    """One backend of a chain, probed just now. `breaker` is the state of this process's breakers alone: "closed", or
    "open for reading: why", or "open for writing: why"."""

    name: str
    role: Role
    health: Health
    breaker: str = "closed"
    replica: ReplicaStatus | None = None


@attrs.frozen(kw_only=True)
class JournalStatus:
    """The journal of a chain: how many writes wait for the primary, since when, and how many will never go. `reason` is
    why the first of those that wait could not be done (empty: nobody knows yet). `error` says why the journal cannot be
    read or written, and what to do; without `is_read` nobody knows what is in it."""

    path: Path
    pending: int = 0
    dead: int = 0
    oldest_at: datetime | None = None
    reason: str = ""
    error: str = ""
    is_read: bool = True


@attrs.frozen(kw_only=True)
class StrayJournal:
    """A journal that is not this chain's, and may have been: whose it is (`is_ours`: this very chain's; else
    `is_of_store`: this store's under another name), how many writes and deliveries stand in it, or why it cannot be
    read."""

    path: Path
    owner: str = ""
    is_ours: bool = False
    is_of_store: bool = False
    writes: int = 0
    deliveries: int = 0
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"another journal, {self.path}, may hold writes that wait, and cannot be read: {self.error}"
        held = (
            f"another journal, {self.path}, holds {self.writes} writes and {self.deliveries} deliveries of {self.owner}"
        )
        if self.is_ours:
            return f"{held}; name it in `[journal] path` until they are done"
        condition = "" if self.is_of_store else "if that is this store, which was moved, "
        return f"{held}; {condition}name the file in `[journal] path` and run `memspine journal adopt`"


@attrs.frozen(kw_only=True)
class Adoption:
    """A journal that changes hands: whose it was (empty: this chain's already), whose it is then, and how many writes
    and deliveries stand in it."""

    path: Path
    owner: str = ""
    new_owner: str = ""
    writes: int = 0
    deliveries: int = 0


@attrs.frozen(kw_only=True)
class ChainStatus:
    """Every backend, primary first, the journal (None where the chain needs none), and other journals that may hold
    something of this chain."""

    backends: tuple[BackendStatus, ...]
    journal: JournalStatus | None = None
    strays: tuple[StrayJournal, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What a person has to look at, one line each; empty when all is well."""
        lines = [
            f"{one.name}: {one.health.detail.removeprefix(f'{one.name}: ')}"
            for one in self.backends
            if not one.health.ok
        ]
        for one in self.backends:
            if (replica := one.replica) is None:
                continue
            if replica.stage == "left behind":
                lines.append(
                    f"{one.name}: needs reconcile; run `memspine reconcile {self.backends[0].name} {one.name}`"
                )
            if replica.error:
                lines.append(f"{one.name}: {replica.error}")
            if replica.conflicts:
                lines.append(f"{one.name}: {replica.conflicts} in conflict; see `memspine journal list`")
            if replica.dead:
                lines.append(f"{one.name}: {replica.dead} not delivered; see `memspine journal list`")
        if self.journal is not None:
            if self.journal.error:
                lines.append(f"journal: {self.journal.error}")
            if self.journal.dead:
                lines.append(f"journal: {self.journal.dead} writes that did not go; see `memspine journal list`")
        lines += [f"journal: {stray}" for stray in self.strays if stray.is_of_store]
        return tuple(dict.fromkeys(lines))  # a store that is down is what its delivery ran into as well

    @property
    def notes(self) -> tuple[str, ...]:
        """What may be somebody else's business, one line each: journals of other stores whose primary has the same
        name."""
        return tuple(f"journal: {stray}" for stray in self.strays if not stray.is_of_store)


@attrs.frozen(kw_only=True)
class ReconcileReport:
    """What comparing a primary and a replica came to: memories copied to the replica, deleted there, conflicts that
    were settled by taking one side, conflicts that are left, and memories that the replica does not take."""

    copied: int = 0
    deleted: int = 0
    settled: int = 0
    conflicts: int = 0
    refused: int = 0
