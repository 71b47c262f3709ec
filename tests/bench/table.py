"""The tables of measurements, and how a README shows them."""

import os
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import apsw
import attrs

from .goals import GOALS, KINDS, NOT_HERE, Goal, Row, number, verdict

ROOT = Path(__file__).resolve().parents[2]
CHAINS = ("create-replica", "create-spooled", "get-hanging", "get-first", "drain", "copy", "copy-peak")
TABLES = {"measured": tuple(name for name in GOALS if name not in CHAINS), "chains": CHAINS}
"""The rows of each table of the README, in their order. A table is written when a run came to all of its rows."""
SHOWN = ("any@5", "any@10", "all@10", "NDCG@10", "S_any@5", "S_all@10")
MEANING = """### Quality

Percent of the questions of which a wanted memory is among the first 5 or 10 (`any`), or all are among the first 10 \
(`all`); `S_` is the same of the sessions that they lie in. Each conversation is an owner in a store of its own, and \
no language model takes part."""
COMMAND = "memspine bench retrieval conversations-{kind}.json --settings all --source static --source onnx"


@attrs.frozen(kw_only=True)
class Quality:
    """What all settings came to on one file: the percentages of `SHOWN` for each, and how many questions it has."""

    rows: Mapping[str, tuple[float, ...]]
    questions: int
    error: float
    """One standard error of any@10, in points."""


@attrs.define
class Board:
    """Everything that one run measured."""

    rows: dict[str, Row] = attrs.field(factory=dict)
    quality: dict[str, Quality] = attrs.field(factory=dict)
    profile: dict[str, object] = attrs.field(factory=dict)

    def record(self, name: str, **values: object) -> None:
        """Keep the result of one row."""
        assert name in GOALS, name
        self.rows[name] = Row(**values)

    def missing(self, *names: str, reason: str) -> None:
        """Say of rows that this machine cannot measure them."""
        for name in names:
            self.record(name, missing=reason)

    def lacking(self, table: str) -> list[str]:
        """The rows of a table that this run did not come to."""
        return sorted(set(TABLES[table]) - self.rows.keys())

    def measured_table(self, table: str) -> str:
        """The table in Markdown, and the line about the machine."""
        lines = ["| what | target | measured (median) | baseline in the same run | ratio | met? |", "|" + " --- |" * 6]
        lines += [f"| {' | '.join(self._cells(name, GOALS[name]))} |" for name in TABLES[table]]
        return "\n".join([*lines, "", machine()])

    def quality_table(self) -> str:
        """All settings on both files, what one standard error is, and how to measure it again."""
        if not self.quality:
            return f"{MEANING}\n\n{NOT_HERE}: the conversations lack"
        head = [""] + [f"{kind} {name}" if not place else name for kind in KINDS for place, name in enumerate(SHOWN)]
        lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
        names = dict.fromkeys(name for one in self.quality.values() for name in one.rows)
        for name in names:
            cells = [self._percentages(kind, name) for kind in KINDS]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        said = " and ".join(
            f"{one.error:.1f} points on the {one.questions} questions about {KINDS[kind]}"
            for kind, one in self.quality.items()
        )
        commands = [COMMAND.format(kind=kind) for kind in KINDS]
        code = "\n".join(["```sh", "memspine models fetch all-MiniLM-L6-v2", *commands, "```"])
        return "\n".join([MEANING, "", *lines, "", f"One standard error of any@10 is {said}.", "", code])

    def _percentages(self, kind: str, name: str) -> str:
        found = self.quality[kind].rows.get(name) if kind in self.quality else None
        return " | ".join(f"{value:.1f}" for value in found) if found else " | ".join([""] * len(SHOWN))

    def _cells(self, name: str, goal: Goal) -> tuple[str, ...]:
        row = self.rows.get(name) or Row(missing="not run")
        if row.missing:
            return goal.what, goal.shown, f"{NOT_HERE}: {row.missing}", "", "", ""
        measured = f"{number(row.measured)} {goal.unit}"
        ratio = "" if row.ratio is None else f"{number(row.ratio)} ×"
        return goal.what, goal.shown, measured, row.baseline, ratio, verdict(goal, row)


def machine() -> str:
    """What the numbers depend on, without a name of the machine or a path on it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30 if hasattr(os, "sysconf") else 0
    facts = [_processor(), f"{os.cpu_count()} cores"]
    if memory:
        facts.append(f"{memory:.0f} GB")
    facts += [f"Python {platform.python_version()}", f"SQLite {apsw.sqlite_lib_version()}"]
    if hasattr(os, "getloadavg"):
        facts.append(f"load {os.getloadavg()[1]:.1f} while measuring")
    return f"{', '.join(facts)}, {datetime.now(UTC):%Y-%m-%d}."


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    name = found[1] if found else platform.machine()
    return " ".join(re.sub(r"\((?:R|TM)\)", "", name).split())


def write_into(file: Path, regions: Mapping[str, str]) -> None:
    """Replace what stands between the marks of a file, by the name in the marks; all of them or none."""
    text = file.read_text(encoding="utf-8")
    for name, content in regions.items():
        marks = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, begin, rest = text.partition(marks[0])
        _, end, after = rest.partition(marks[1])
        assert all((begin, end)), f"{file.name} has no region {' … '.join(marks)}"
        text = f"{before}{begin}\n{content}\n{end}{after}"
    file.write_text(text, encoding="utf-8")
