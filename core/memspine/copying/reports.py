"""What a copy comes to: counts, what was refused, and what the target does not keep."""

from __future__ import annotations

from typing import Final, Literal

import attrs

from memspine.contracts import Capability
from memspine.model import MemoryRef

LISTED_MAX: Final = 100

LossKind = Literal["ids", "revisions", "history", "telemetry", "vectors"]


@attrs.frozen
class Loss:
    """One kind of thing that the target does not get, and in `detail` exactly what of it."""

    what: LossKind
    detail: str

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}"


@attrs.frozen
class Refusal:
    """A memory that the target did not take, and why."""

    ref: MemoryRef
    reason: str


@attrs.frozen(kw_only=True)
class CopyReport:
    """What became of the memories. Each is counted once: as copied (new or newer than what was there), unchanged,
    stale (older than what is there), in conflict or refused; the first `LISTED_MAX` of the last two are listed.
    `deleted` are those that the source had deleted and the target not, `renamed` those that have another id in the
    target. `losses` lists what the target does not keep. After a dry run it says what would have been done."""

    copied: int = 0
    unchanged: int = 0
    stale: int = 0
    conflicts: int = 0
    refused: int = 0
    deleted: int = 0
    renamed: int = 0
    conflicting: tuple[MemoryRef, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    losses: tuple[Loss, ...] = ()

    @property
    def total(self) -> int:
        """How many memories there were."""
        return self.copied + self.unchanged + self.stale + self.conflicts + self.refused


@attrs.define
class Tally:
    """The counts while a copy runs. `in_a_row` is how many were refused since something was taken; `states_left` are
    the memories of which an earlier state was not taken."""

    copied: int = 0
    unchanged: int = 0
    stale: int = 0
    refused: int = 0
    deleted: int = 0
    renamed: int = 0
    in_a_row: int = 0
    states_left: dict[MemoryRef, None] = attrs.field(factory=dict)
    conflicting: dict[MemoryRef, None] = attrs.field(factory=dict)
    refusals: list[Refusal] = attrs.field(factory=list)

    @property
    def seen(self) -> int:
        """How many memories were looked at."""
        return self.copied + self.unchanged + self.stale + len(self.conflicting) + self.refused

    def conflict(self, ref: MemoryRef) -> None:
        """Both sides have something else under one id or key, and neither is newer."""
        self.conflicting[ref] = None

    def refuse(self, ref: MemoryRef, reason: str) -> None:
        """The target does not take a memory."""
        self.refused += 1
        self.in_a_row += 1
        if len(self.refusals) < LISTED_MAX:
            self.refusals.append(Refusal(ref, reason))

    def report(self, losses: tuple[Loss, ...]) -> CopyReport:
        """What it came to."""
        return CopyReport(
            copied=self.copied,
            unchanged=self.unchanged,
            stale=self.stale,
            conflicts=len(self.conflicting),
            refused=self.refused,
            deleted=self.deleted,
            renamed=self.renamed,
            conflicting=tuple(self.conflicting)[:LISTED_MAX],
            refusals=tuple(self.refusals),
            losses=losses,
        )


@attrs.frozen(kw_only=True)
class Traits:
    """What decides what is lost: the capabilities of both sides, and whether the target gives ids and times of creation
    of its own."""

    source: frozenset[Capability]
    target: frozenset[Capability]
    mints_ids: bool = False
    mints_times: bool = False

    @property
    def takes_whole(self) -> bool:
        """Whether the target takes records as they are."""
        return Capability.PUT in self.target

    @property
    def takes_history(self) -> bool:
        """Whether earlier states come along."""
        return self.takes_whole and Capability.HISTORY in self.source & self.target


def losses(traits: Traits, tally: Tally) -> tuple[Loss, ...]:
    """What the target does not get of what the source has."""
    found: list[Loss] = []
    if not traits.takes_whole:
        if traits.mints_ids:
            found.append(Loss("ids", "the target gives ids of its own"))
        elif tally.renamed:
            found.append(Loss("ids", f"{tally.renamed} memories have other ids in the target"))
        times = "change and creation" if traits.mints_times else "change"
        found.append(Loss("revisions", f"the target counts anew, and has times of {times} of its own"))
    if history := _history(traits, len(tally.states_left)):
        found.append(Loss("history", history))
    if not traits.takes_whole:
        found.append(Loss("telemetry", "how often, and when last, each memory was recalled"))
    return (*found, Loss("vectors", "made anew for the target, as its keyword index is"))


def _history(traits: Traits, states_left: int) -> str:
    parts: list[str] = []
    if Capability.HISTORY not in traits.source:
        parts.append("earlier states, which the source does not keep")
    elif not traits.takes_history:
        parts.append("earlier states")
    elif states_left:
        parts.append(f"earlier states of some memories ({states_left} of them), which the target did not take")
    if Capability.CHANGES not in traits.source:
        parts.append("deletions, of which the source does not tell")
    elif not traits.takes_whole:
        parts.append("deletions")
    return "; ".join(parts)
