"""What must be in a store, from what was answered: shared by the program that writes and the test that compares.

The log has a line before each write and one after it. A write without the second line was cut off.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import attrs

GONE = ""
"""The content of a memory that is not there."""

DONE = ("done", "pending")
"""Outcomes that are a promise."""


@attrs.define
class Fate:
    """What is known of one memory: each state that it may be in, each that it was in since it last was surely gone,
    whether the last promise waits for the primary, whether there ever was one, and the last revision (0: not known)."""

    may_be: set[str] = attrs.field(factory=lambda: {GONE})
    was: set[str] = attrs.field(factory=lambda: {GONE})
    is_pending: bool = False
    is_promised: bool = False
    revision: int = 0

    @property
    def is_gone(self):
        """Whether it is surely not there."""
        return self.may_be == {GONE}

    @property
    def is_there(self):
        """Whether it surely is there."""
        return GONE not in self.may_be


@attrs.define
class Belief:
    """The fate of every memory by owner and id, how many were promised, and what contradicts it."""

    fates: dict[str, dict[str, Fate]] = attrs.field(factory=lambda: defaultdict(dict))
    promised: Counter = attrs.field(factory=Counter)
    faults: list[str] = attrs.field(factory=list)
    open: dict[int, dict] = attrs.field(factory=dict)
    lines: int = 0
    outcomes: Counter = attrs.field(factory=Counter)
    is_finished: bool = False

    @classmethod
    def read(cls, path):
        """What a log says; writes that were cut off may have been done."""
        belief = cls()
        data = path.read_bytes() if path.exists() else b""
        for line in data[: data.rfind(b"\n") + 1].splitlines():
            belief.note(json.loads(line))
        belief.cut_off()
        return belief

    def cut_off(self, owner=None):
        """Count writes without an end (of an owner) as cut off."""
        for number, begun in list(self.open.items()):
            if owner is None or begun["owner"] == owner:
                self.note({"n": number, "outcome": "cut off"})

    def fate(self, owner, id):
        """What is known of a memory."""
        return self.fates[owner].setdefault(id, Fate())

    def known(self):
        """Every memory that was written, by owner and id, with its fate."""
        return [((owner, id), fate) for owner, fates in self.fates.items() for id, fate in fates.items()]

    def note(self, line):
        """Take in a line of the log."""
        self.lines += 1
        if "fault" in line:
            self.faults.append(line["fault"])
        elif "finished" in line:
            self.is_finished = True
        elif "outcome" not in line:
            self.cut_off(
                line["owner"]
            )  # one writes for an owner at a time, and the process of the one before was killed
            self.open[line["n"]] = line
        elif (begun := self.open.pop(line["n"], None)) is not None:
            self.outcomes[line["outcome"]] += 1
            self._end(begun, line)

    def _end(self, begun, line):
        fate, outcome = self.fate(begun["owner"], begun["id"]), line["outcome"]
        if outcome in DONE:
            self._promised(fate, begun, line)
        elif outcome in {"unknown", "cut off"}:
            fate.may_be.add(begun["content"])
            fate.was.add(begun["content"])
        elif outcome == "missing":
            if fate.is_there:
                self.faults.append(f"{begun} found nothing, where there must be one of {sorted(fate.may_be)}")
            fate.may_be = {GONE}
        elif outcome != "refused":
            self.faults.append(f"{begun} ended with {line}")

    def _promised(self, fate, begun, line):
        if fate.is_there and 0 < line["revision"] <= fate.revision:
            self.faults.append(f"{begun} got revision {line['revision']} after {fate.revision}")
        self.promised[begun["owner"]] += not fate.is_promised
        fate.is_promised = True
        fate.revision = line["revision"]
        fate.is_pending = line["outcome"] == "pending"
        fate.may_be = {begun["content"]}
        if begun["content"] == GONE and not fate.is_pending:
            fate.was = set()
        fate.was.add(begun["content"])
