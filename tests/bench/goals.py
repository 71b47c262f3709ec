"""What is measured and what is promised of it: one goal a row of the table."""

from collections.abc import Mapping, Sequence

import attrs

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
        return self.target or f"{sign} {' / '.join(f'{limit:g}'.replace('-', '−') for limit in limits)} {unit}"


@attrs.frozen(kw_only=True)
class Row:
    """What one measurement gave. `missing` says why there is none."""

    measured: float | tuple[float, ...] = 0.0
    baseline: str = ""
    ratio: float | None = None
    shift: float | None = None
    missing: str = ""


MEASURES = ("any@5", "any@10", "all@10")
KINDS: Mapping[str, str] = {"short": "short turns", "long": "long messages"}
STATIC, MINILM = "static", "minilm"
MODELS: Mapping[str, str] = {STATIC: "shipped model", MINILM: "MiniLM"}
"""The embedding sources that are measured, and how the tables call them."""

_BYTES = 384
_BESIDE = 120  # what a vector may take beside its numbers

_START = {
    "import": Goal("`from memspine import MemoryManager`, over bare `python -c pass`", 80),
    "help": Goal("`memspine --help`, whole process", 150),
    "command-search": Goal("`memspine search` on 10 000 memories, whole process, words alone", 250),
    "command-static": Goal("the same, words and meaning, shipped model", 400),
    "command-minilm": Goal("the same, words and meaning, MiniLM", 700),
    "peak-static": Goal("resident memory of that process, shipped model", 140, "MB"),
    "peak-minilm": Goal("resident memory of that process, MiniLM", 230, "MB"),
    "size": Goal("size of `memspine[sqlite,cli]` without Python itself", 40, "MB"),
    "size-local": Goal("size of `memspine[local]` without Python itself", 140, "MB"),
    "wheel-static": Goal("wheel with the shipped model", 12, "MB"),
}
_SPEED = {
    "search-10000": Goal("keyword search through MemoryManager, 10 000 memories of one owner", 3),
    "search-100000": Goal("the same, 100 000 memories of one owner", 15),
    "hybrid-1000": Goal("words and meaning through MemoryManager, shipped model, 1 000 memories of one owner", 2),
    "hybrid-10000": Goal("the same, 10 000 memories of one owner", 5),
    "hybrid-100000": Goal("the same, 100 000 memories of one owner", 20),
    "minilm-query": Goal("what MiniLM adds to a question, over the bare model", 1.3, compares="ratio"),
    "leg-numpy": Goal(
        "nearest of 100 000 vectors of 384 numbers, numpy, over bare `matrix @ query` and `argpartition`",
        1.5,
        compares="ratio",
    ),
    "leg-sqlite-vec": Goal("the same, sqlite-vec, over its bare statement", 1.3, compares="ratio"),
    "index": Goal("index statement alone, owner of 1 000 in a store of 1 000 000", 0.5),
    "index-alone": Goal("what it takes longer than in a store of 1 000", 0.3),
    "create": Goal("one create, over its SQL statements on bare apsw", 2.5, compares="ratio"),
    "bulk": Goal(
        "bulk import, over bare `executemany` of analysed rows", 0.3, "memories/s", most=False, compares="ratio"
    ),
    "copy": Goal(
        "copy of 100 000 memories, SQLite to SQLite, over bulk import", 0.5, "memories/s", most=False, compares="ratio"
    ),
    "copy-peak": Goal("resident memory of that copy", 120, "MB"),
    "create-replica": Goal("one create with a replica that follows, over the same without", 1.2, compares="ratio"),
    "create-spooled": Goal(
        "one create while the primary is down, over a bare commit of its row in the journal", 2, compares="ratio"
    ),
    "get-hanging": Goal(
        "get from a replica while the primary hangs and is left alone, over the replica alone, 99th percentile",
        1.2,
        compares="ratio",
    ),
    "get-first": Goal(
        "first get after the primary began to hang, longest of 3", 1, compares="ratio", target="≤ the deadline"
    ),
    "drain": Goal(
        "10 000 writes that waited, done by SQLite, over bulk import", 0.5, "memories/s", most=False, compares="ratio"
    ),
    "indexing-static": Goal("making vectors of memories, shipped model", 6000, "memories/s", most=False),
    "indexing-minilm": Goal(
        "the same, MiniLM with 2 threads, over the bare model", 0.8, "memories/s", most=False, compares="ratio"
    ),
    "resident": Goal("resident memory of a process that serves 1 000 000 memories", 200, "MB"),
    "bytes-none": Goal("bytes of the file for each vector of 384 numbers, float32", 4 * _BYTES + _BESIDE, "bytes"),
    "bytes-int8": Goal("the same, int8", _BYTES + _BESIDE, "bytes"),
    "bytes-binary": Goal("the same, binary with its float32", _BYTES // 8 + 4 * _BYTES + _BESIDE, "bytes"),
    "bytes-owners": Goal("the same, float32, 10 000 owners with 3 vectors each", 2, "MB", compares="ratio"),
}


def _quality(kind: str, name: str, *, keyword: Sequence[float], hybrid: Mapping[str, tuple[float, ...]]) -> dict:
    """The rows of one file of conversations. Its legs may be better by what is sampling alone."""
    apart = {"short": 1.0, "long": 2.0}[kind]
    sessions = {"short": ("S_any@5 / S_all@10", (93.0, 90.0)), "long": ("S_all@10", (99.0,))}[kind]
    measures = " / ".join(MEASURES)
    rows = {f"quality-{kind}": Goal(f"words alone, {measures}, {name}", tuple(keyword), "%", most=False)}
    for model, called in MODELS.items():
        both = f"words and meaning, {called}"
        rows[f"hybrid-{model}-{kind}"] = Goal(f"{both}, {measures}, {name}", hybrid[model], "%", most=False)
        rows[f"sessions-{model}-{kind}"] = Goal(f"{both}, {sessions[0]}, {name}", sessions[1], "%", most=False)
        rows[f"legs-{model}-{kind}"] = Goal(
            f"{both}, worst of 5 measures against the better leg, {name}", -apart, "points", most=False
        )
    return rows


def _strangers(kind: str, name: str) -> dict:
    apart = "within 0.5 points of that"
    among = "among 150 000 memories of other owners"
    return {
        f"strangers-{kind}": Goal(f"words alone, {among}, {name}", 0.5, "%", compares="shift", target=apart),
        f"strangers-hybrid-{kind}": Goal(
            f"words and meaning, shipped model, {among}, {name}", 0.5, "%", compares="shift", target=apart
        ),
    }


_RANKING = "kernel's ranking alone, postings in memory"
GOALS: Mapping[str, Goal] = {
    **_START,
    **_SPEED,
    **_quality("short", KINDS["short"], keyword=(77, 86, 73), hybrid={STATIC: (78, 87, 74), MINILM: (81, 89, 76)}),
    **_quality("long", KINDS["long"], keyword=(62, 73, 40), hybrid={STATIC: (66, 76, 43), MINILM: (75, 82, 48)}),
    **_strangers("short", KINDS["short"]),
    **_strangers("long", KINDS["long"]),
    "ranking-short": Goal(f"{_RANKING}, {' / '.join(MEASURES)}, short turns", (65.1, 72.6, 60.9), "%", most=False),
    "ranking-long": Goal(f"{_RANKING}, {' / '.join(MEASURES)}, long messages", (68.5, 75.0, 39.8), "%", most=False),
}


def verdict(goal: Goal, row: Row) -> str:
    """Whether a target is met, and by how much it is missed."""
    reached = getattr(row, goal.compares)
    if isinstance(goal.limit, tuple):
        missed = [f"{limit - value:.1f}" for value, limit in zip(reached, goal.limit, strict=True) if value < limit]
        return f"no: {' and '.join(missed)} points short" if missed else "yes"
    if goal.compares == "shift":
        return "yes" if reached <= goal.limit else f"no: {number(reached)} points apart"
    if goal.unit == "points":
        return "yes" if reached >= goal.limit else f"no: {goal.limit - reached:.1f} points short"
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
    shown = f"{int(rounded):,}".replace(",", " ") if digits == 0 else rounded
    return shown.replace("-", "−")
