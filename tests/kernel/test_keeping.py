"""Maintenance and the installation's secret."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from memspine.errors import BackendUnavailable
from memspine.maintenance import STEP_ROWS, run_maintenance
from memspine.model import MemoryChanges, NewMemory, Scope
from memspine.secret import install_secret

from .sources import Source
from .worlds import world

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ME = Scope.of_owner("me")


def maintain(chain, **options):
    return run_maintenance(chain.chain, now=NOW, history_days=30, feed_days=30, **options)


def test_all_expired_memories_go_in_steps(stores):
    """More expired memories than one step takes are all removed, and those that live stay."""

    async def run():
        chain = stores("store")
        past = NOW - timedelta(days=1)
        many = [NewMemory(content="x", expires_at=past) for _ in range(STEP_ROWS + 7)]
        await chain["store"].create_many(many, scope=ME, ids=[f"m{n}" for n in range(len(many))], now=past)
        await chain["store"].create(NewMemory(content="stays"), scope=ME, id="stays", now=past)
        report = await maintain(chain)
        assert report.removed["expire"] == STEP_ROWS + 7
        assert await chain["store"].get("stays", scope=ME, now=NOW) is not None

    asyncio.run(run())


def test_history_is_kept_for_its_days(stores):
    """States replaced before the history's days are dropped; younger ones and the current one stay."""

    async def run():
        chain = stores("store")
        store = chain["store"]
        for day, text in ((100, "a"), (60, "b"), (10, "c")):
            when = NOW - timedelta(days=day)
            if day == 100:
                await store.create(NewMemory(content=text), scope=ME, id="m", now=when)
            else:
                await store.update("m", MemoryChanges(content=text), scope=ME, now=when)
        await maintain(chain)
        assert [state.memory.content for state in await store.history("m", scope=ME)] == ["b", "c"]

    asyncio.run(run())


def test_a_store_that_keeps_nothing_extra_needs_no_trimming(stores):
    """Without the capabilities history and changes there is nothing to trim, and nothing is called."""

    async def run():
        chain = stores("store", without=("store",))
        report = await maintain(chain)
        assert report.complete
        assert "trim_history" not in chain["store"].calls

    asyncio.run(run())


def test_what_was_done_before_the_primary_failed_is_told(stores, monkeypatch):
    """A primary that fails in the middle of maintenance ends it, and the report has both what was removed by then and
    what is in the way."""

    async def run():
        chain = stores("store")
        past = NOW - timedelta(days=1)
        await chain["store"].create(NewMemory(content="x", expires_at=past), scope=ME, id="m", now=past)

        async def fail(**_):
            raise BackendUnavailable("store", "is away")

        monkeypatch.setattr(chain["store"], "trim_history", fail)
        report = await maintain(chain)
        assert report.removed == {"expire": 1, "history": 0, "spaces": 0}
        assert (report.complete, str(report.failure)) == (False, "store: is away")

    asyncio.run(run())


def test_the_secret_is_made_once_and_private(tmp_path):
    """The secret is 32 bytes, the same at every call, readable by its owner alone."""
    folder = tmp_path / "data"
    first = install_secret(folder)
    assert install_secret(folder) == first
    assert len(first) == 32
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["secret"]


def test_processes_that_start_together_share_one_secret(tmp_path):
    """Several processes that find no secret at the same moment all end with the same one."""
    code = "import pathlib, sys; from memspine.secret import *; print(install_secret(pathlib.Path(sys.argv[1])).hex())"
    command = [sys.executable, "-c", code, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate()[0] for process in running}) == 1


def test_a_damaged_secret_is_said_not_replaced(tmp_path):
    """A secret of the wrong size raises with the file's name: replacing it unasked would orphan earlier blocks."""
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(OSError, match="5 bytes"):
        install_secret(tmp_path)


def test_a_budget_bounds_a_source_that_hangs(stores, monkeypatch):
    """Work in a budget ends soon after it, whatever a source does, says why, and the memory stays to be embedded."""
    monkeypatch.setattr("memspine.maintenance.OVERTIME_SECONDS", 0.05)

    async def run():
        here, source = world(), Source()
        await here.add("a")
        index = here.index(source)
        source.seconds = 60.0
        report = await maintain(stores("store"), index=index, budget_seconds=0.05)
        assert not report.complete
        assert "took longer" in report.troubles[0]
        source.seconds = 0.0
        assert (await maintain(stores("store"), index=index)).embedded == 1

    asyncio.run(asyncio.wait_for(run(), 30))
