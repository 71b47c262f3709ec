"""The run: which tests belong to the chosen contract, what became of each clause, the exit code."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from memspine.conformance.clauses import cited_clauses, read_clauses
from memspine.conformance.options import CONTRACTS, NAME_OPTIONS
from memspine.conformance.subject import Subject
from memspine.conformance.verdict import Ledger
from memspine.contracts import Capability
from memspine.errors import MemspineError

_PACKAGE = Path(__file__).resolve().parent
# What a store that declares itself volatile need not keep.
_DURABLE = frozenset({"MB-81", "VS-42", "VS-45", "VS-134"})
# The folders of tests that belong to more than one contract.
_SHARED: Final = {"lexical": frozenset({"backend", "vectors"})}


class KitSession:
    """The pytest plugin that is active while the kit runs."""

    def __init__(self, subject: Subject, ledger: Ledger, *, chosen: frozenset[str], report: Path | None) -> None:
        self.subject = subject
        self._ledger = ledger
        self._chosen = chosen
        self._report = report

    @classmethod
    def of(cls, config: pytest.Config) -> KitSession:
        """From the options. Raises UsageError for an unknown plugin, clause or option of the plugin."""
        contract = config.getoption("--memspine-contract")
        file, name = config.getoption("--memspine-config"), config.getoption(NAME_OPTIONS[contract])
        if not name:
            raise pytest.UsageError(f"name the {contract} to prove: {NAME_OPTIONS[contract]} NAME")
        try:
            subject = Subject.find(contract, name, config=Path(file) if file else None)
            claimed = claimed_capabilities(subject)
        except MemspineError as error:
            raise pytest.UsageError(str(error)) from error
        clauses = read_clauses(contract)
        ledger = Ledger(subject, clauses, claimed)
        if subject.settings.volatile:
            for id in _DURABLE & clauses.keys():
                ledger.excuse(id, "the store is declared volatile")
        listed = config.getoption("--memspine-clauses")
        chosen = frozenset(filter(None, (listed or "").split(",")))
        expected = {failure.clause for failure in subject.settings.expected_failures}
        if unknown := sorted((chosen | expected) - clauses.keys()):
            raise pytest.UsageError(f"the contract {contract!r} has no clause {', '.join(unknown)}")
        report = config.getoption("--memspine-report")
        return cls(subject, ledger, chosen=chosen, report=Path(report) if report else None)

    def pytest_report_header(self) -> str:
        """Who is under test."""
        return f"memspine conformance: {self._ledger.describe()}"

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Only the folder of the chosen contract is collected, and those that it shares with others."""
        if collection_path.parent != _PACKAGE or not collection_path.is_dir():
            return None
        contract = self.subject.contract
        others = {"reference", *CONTRACTS} - {contract}
        others |= {folder for folder, contracts in _SHARED.items() if contract not in contracts}
        return True if collection_path.name in others else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Tests of what is not claimed, not applicable or not asked for do not run; the ledger knows them."""
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            ids = self._cited(item)
            if ids:
                (kept if self._wanted(ids) else dropped).append(item)
            else:
                kept.append(item)
        if dropped:
            config.hook.pytest_deselected(items=dropped)
        items[:] = kept

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the outcome; an expected failure is no failure."""
        report = yield
        ids = self._cited(item)
        if ids and (report.when == "call" or not report.passed):
            expected = self._ledger.expected_reason(ids)
            if report.failed and expected is not None:
                report.outcome, report.wasxfail = "skipped", expected
            self._ledger.note(ids, report)
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Nothing proven is a failure, and so is a clause that was skipped or passed against expectation."""
        if self._report is not None:
            self._ledger.write(self._report)
        if session.exitstatus == pytest.ExitCode.OK and self._ledger.objections():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The verdict in one line, and what stands in the way of a good one."""
        terminalreporter.section("memspine conformance")
        for objection in self._ledger.objections():
            terminalreporter.line(objection)
        terminalreporter.line(f"{self._ledger.describe()}: {self._ledger.summary()}")

    def _cited(self, item: pytest.Item) -> tuple[str, ...]:
        """The clauses of this contract that a test cites; one that contracts share cites those of each."""
        cited = cited_clauses(getattr(item, "function", None))
        ids = tuple(id for id in cited if id in self._ledger.clauses)
        if cited and not ids:
            raise pytest.UsageError(f"{item.nodeid} cites {', '.join(cited)}, which the contract does not have")
        return ids

    def _wanted(self, ids: tuple[str, ...]) -> bool:
        if self._chosen and not self._chosen.intersection(ids):
            return False
        return all(self._ledger.applies(id) for id in ids)


def claimed_capabilities(subject: Subject) -> frozenset[Capability]:
    """What the plugin can do, as it says once it is opened."""

    async def ask() -> frozenset[Capability]:
        async with subject.open(Path(folder)) as opened:
            claimed: frozenset[Capability] = getattr(opened, "capabilities", frozenset())
            return claimed

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(ask())
