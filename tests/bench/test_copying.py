"""How fast all memories of one store are copied into another, and how much memory that takes."""

import sys
import time
from pathlib import Path

from .stores import BACKEND, Layout, build, toml
from .timing import succeed

HERE = Path(__file__).parent
SIZE = 100_000


def test_copy(bench, hundred_thousand, workshop, tmp_path):
    """`memspine copy` from SQLite to SQLite, whole process, beside a bulk import of the same memories."""
    spent = []
    build(workshop / "imported.db", Layout({"me": SIZE}), spent=spent)
    imported = sum(count for count, _ in spent) / sum(seconds for _, seconds in spent)
    target = workshop / "copied.db"
    backends = {
        name: {"plugin": BACKEND, "path": str(path)} for name, path in (("here", hundred_thousand), ("there", target))
    }
    document = {"memory": {"owner": "me", "primary": "here"}, "backends": backends, "vectors": {"enabled": False}}
    configuration = tmp_path / "copy.toml"
    configuration.write_text(toml(document), encoding="utf-8")
    copy = [sys.executable, HERE / "commanding.py", "--config", configuration, "copy", "--from", "here", "--to"]
    seconds, first = timed([*copy, "there"], tmp_path)
    assert f"\ncopied\t{SIZE}\n" in f"\n{first}"
    again, second = timed([*copy, "there"], tmp_path)
    assert f"\nunchanged\t{SIZE}\n" in second
    measured = SIZE / seconds
    bench.record("copy", measured=measured, baseline=f"bulk import {imported:,.0f}/s", ratio=measured / imported)
    peak, idle = (float(printed.splitlines()[-1]) for printed in (first, second))
    bench.record("copy-peak", measured=peak, baseline=f"with nothing to do {idle:.1f} MB", ratio=peak / idle)
    bench.profile["copy"] = {"seconds": round(seconds, 1), "again, with nothing to do": round(again, 1)}
    for path in (workshop / "imported.db", target):
        path.unlink()


def timed(command, folder):
    started = time.perf_counter()
    printed = succeed(command, folder=folder)
    return time.perf_counter() - started, printed
