"""Files that are read from memory, and managers over reference backends."""

from __future__ import annotations

import asyncio
import io
import json

import pytest

from memspine import MemoryManager
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.contracts import Capability
from memspine.transfer import export_records, import_items, read_records

SETTINGS = {"backends": {"store": {"plugin": "reference"}}}


@pytest.fixture
def read():
    """Reads a file given as text, bytes or the objects of its lines."""

    def read(content, *, name="file.jsonl", format=None):
        if isinstance(content, list):
            content = "".join(json.dumps(line) + "\n" for line in content)
        raw = content.encode() if isinstance(content, str) else content
        return list(read_records(io.BytesIO(raw), name=name, format=format))

    return read


@pytest.fixture
def managed():
    """Runs a coroutine function with a manager over a fresh reference backend."""

    def run(work, settings=None):
        async def within():
            async with MemoryManager(settings or SETTINGS, background=False) as manager:
                return await work(manager)

        return asyncio.run(within())

    return run


@pytest.fixture
def take():
    """Imports what a file holds."""

    async def take(manager, content, *, name="file.jsonl", **options):
        raw = content.encode() if isinstance(content, str) else content
        return await import_items(manager, read_records(io.BytesIO(raw), name=name), **options)

    return take


@pytest.fixture
def exported():
    """All lines of an export."""

    async def exported(manager, **options):
        return [line async for line in export_records(manager, **options)]

    return exported


@pytest.fixture
def without(monkeypatch):
    """Takes capabilities from the reference backend."""

    def take_away(*names):
        def refuse(capability, method):
            async def refused(self, *_args, **_options):
                raise self._unclaimed(capability, method)

            monkeypatch.setattr(ReferenceBackend, method, refused)

        for name in names:
            refuse(Capability(name), name)
        kept = ReferenceBackend.capabilities - {Capability(name) for name in names}
        monkeypatch.setattr(ReferenceBackend, "capabilities", kept)

    return take_away
