"""What an import did, counted while it runs."""

from __future__ import annotations

from typing import Final

import attrs

from memspine.transfer.items import BadLine

LISTED_MAX: Final = 100
"""How many bad lines, and how many different notes, a report lists; it counts all of them."""


@attrs.frozen(kw_only=True)
class ImportReport:
    """What became of the items. Each is counted once: as stored (new), replaced (newer than what was there),
    unchanged (there already), stale (older than what is there), waiting (for a primary that failed meanwhile, in the
    journal) or bad; of the bad ones, `conflicts` met another state
    of the same revision or another memory with their key.

    `bad` lists the first `LISTED_MAX` bad lines, `bad_total` counts them; `notes` says what was changed or not kept.
    After a dry run it says what would have been done.
    """

    stored: int = 0
    replaced: int = 0
    unchanged: int = 0
    stale: int = 0
    waiting: int = 0
    conflicts: int = 0
    bad: tuple[BadLine, ...] = ()
    bad_total: int = 0
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many items there were."""
        return self.stored + self.replaced + self.unchanged + self.stale + self.waiting + self.bad_total


@attrs.define
class Tally:
    """The numbers of a report while they grow."""

    stored: int = 0
    replaced: int = 0
    unchanged: int = 0
    stale: int = 0
    waiting: int = 0
    conflicts: int = 0
    bad_total: int = 0
    _bad: list[BadLine] = attrs.field(factory=list)
    _notes: dict[str, list[int]] = attrs.field(factory=dict)
    _remarks: list[str] = attrs.field(factory=list)
    _unlisted_notes: int = 0

    def bad(self, line: BadLine) -> None:
        """A line that does not go in."""
        self.bad_total += 1
        if len(self._bad) < LISTED_MAX:
            self._bad.append(line)

    def note(self, line: int, text: str) -> None:
        """Something about a line; the same about many lines is listed once."""
        if text in self._notes:
            self._notes[text][1] += 1
        elif len(self._notes) < LISTED_MAX:
            self._notes[text] = [line, 1]
        else:
            self._unlisted_notes += 1

    def remark(self, text: str) -> None:
        """Something about the import as a whole."""
        self._remarks.append(text)

    @property
    def handled(self) -> int:
        """How many items have found their place."""
        return self.stored + self.replaced + self.unchanged + self.stale + self.waiting + self.bad_total

    def report(self) -> ImportReport:
        """The report as it stands."""
        notes = [_told(text, first=first, count=count) for text, (first, count) in self._notes.items()]
        if self._unlisted_notes:
            notes.append(f"and {self._unlisted_notes} more notes")
        return ImportReport(
            stored=self.stored,
            replaced=self.replaced,
            unchanged=self.unchanged,
            stale=self.stale,
            waiting=self.waiting,
            conflicts=self.conflicts,
            bad=tuple(self._bad),
            bad_total=self.bad_total,
            notes=(*self._remarks, *notes),
        )


def _told(text: str, *, first: int, count: int) -> str:
    return f"line {first}: {text}" if count == 1 else f"line {first} and {count - 1} more: {text}"
