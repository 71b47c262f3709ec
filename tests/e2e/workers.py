"""What the processes of the tests do: `python workers.py ROLE CONFIG FOLDER`.

Each says "ready" when it is about to begin, works until it is done or FOLDER has a file `stop`, and ends with a line of
JSON. A file `wait` in FOLDER holds it up before it begins.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from pathlib import Path

from memspine.blocking import MemoryManager
from memspine.indexing import filling

WORDS = (
    "walnut tree garden train lisbon seven bee sting allergic penicillin printer invoice paid cello evening spring"
).split()
PAUSE_SECONDS = 0.004


def text_of(id, revision):
    """The text of a memory at a revision: what tells it apart, then words that depend on both."""
    number = int("".join(filter(str.isdigit, id)) or 0) + 7 * revision
    return " ".join([id, f"r{revision}", *(WORDS[(number * step + step) % len(WORDS)] for step in (1, 3, 5, 11))])


def say(line):
    """Tell the test something."""
    print(line, flush=True)


def begin(folder):
    """Say that everything is loaded, and wait if that is wanted."""
    say("ready")
    while (folder / "wait").exists():
        time.sleep(0.001)


def index(config, folder):
    """Embed everything."""
    with MemoryManager(config, background=False) as memory:
        memory.engine(probe=True)
        begin(folder)
        started = time.monotonic()
        report = memory.reindex()
    return {
        "embedded": report.embedded,
        "complete": report.complete,
        "troubles": report.troubles,
        "seconds": time.monotonic() - started,
    }


def search(config, folder):
    """Ask again and again, mostly with a manager that was opened at the start, sometimes with one opened for it."""
    faults, slowest = [], 0.0
    with MemoryManager(config, background=False) as lasting:
        faults += asked(lasting, 0)
        begin(folder)
        for number in itertools.count(1):
            if (folder / "stop").exists():
                return {"answers": number, "faults": faults[:20], "count": len(faults), "slowest": slowest}
            started = time.monotonic()
            if number % 20:
                faults += asked(lasting, number)
                slowest = max(slowest, time.monotonic() - started)
            else:
                with MemoryManager(config, background=False) as fresh:
                    faults += asked(fresh, number)
            time.sleep(PAUSE_SECONDS)
    raise AssertionError


def asked(memory, number):
    """Ask one question; what is wrong with the answer."""
    question = f"{WORDS[number % len(WORDS)]} or {WORDS[(number * 5 + 3) % len(WORDS)]}"
    strategy = ("hybrid", "semantic")[number % 2]
    result = memory.search(question, strategy=strategy, limit=5)
    faults = []
    if len(result.hits) != 5:
        faults.append(f"{question}: {len(result.hits)} hits by {strategy}; gone: {result.trace.cut_counts}")
    if result.trace.degraded:
        faults.append(f"{question}: degraded {result.trace.degraded} by {strategy}")
    if not any(leg.leg == "vector" and leg.status == "ran" and leg.matched for leg in result.trace.legs):
        faults.append(f"{question}: {result.trace.legs} by {strategy}")
    return faults


def write(config, folder):
    """Remember, change and forget, without ever embedding."""
    revisions = {}
    with MemoryManager(config, background=False) as memory:
        begin(folder)
        for number in itertools.count():
            if (folder / "stop").exists():
                return {"written": number, "left": len(revisions)}
            id = f"w{number:06}"
            memory.create(text_of(id, 1), id=id)
            revisions[id] = 1
            if number % 3 == 0:
                old = list(revisions)[number * 7 % len(revisions)]
                revisions[old] += 1
                memory.update(old, content=text_of(old, revisions[old]))
            if number % 10 == 9:
                gone = list(revisions)[number * 11 % len(revisions)]
                memory.delete(gone)
                del revisions[gone]
            time.sleep(PAUSE_SECONDS)
    raise AssertionError


def main(role, config, folder):
    """Do what a role does."""
    if "MEMSPINE_TEST_LEASE" in os.environ:
        filling.LEASE_SECONDS = float(os.environ["MEMSPINE_TEST_LEASE"])
    say(json.dumps({"index": index, "search": search, "write": write}[role](config, Path(folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
