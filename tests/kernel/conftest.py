"""Stores that fail on command, and chains over them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import attrs
import pytest

from memspine.chain import Chain, Member
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.errors import BackendUnavailable


class Flaky(ReferenceBackend):
    """The reference backend, whose calls fail or hang while `trouble` is set."""

    trouble: object = None
    calls: list[str]

    def __init__(self, name):
        super().__init__(name)
        self.calls = []

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name.startswith("_") or not asyncio.iscoroutinefunction(found):
            return found
        trouble = super().__getattribute__("trouble")
        super().__getattribute__("calls").append(name)

        async def call(*args, **kwargs):
            if trouble == "hang":
                await asyncio.sleep(60)
            if trouble is not None:
                raise trouble
            return await found(*args, **kwargs)

        return call


@attrs.define
class Stores:
    """Flaky stores by name and the chain over them; the first is the primary."""

    stores: dict
    chain: Chain

    def __getitem__(self, name):
        return self.stores[name]

    def down(self, name, trouble=None):
        """Make a store fail from now on."""
        self.stores[name].trouble = trouble or BackendUnavailable(name, "connection refused")


@pytest.fixture
def stores():
    """Makes a chain over flaky stores of the given names."""

    def make(*names, without=(), **options):
        backends = {name: Flaky(name) for name in names}
        for name in without:
            backends[name].capabilities = frozenset()

        def opener(backend):
            @asynccontextmanager
            async def open():
                yield backend

            return open

        members = [Member(name, open=opener(backend)) for name, backend in backends.items()]
        return Stores(backends, Chain(members, deadline_seconds=options.pop("deadline_seconds", 0.2), **options))

    return make


@pytest.fixture
def settings():
    """A configuration with one reference backend, as a mapping to add to."""
    return {"backends": {"store": {"plugin": "reference"}}}
