"""The table of measurements: what is measured and what is promised, what came out, and how a README shows it."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import apsw
import attrs

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
NOT_HERE = "not measured here"


@attrs.frozen
class Goal:
    """One row: what is measured and its limit, in the unit that both are shown in.

    `limit` is one number, or one for each of the numbers that quality is measured by. `most` says whether the limit is
    the most or the least that is allowed. `compares` names what the limit is compared with, where that is not what was
    measured itself.
    """

    what: str
    limit: float | tuple[float, ...]
    unit: str = "ms"
    most: bool = True
    compares: str = "measured"
    target: str = ""

    @property
    def shown(self) -> str:
        """The limit as a person reads it."""
        sign = "≤" if self.most else "≥"
        unit = "×" if self.compares == "ratio" else self.unit
        limits = self.limit if isinstance(self.limit, tuple) else (self.limit,)
        return self.target or f"{sign} {' / '.join(f'{limit:g}' for limit in limits)} {unit}"


_QUALITY = "any@5 / any@10 / all@10"
_STRANGERS = "with 150 000 rows of other owners"

GOALS: Mapping[str, Goal] = {
    "import": Goal("`from memspine import MemoryManager`, over bare `python -c pass`", 80),
    "help": Goal("`memspine --help`, whole process", 150),
    "command-search": Goal("`memspine search` on 10 000 memories, whole process", 250),
    "size": Goal("size of `memspine[sqlite,cli]` without Python itself", 40, "MB"),
    "search-10000": Goal("keyword search through MemoryManager, 10 000 memories of one owner", 3),
    "search-100000": Goal("the same, 100 000 memories of one owner", 15),
    "index": Goal("index statement alone, owner of 1 000 in a store of 1 000 000", 0.5),
    "index-alone": Goal("what it takes longer than in a store of 1 000", 0.3),
    "create": Goal("one create, over its SQL statements on bare apsw", 2.5, compares="ratio"),
    "bulk": Goal(
        "bulk import, over bare `executemany` of analysed rows", 0.3, "memories/s", most=False, compares="ratio"
    ),
    "resident": Goal("resident memory of a process that serves 1 000 000 memories", 200, "MB"),
    "quality-short": Goal(f"keyword leg, {_QUALITY}, short turns", (62, 71, 59), "%", most=False),
    "quality-long": Goal(f"keyword leg, {_QUALITY}, long messages", (56, 72, 36), "%", most=False),
    "strangers-short": Goal(
        f"short turns again, {_STRANGERS}", 0.5, "%", compares="shift", target="within 0.5 points of that"
    ),
    "strangers-long": Goal(
        f"long messages again, {_STRANGERS}", 0.5, "%", compares="shift", target="within 0.5 points of that"
    ),
    "ranking-short": Goal(
        f"kernel's ranking alone, postings in memory, {_QUALITY}, short turns", (65.1, 72.6, 60.9), "%", most=False
    ),
    "ranking-long": Goal(
        f"kernel's ranking alone, postings in memory, {_QUALITY}, long messages", (68.5, 75.0, 39.8), "%", most=False
    ),
}


@attrs.frozen(kw_only=True)
class Row:
    """What one measurement gave. `missing` says why there is none."""

    measured: float | tuple[float, ...] = 0.0
    baseline: str = ""
    ratio: float | None = None
    shift: float | None = None
    missing: str = ""


@attrs.define
class Board:
    """Everything that one run measured."""

    rows: dict[str, Row] = attrs.field(factory=dict)
    profile: dict[str, object] = attrs.field(factory=dict)

    def record(self, name: str, **values: object) -> None:
        """Keep the result of one row."""
        assert name in GOALS, name
        self.rows[name] = Row(**values)

    def missing(self, *names: str, reason: str) -> None:
        """Say of rows that this machine cannot measure them."""
        for name in names:
            self.record(name, missing=reason)

    def table(self) -> str:
        """The table in Markdown, and the line about the machine."""
        lines = ["| what | target | measured (median) | baseline in the same run | ratio | met? |", "|" + " --- |" * 6]
        lines += [f"| {' | '.join(self._cells(name, goal))} |" for name, goal in GOALS.items()]
        return "\n".join([*lines, "", machine()])

    def _cells(self, name: str, goal: Goal) -> tuple[str, ...]:
        row = self.rows.get(name) or Row(missing="not run")
        if row.missing:
            return goal.what, goal.shown, f"{NOT_HERE}: {row.missing}", "", "", ""
        measured = f"{number(row.measured)} {goal.unit}"
        ratio = "" if row.ratio is None else f"{number(row.ratio)} ×"
        return goal.what, goal.shown, measured, row.baseline, ratio, verdict(goal, row)


def verdict(goal: Goal, row: Row) -> str:
    """Whether a target is met, and by how much it is missed."""
    reached = getattr(row, goal.compares)
    if isinstance(goal.limit, tuple):
        missed = [f"{limit - value:.1f}" for value, limit in zip(reached, goal.limit, strict=True) if value < limit]
        return f"no: {' and '.join(missed)} points short" if missed else "yes"
    if goal.compares == "shift":
        return "yes" if reached <= goal.limit else f"no: {number(reached)} points apart"
    met = reached <= goal.limit if goal.most else reached >= goal.limit
    return "yes" if met else f"no: {number(reached / goal.limit)} × the target"


def number(value: float | Sequence[float]) -> str:
    """A number in three digits, or several of one decimal."""
    if isinstance(value, Sequence):
        return " / ".join(f"{part:.1f}" if isinstance(part, float) else str(part) for part in value)
    if isinstance(value, int):
        return str(value)
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 2
    rounded = f"{value:.{digits}f}"
    return f"{int(rounded):,}".replace(",", " ") if digits == 0 else rounded


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


def write_into(file: Path, table: str) -> None:
    """Replace what stands between the marks of a file."""
    before, begin, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert all((begin, end)), f"{file.name} has no region {BEGIN} … {END}"
    file.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
