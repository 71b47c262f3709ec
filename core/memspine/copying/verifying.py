"""Whether two stores hold the same memories: equal sets of (id, revision, content hash), looked at from both sides.

A store without `put` counts revisions anew when a memory is made again, if it counts at all: beside one of those,
revisions say nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial
from typing import Final, Literal

import attrs

from memspine.chain import Chain
from memspine.contracts import Capability
from memspine.copying.calls import held, listed
from memspine.model import Memory, MemoryRef, Scope

LISTED_MAX: Final = 100

Difference = Literal["only in the first", "only in the second", "another revision", "other times", "another content"]


@attrs.frozen(kw_only=True)
class Differing:
    """One memory that is not the same on both sides."""

    ref: MemoryRef
    what: Difference


@attrs.frozen(kw_only=True)
class VerifyReport:
    """How many memories are the same on both sides, and how many are not, of which the first `LISTED_MAX` are
    listed. `without_revisions` names the stores that keep no revisions; where there is one, none were compared."""

    same: int = 0
    different: int = 0
    listed: tuple[Differing, ...] = ()
    without_revisions: tuple[str, ...] = ()


async def verify(first: Chain, second: Chain, *, owner: str | None = None) -> VerifyReport:
    """Compare what two stores hold of an owner (None: of everyone). What has expired counts as absent; a store that is
    written meanwhile may differ by that. Raises BackendUnavailable.

    Both are listed in the order of time and id, side by side, so that neither is ever held as a whole; what stands at
    another time on the other side is looked up by its id.
    """
    same, different = 0, 0
    listed: list[Differing] = []
    without = [place.primary.name for place in (first, second) if not await _keeps_revisions(place)]
    async for ref, what in compared(first, second, owner=owner, compares_revisions=not without):
        if what == "same":
            same += 1
        else:
            different += 1
            if len(listed) < LISTED_MAX:
                listed.append(Differing(ref=ref, what=what))
    return VerifyReport(
        same=same,
        different=different,
        listed=tuple(sorted(listed, key=lambda one: one.ref)),
        without_revisions=tuple(without),
    )


async def _keeps_revisions(place: Chain) -> bool:
    return Capability.PUT in await place.capabilities()


async def compared(
    first: Chain, second: Chain, *, owner: str | None = None, compares_revisions: bool = True
) -> AsyncIterator[tuple[MemoryRef, Difference | Literal["same"]]]:
    """Every memory that either store has, once, and how it differs."""
    scope = Scope.everyone() if owner is None else Scope.of_owner(owner)
    differs = partial(_difference, first=first, second=second, compares_revisions=compares_revisions)
    async for mine, others in _side_by_side(_memories(first, scope), _memories(second, scope)):
        for ref in mine.keys() | others.keys():
            what = await differs(ref, mine.get(ref), others.get(ref))
            if what != "told":
                yield ref, what


Group = dict[MemoryRef, Memory]
"""The memories of one time of creation and one id: of one owner, or of several that use the same id."""


async def _side_by_side(
    first: AsyncIterator[Group], second: AsyncIterator[Group]
) -> AsyncIterator[tuple[Group, Group]]:
    mine, others = await anext(first, None), await anext(second, None)
    while mine is not None or others is not None:
        if others is None or (mine is not None and _place(mine) < _place(others)):
            yield mine or {}, {}
            mine = await anext(first, None)
        elif mine is None or _place(others) < _place(mine):
            yield {}, others
            others = await anext(second, None)
        else:
            yield mine, others
            mine, others = await anext(first, None), await anext(second, None)


def _place(group: Group) -> tuple[datetime, str]:
    """Where it stands in every list."""
    memory = next(iter(group.values()))
    return memory.created_at, memory.id


async def _memories(chain: Chain, scope: Scope) -> AsyncIterator[Group]:
    """All memories, oldest first."""
    group: Group = {}
    cursor: str | None = None
    while True:
        page = await listed(chain, scope, cursor)
        for memory in page.memories:
            if group and _place(group) != (memory.created_at, memory.id):
                yield group
                group = {}
            group[MemoryRef(memory.owner, memory.id)] = memory
        cursor = page.cursor
        if cursor is None:
            break
    if group:
        yield group


async def _difference(
    ref: MemoryRef,
    mine: Memory | None,
    other: Memory | None,
    *,
    first: Chain,
    second: Chain,
    compares_revisions: bool,
) -> Difference | Literal["same", "told"]:
    """How a memory differs; `told` for one that is at another time in the first store, where it is compared."""
    if mine is None:
        return "only in the second" if await _get(first, ref) is None else "told"
    other = other or await _get(second, ref)
    if other is None:
        return "only in the first"
    if compares_revisions and mine.revision != other.revision:
        return "another revision"
    if mine.content_hash == other.content_hash:
        return "same"
    timed = attrs.evolve(other, created_at=mine.created_at, updated_at=mine.updated_at)
    return "other times" if mine.content_hash == timed.content_hash else "another content"


async def _get(chain: Chain, ref: MemoryRef) -> Memory | None:
    return (await held(chain, [ref])).get(ref)
