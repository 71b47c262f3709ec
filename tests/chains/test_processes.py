"""Chains of real stores, whose processes are killed, and whose files are replaced."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from memspine import MemoryManager
from memspine.conformance.clauses import clause
from memspine.model import MemoryFilter

WRITER = """
import asyncio, json, sys
from memspine import MemoryManager
from memspine.errors import MemspineError

async def main(settings, turn):
    async with MemoryManager(json.loads(settings)) as memory:
        number = 0
        while True:
            number += 1
            id = f"t{turn}-{number}"
            await memory.create(f"walnut {id}", id=id)
            print("there", id, "walnut", id, flush=True)
            if number % 3 == 0:
                await memory.update(id, content="changed")
                print("there", id, "changed", flush=True)
            if number % 4 == 0:
                print("going", id, flush=True)
                await memory.delete(id)
                print("gone", id, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def settings(tmp_path):
    """A primary and a replica in files of SQLite; writes wait while the primary is down."""
    return {
        "memory": {"primary": "notes", "fallbacks": ["team"], "on_write_failure": "spool"},
        "backends": {
            "notes": {"plugin": "sqlite", "path": str(tmp_path / "notes.db")},
            "team": {"plugin": "sqlite", "path": str(tmp_path / "team.db"), "replicate": True},
        },
        "journal": {"path": str(tmp_path / "waiting.journal")},
        "embedding": {"source": "none"},
    }


def told(lines):
    """What the writers were told of each memory last: its content; None once it was deleted, and "?" while it was
    being deleted."""
    state = {}
    for line in lines:
        what, id, *content = line.split()
        state[id] = " ".join(content) if what == "there" else "?" if what == "going" else None
    return state


async def contents(settings, name):
    """All that one of the stores holds."""
    alone = settings | {
        "memory": {"primary": name},
        "backends": {name: settings["backends"][name] | {"replicate": False}},
    }
    async with MemoryManager(alone, background=False) as memory:
        found, cursor = {}, None
        while True:
            page = await memory.list(MemoryFilter(), limit=1000, cursor=cursor)
            found |= {one.id: (one.content, one.revision, one.content_hash) for one in page.memories}
            cursor = page.cursor
            if cursor is None:
                return found


@clause("CH-85", "CH-100", "CH-52")
def test_kill_9_of_those_who_write_and_deliver(settings):
    """Two processes write and deliver, and are killed again and again: in the end the primary has what was
    acknowledged, without what was deleted, and the replica has the same."""
    lines = []
    for turn, pause in enumerate((0.05, 0.6, 0.2, 0.4, 0.1, 0.3)):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, json.dumps(settings), f"{turn}-{n}"], stdout=subprocess.PIPE, text=True
            )
            for n in range(2)
        ]
        lines += [writer.stdout.readline().strip() for writer in writers]
        time.sleep(pause)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            out, _ = writer.communicate()
            lines += out.split("\n")[:-1]
    expected = told(lines)

    async def ended():
        async with MemoryManager(settings, background=False) as memory:
            for _ in range(10):
                report = await memory.maintain(["deliver"])
                if report.complete and not (report.executed or report.delivered):
                    break
            assert await memory.journal_entries() == ()
            assert (await memory.status()).problems == ()
        return await contents(settings, "notes"), await contents(settings, "team")

    notes, team = asyncio.run(ended())
    assert notes == team
    assert len(expected) > 20
    wrong = {
        id: (content, notes.get(id))
        for id, content in expected.items()
        if content != "?" and (notes[id][0] if id in notes else None) not in (content, "changed" if content else None)
    }
    assert wrong == {}


@clause("CH-57")
def test_a_primary_that_an_older_copy_has_replaced(settings, tmp_path):
    """Where the primary was restored from a backup and written past the place of its replica, the replica is left
    behind, and a reconcile brings what the primary has now."""
    path = settings["backends"]["notes"]["path"]

    async def before():
        async with MemoryManager(settings, background=False) as memory:
            await memory.create("old", id="a")
            await memory.backup(tmp_path / "copy.db")
            await memory.create("lost", id="b")
            assert (await memory.maintain(["deliver"])).complete

    async def after():
        async with MemoryManager(settings, background=False) as memory:
            for id in "cd":
                await memory.create("new", id=id)
            assert not (await memory.maintain(["deliver"])).complete
            assert any("needs reconcile" in line for line in (await memory.status()).problems)
            done = await memory.reconcile("team")
            assert (done.copied, done.conflicts) == (2, 1)  # nobody can say whether `b` was deleted
            await memory.reconcile("team", take="primary")
            assert (await memory.status()).problems == ()
        assert await contents(settings, "team") == await contents(settings, "notes")

    asyncio.run(before())
    shutil.copy(tmp_path / "copy.db", path)
    asyncio.run(after())
