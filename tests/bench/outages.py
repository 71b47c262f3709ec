"""The measured backend, with a switch that makes it refuse or hang as a store does that is away."""

import asyncio
import sys
import types
from contextlib import asynccontextmanager

import attrs

from memspine.errors import BackendUnavailable
from memspine.hookspecs import hookimpl
from memspine.plugins import PluginEntry, Plugins, installed_entries, resolve

from .stores import BACKEND

SWITCHED = "switched"
HANGING_SECONDS = 600


@attrs.define
class Outage:
    """What a store suffers from: nothing, or every call is refused at once, or none is ever answered."""

    state: str = "up"

    def plugins(self, monkeypatch):
        """All that is installed, and the measured backend under a name of its own, which suffers from this."""
        provider = Plugins().memory_backend(BACKEND)
        open_backend = resolve(provider)

        @asynccontextmanager
        async def open_switched(config, context):
            async with open_backend(config, context) as backend:
                yield Switched(backend, self)

        module = types.ModuleType(f"{SWITCHED}_plugin")
        switched = attrs.evolve(provider, name=SWITCHED, open=open_switched)
        module.memspine_memory_backends = hookimpl(lambda: [switched], specname="memspine_memory_backends")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return Plugins(find=lambda: [*installed_entries(), PluginEntry(name=SWITCHED, module=module.__name__)])


class Switched:
    """A backend, or what is left of it while there is an outage."""

    def __init__(self, backend, outage):
        self._backend, self._outage = backend, outage

    def __getattr__(self, name):
        found = getattr(self._backend, name)
        if self._outage.state == "up" or not asyncio.iscoroutinefunction(found):
            return found
        return self._refuse if self._outage.state == "refused" else self._hang

    async def _refuse(self, *args, **kwargs):
        raise BackendUnavailable(self._backend.name, "connection refused")

    async def _hang(self, *args, **kwargs):
        await asyncio.sleep(HANGING_SECONDS)
