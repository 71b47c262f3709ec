"""Chains to plant outages in."""

import itertools
import os
import tempfile
from pathlib import Path

import pytest

from memspine import times

from .worlds import ALL, DEADLINE_SECONDS, Clock, World, offered, reference

MEMORY = "/dev/shm"  # noqa: S108 - a folder of one's own is made in it


@pytest.fixture
def clock(monkeypatch):
    """The clock that everybody reads."""
    clock = Clock(times.now)
    monkeypatch.setattr(times, "now", clock)
    return clock


@pytest.fixture
def quick_path():
    """A folder in memory where there is one: outages are planted by the thousand, and what is on a disk by when is for
    the tests that kill processes."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def worlds(quick_path, monkeypatch, clock):
    """Makes a world with a journal of its own: `notes` is the primary, with what it claims; `replicas` and `fallbacks`
    are names. All else are settings of [memory]."""
    numbers = itertools.count()

    def make(*, primary=ALL, replicas=("team",), fallbacks=(), is_quick=False, **memory):
        names = [*replicas, *fallbacks]
        stores = {"notes": reference("notes", primary)} | {name: reference(name) for name in names}
        tables = {name: {"plugin": "switched"} for name in stores}
        for name in replicas:
            tables[name]["replicate"] = True
        settings = {
            "memory": {"primary": "notes", "fallbacks": names, "deadline_seconds": DEADLINE_SECONDS, **memory},
            "backends": tables,
            "journal": {"path": str(quick_path / f"world-{next(numbers)}" / "waiting.journal")},
            "embedding": {"source": "none"},
            "vectors": {"enabled": False},
        }
        return World(stores, settings, offered(stores, monkeypatch), clock, is_quick)

    return make


@pytest.fixture
def spooling(worlds):
    """Makes a world whose writes wait while the primary is down."""

    def make(**options):
        return worlds(on_write_failure="spool", **options)

    return make
