"""Memories in the order of their sessions, and who stands beside whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from memspine.model import MemoryRef, Neighbour

Lines = Mapping[tuple[str, str], Sequence[str]]
"""The ids of each owner's sessions, in the order of created_at and, where that is the same, of their arrival."""


class Placed(Protocol):
    """What has a place in a session: a memory, or the terms of one."""

    @property
    def id(self) -> str:
        """Unique within its owner."""
        ...

    @property
    def owner(self) -> str:
        """Whose it is."""
        ...

    @property
    def session(self) -> str:
        """Where it belongs; the empty session is none."""
        ...

    @property
    def created_at(self) -> datetime:
        """When it happened."""
        ...


def lines_of(members: Iterable[Placed]) -> Lines:
    """The lines that these make, who are given in the order of their arrival."""
    lines: dict[tuple[str, str], list[Placed]] = {}
    for member in members:
        lines.setdefault((member.owner, member.session), []).append(member)
    return {place: [m.id for m in sorted(line, key=lambda m: m.created_at)] for place, line in lines.items()}


def around(member: Placed, lines: Lines, *, before: int, after: int) -> Iterator[Neighbour]:
    """The neighbours of a member, in their order."""
    if not member.session:
        return
    line = lines[member.owner, member.session]
    place = line.index(member.id)
    for other in range(max(place - before, 0), min(place + after, len(line) - 1) + 1):
        if other != place:
            yield Neighbour(of=MemoryRef(member.owner, member.id), id=line[other], offset=other - place)
