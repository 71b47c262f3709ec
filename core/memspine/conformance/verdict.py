"""What became of each clause."""

from __future__ import annotations

import enum
import importlib.metadata
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs
import pytest

from memspine.conformance.clauses import Clause
from memspine.conformance.subject import Subject
from memspine.contracts import CONTRACT, Capability


class Verdict(enum.StrEnum):
    """What can be said about one clause after a run."""

    PROVEN = "proven"
    FAILED = "failed"
    EXPECTED_FAILURE = "expected failure"
    NOT_CLAIMED = "not claimed"
    NOT_APPLICABLE = "not applicable"
    SKIPPED = "skipped"
    NOT_RUN = "not run"


@attrs.define
class Tally:
    """The outcomes of the tests that cite one clause."""

    passed: int = 0
    failed: int = 0
    expected: int = 0
    skipped: int = 0
    detail: str = ""


class Ledger:
    """The outcomes of a run, by clause."""

    def __init__(self, subject: Subject, clauses: Mapping[str, Clause], claimed: frozenset[Capability]) -> None:
        self.clauses = clauses
        self._subject = subject
        self._claimed = claimed
        self._expected = {failure.clause: failure for failure in subject.settings.expected_failures}
        self._excused: dict[str, str] = {}
        self._tallies = {id: Tally() for id in clauses}

    def excuse(self, id: str, reason: str) -> None:
        """A clause that means nothing for this plugin."""
        self._excused[id] = reason

    def applies(self, id: str) -> bool:
        """Whether the plugin has to keep the clause."""
        capability = self.clauses[id].capability
        return id not in self._excused and (capability is None or capability in self._claimed)

    def expected_reason(self, ids: Iterable[str]) -> str | None:
        """Why a test that cites these clauses is expected to fail; None when it is not."""
        for id in ids:
            if failure := self._expected.get(id):
                return " ".join(filter(None, (f"{id}: {failure.reason}", failure.issue)))
        return None

    def note(self, ids: Iterable[str], report: pytest.TestReport) -> None:
        """Count the outcome of a test."""
        for id in ids:
            tally = self._tallies[id]
            if hasattr(report, "wasxfail"):  # of the clauses that a test cites, those that were expected to fail
                tally.expected += id in self._expected
            elif report.failed:
                tally.failed += 1
                tally.detail = tally.detail or f"{report.nodeid}: {_last_line(report)}"
            elif report.skipped:
                tally.skipped += 1
                tally.detail = tally.detail or _last_line(report)
            else:
                tally.passed += 1

    def verdict(self, id: str) -> Verdict:
        """What can be said about a clause."""
        tally, clause = self._tallies[id], self.clauses[id]
        if id in self._excused:
            return Verdict.NOT_APPLICABLE
        if clause.capability is not None and clause.capability not in self._claimed:
            return Verdict.NOT_CLAIMED
        if tally.failed or (id in self._expected and tally.passed and not tally.expected):
            return Verdict.FAILED
        if tally.expected:
            return Verdict.EXPECTED_FAILURE
        if tally.skipped:
            return Verdict.SKIPPED if clause.capability is None else Verdict.NOT_APPLICABLE
        return Verdict.PROVEN if tally.passed else Verdict.NOT_RUN

    def objections(self) -> tuple[str, ...]:
        """Why the run is no proof, apart from tests that failed."""
        verdicts = {id: self.verdict(id) for id in self.clauses}
        found = [] if Verdict.PROVEN in verdicts.values() else ["0 clauses proven"]
        for id, verdict in verdicts.items():
            tally = self._tallies[id]
            if verdict is Verdict.SKIPPED:
                found.append(f"{id} was skipped: {tally.detail}")
            elif verdict is Verdict.FAILED and not tally.failed:
                found.append(f"{id} is kept, although its failure was expected: {self._expected[id].reason}")
        return tuple(found)

    def describe(self) -> str:
        """The plugin under test in words."""
        entry = self._subject.entry
        return f"{self._subject.contract} {self._subject.name!r} ({entry.distribution} {entry.version})"

    def summary(self) -> str:
        """The run in one line."""
        counts = Counter(self.verdict(id) for id in self.clauses)
        parts = [f"{counts[Verdict.PROVEN]} clauses proven, {counts[Verdict.FAILED]} failed"]
        others = (Verdict.EXPECTED_FAILURE, Verdict.SKIPPED, Verdict.NOT_RUN)
        parts += [f"{counts[verdict]} {verdict}" for verdict in others if counts[verdict]]
        if counts[Verdict.NOT_CLAIMED]:
            capabilities = {self.clauses[id].capability for id in self.clauses} - {None, *self._claimed}
            parts.append(f"{counts[Verdict.NOT_CLAIMED]} not claimed ({', '.join(sorted(map(str, capabilities)))})")
        if counts[Verdict.NOT_APPLICABLE]:
            ids = [id for id in self.clauses if self.verdict(id) is Verdict.NOT_APPLICABLE]
            parts.append(f"{counts[Verdict.NOT_APPLICABLE]} not applicable ({', '.join(ids)})")
        return ", ".join(parts)

    def write(self, file: Path) -> None:
        """The verdict on each clause as JSON."""
        clauses = {}
        for id, clause in self.clauses.items():
            tally = self._tallies[id]
            clauses[id] = {
                "verdict": self.verdict(id).value,
                "capability": clause.capability,
                "tests": tally.passed + tally.failed + tally.expected + tally.skipped,
                "detail": self._excused.get(id) or self.expected_reason([id]) or tally.detail,
            }
        report = {
            "contract": self._subject.contract,
            "contract_number": CONTRACT,
            "kit": _kit_version(),
            "plugin": self._subject.name,
            "distribution": self._subject.entry.distribution,
            "version": self._subject.entry.version,
            "capabilities": sorted(self._claimed),
            "volatile": self._subject.settings.volatile,
            "summary": self.summary(),
            "clauses": clauses,
        }
        file.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _last_line(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(getattr(crash, "message", report.longrepr)).partition("\n")[0]


def _kit_version() -> str:
    try:
        return importlib.metadata.version("memspine")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
