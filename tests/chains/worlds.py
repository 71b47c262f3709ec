"""Chains over stores that fail on command, and that outlive the managers which use them."""

from __future__ import annotations

import asyncio
import sys
import types
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial

import attrs

from memspine import MemoryManager, times
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.conformance.reference.config import ReferenceConfig
from memspine.contracts import Capability, Provider
from memspine.errors import BackendUnavailable, JournalError, LoopError
from memspine.hookspecs import hookimpl
from memspine.model import MemoryChanges, MemoryFilter, MemoryRef, NewMemory, Scope
from memspine.plugins import PluginEntry, Plugins, installed_entries

DEADLINE_SECONDS = 0.15
EVERYONE = Scope.everyone()
ME = Scope.of_owner("me")
PLAIN = frozenset({Capability.LEXICAL})
"""What a service claims that knows neither feed nor whole records."""
ALL = ReferenceBackend.capabilities


class Killed(BaseException):
    """The process ends here."""


@attrs.frozen(kw_only=True)
class Fault:
    """What a call runs into: `refused` (nothing done, and it is said so), `loop` (the same, and waiting helps nobody),
    `reset` (nothing done, nobody knows), `lost` (done, nobody knows), `wrong` (done, answered with nonsense), `hang`,
    `late` (done, and it hangs), `killed` before it or after it was `done`. Calls of a kind in `spared` pass."""

    kind: str
    spared: frozenset[str] = frozenset()

    async def meet(self, store, call):
        match self.kind:
            case "refused" if store == "journal":
                raise JournalError(store, "database or disk is full", advice="make room")
            case "refused":
                raise BackendUnavailable(store, "connection refused")
            case "loop":
                raise LoopError(store, "the request came back")
            case "reset":
                raise OSError("connection reset")
            case "hang":
                await asyncio.sleep(60)
            case "killed":
                raise Killed
        await call()
        match self.kind:
            case "lost":
                raise OSError("connection reset by peer")
            case "wrong":
                raise ValueError("the answer is no JSON")
            case "late":
                await asyncio.sleep(60)
        raise Killed


class Gate:
    """Calls by name and number, each of which may meet a fault: all of them, or the one of a number, or all from that
    on."""

    def __init__(self, name):
        self.name, self.calls = name, []
        self.fault, self.at, self.lasts = None, 0, True
        self.shut = None

    def plan(self, kind, *, at=0, lasts=True, spared=()):
        """Have the call of this number (from 1) meet a fault, and with `lasts` all that follow."""
        self.calls.clear()
        self.fault, self.at, self.lasts = Fault(kind=kind, spared=frozenset(spared)), at, lasts

    async def passed(self, name, found, *arguments, **named):
        """The result of a call, if it meets no fault."""
        self.calls.append(name)
        number = len(self.calls)
        is_met = self.fault is not None and (number >= self.at if self.lasts else number == self.at)
        if not is_met or name in self.fault.spared:
            return await found(*arguments, **named)
        return await self.fault.meet(self.name, lambda: found(*arguments, **named))


class Switched(Gate):
    """A store behind a gate. `shut` is what whoever opens it meets: "hang", or an error."""

    def __init__(self, store):
        super().__init__(store.name)
        self.store = store

    @property
    def capabilities(self):
        return self.store.capabilities

    def __getattr__(self, name):
        found = getattr(self.store, name)
        return partial(self.passed, name, found) if asyncio.iscoroutinefunction(found) else found


class Clock:
    """The clock of all processes, which can be put forward and back."""

    def __init__(self, now):
        self._now, self._offset = now, timedelta(0)

    def __call__(self):
        return self._now() + self._offset

    def forward(self, seconds):
        self._offset += timedelta(seconds=seconds)


