"""Ends a process at each point of a story, one after the other, and looks what became of it:
`python -m chaining.faultpoints STORY FOLDER`.

Each try has a chain of its own, and is made by a child of this process, which has imported everything. What is wrong
after the crash and a clean drain is printed as JSON, with the number of points.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from functools import partial
from pathlib import Path

import attrs

from memspine import MemoryManager

from .belief import Belief
from .crashing import Fuse
from .judging import findings, misread, out_of_order, twice
from .stage import Stage, owed
from .writing import Log, Pen

OWNER = "ann"
POINTS_MAX = 2000


@attrs.frozen
class Story:
    """A chain, and what happens in it: writes, `deliver`, and the primary's going `down` and `up`."""

    primary: str
    replicas: tuple[str, ...]
    steps: tuple[str, ...]
    memory: dict = attrs.field(factory=dict)


WRITES = (
    "create 10", "update 10", "create 11", "deliver", "update 11", "delete 10", "deliver", "create 10", "deliver",
)  # fmt: skip
OUTAGES = (
    "create 10", "create 11", "deliver", "down", "update 10", "delete 11", "create 12", "update 12", "create 11", "up",
    "create 13", "deliver", "down", "delete 12", "up", "deliver",
)  # fmt: skip
SPOOL = {"on_write_failure": "spool"}
STORIES = {
    "feed": Story("notes", ("team",), WRITES),
    "no feed": Story("archive", ("notes",), WRITES),
    "spool": Story("team", ("notes",), OUTAGES, SPOOL),
    "spool, no feed": Story("archive", ("notes",), OUTAGES, SPOOL),
}


async def play(stage, story, fuse):
    """Do what the story says."""
    log = Log(stage.log)
    if fuse is not None:
        fuse.lay()
    async with MemoryManager(stage.config, background=False) as memory:
        pen = Pen(memory, log, OWNER)
        for step in story.steps:
            if step == "deliver":
                await memory.maintain(["deliver"])
            elif step in {"down", "up"}:
                stage.break_primary(is_down=step == "down")
            else:
                what, _, number = step.partition(" ")
                await pen.write(what, f"{OWNER}-{number}")


def judge(stage):
    """What is wrong at once, and what once everything is drained."""
    belief = Belief.read(stage.log)
    found = misread(stage, belief)
    stage.break_primary(is_down=False)
    with stage.memory() as memory:
        memory.maintain(["deliver"])
        silent = not memory.journal_entries() and not owed(memory.status())
    if silent:
        found += [f"status says nothing, but {text}" for text in findings(stage, belief)]
    if found or not silent:
        stage.drain(in_process=True)
        found += findings(stage, belief)
    found += belief.faults
    with stage.memory() as memory:
        found += [str(entry) for entry in memory.journal_entries()]
    for name, service in stage.services.items():
        puts = service.puts(stage.store)
        found += [f"applied twice: {put}" for put in twice(puts)]
        if name in stage.replicas:
            found += [f"out of order: {put}" for put in out_of_order(puts)]
    return found


def in_child(work):
    """Do something in a child of this process: how it ended, and what it returned, or how it failed."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        code = 1
        try:
            os.close(read)
            told, code = work(), 0
        except BaseException:
            told = [traceback.format_exc()]
        finally:
            with os.fdopen(write, "wb") as pipe:
                pipe.write(json.dumps(told).encode())
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    return status, json.loads(told or "null")


def main(name, folder, capable, plain):
    """Try each point."""
    story, ports = STORIES[name], {"capable": capable, "plain": plain}

    def staged(number):
        stage = Stage.beside(Path(folder), ports, number=number)
        stage.configure(story.primary, replicas=story.replicas, **story.memory)
        return stage

    def tried(stage, limit):
        asyncio.run(play(stage, story, Fuse(limit)))

    # Once without a crash and in this process, so that its children have everything imported.
    whole = staged(0)
    asyncio.run(play(whole, story, None))
    found = {0: judge(whole)}
    for point in range(1, POINTS_MAX):
        stage = staged(point)
        status, told = in_child(partial(tried, stage, point))
        if not status:
            break
        if not os.WIFSIGNALED(status):
            found[point] = told
            break
        _, found[point] = in_child(partial(judge, stage))
    print(json.dumps({"points": point, "faults": {point: faults for point, faults in found.items() if faults}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