@attrs.define
class World:
    """Stores by name, the configuration of a chain over them, and managers that come and go."""

    stores: dict[str, Switched]
    settings: dict
    plugins: Plugins
    clock: Clock
    is_quick: bool = False
    journal: Gate = attrs.field(factory=lambda: Gate("journal"))

    def __getitem__(self, name):
        return self.journal if name == "journal" else self.stores[name]

    @asynccontextmanager
    async def open(self, **memory):
        """A manager, as a process has it. One that is killed does not shut down; what it held open is closed."""
        settings = {**self.settings, "memory": {**self.settings["memory"], **memory}}
        names = {settings["memory"]["primary"], *settings["memory"]["fallbacks"]}
        settings["backends"] = {name: table for name, table in settings["backends"].items() if name in names}
        manager = MemoryManager(settings, plugins=self.plugins, background=False)
        await manager.initialize()
        chain = manager._running.chain  # noqa: SLF001 - for a process that dies, and so closes nothing by itself
        try:
            if chain.journal is not None:
                await self._guarded(chain.journal)
            yield manager
            await manager.shutdown()
        except Killed:
            with suppress(BackendUnavailable):
                await chain.close()
            raise

    async def _guarded(self, journal):
        """Put the gate before what is written, and spare the disk if asked for: nothing here cuts the power."""
        if self.is_quick:
            await journal.write(lambda _: None)
            await journal.read(lambda connection: connection.execute("PRAGMA synchronous = OFF"))
        journal.write = partial(self.journal.passed, "write", journal.write)

    def down(self, name, kind="refused", *, spared=()):
        """Make every call of a store meet a fault from now on."""
        self[name].plan(kind, spared=spared)

    def up(self, *names):
        """Let stores work again, all if none is named."""
        for name in names or (*self.stores, "journal"):
            self[name].fault = None

    async def back(self, manager, *names):
        """The same, and have the manager see it at once."""
        self.up(*names)
        await manager.health()

    async def add(self, name, id, content, *, owner="me", **fields):
        """Put a memory into a store behind the chain's back."""
        new = NewMemory(content=content, **fields)
        return await self.stores[name].store.create(new, scope=Scope.of_owner(owner), id=id, now=times.now())

    async def held(self, name):
        """All that a store holds, by owner and id."""
        page = await self.stores[name].store.list(MemoryFilter(), scope=EVERYONE, now=times.now(), limit=1000)
        return {MemoryRef(memory.owner, memory.id): memory for memory in page.memories}

    async def contents(self, name):
        """The content of each memory of a store, by id."""
        return {ref.id: memory.content for ref, memory in (await self.held(name)).items()}

    async def deliver_meeting(self, name, kind, *, call="", at=0):
        """Deliver in a process of its own in which calls of a store (of this kind, from this number on) meet a fault,
        which may be its end; afterwards all works."""
        with suppress(Killed):
            async with self.open() as manager:
                if kind:
                    spared = set(dir(self[name].store)) - {call} if call else ()
                    self[name].plan(kind, at=at, spared=spared)
                await manager.maintain(["deliver"])
        self.up()

    async def quiet(self, manager):
        """Run deliveries until nothing is left to do, also after every pause has passed; returns the last report."""
        is_last = False
        for _ in range(30):
            report = await manager.maintain(["deliver"])
            is_quiet = report.complete and not (report.executed or report.delivered)
            if is_quiet and is_last:
                return report
            is_last = is_quiet
            self.clock.forward(400)
        raise AssertionError(f"deliveries come to no end: {report}, {await manager.journal_entries()}")


def offered(stores, monkeypatch):
    """Plugins that offer the stores by their names; one that has no `put` claims none."""

    @asynccontextmanager
    async def open(_, context):
        store = stores[context.name]
        if store.shut == "hang":
            await asyncio.sleep(60)
        if store.shut is not None:
            raise store.shut
        yield store

    @hookimpl
    def memspine_memory_backends():
        return [
            Provider(name="switched", config_type=ReferenceConfig, open=open, capabilities=ALL),
            Provider(name="plain", config_type=ReferenceConfig, open=open, capabilities=PLAIN),
        ]

    module = types.ModuleType("switched_plugin")
    module.memspine_memory_backends = memspine_memory_backends
    monkeypatch.setitem(sys.modules, "switched_plugin", module)
    entry = PluginEntry(name="switched", module="switched_plugin")
    return Plugins(find=lambda: [*installed_entries(), entry])


def reference(name, capabilities=ALL):
    """An empty store that a test can switch."""
    backend = ReferenceBackend(name)
    backend.capabilities = frozenset(capabilities)
    return Switched(backend)


async def same(world, *names, revisions=True):
    """Whether replicas hold what the primary holds."""
    states = [
        {ref: (one.content_hash, one.revision if revisions else 0) for ref, one in (await world.held(name)).items()}
        for name in ("notes", *names)
    ]
    return all(state == states[0] for state in states)


async def change(world, name, id, content, *, owner="me"):
    """A change behind the chain's back."""
    scope = Scope.of_owner(owner)
    await world[name].store.update(id, MemoryChanges(content=content), scope=scope, now=world.clock())
