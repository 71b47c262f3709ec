"""Stores that are up, down, or lose their answers, and a chain over them that can die and come back."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial

from memspine.chain import Chain, Member
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.delivery import Debts
from memspine.errors import BackendUnavailable
from memspine.journal import Journal, Whose, replicas

OUTAGES = ("up", "refused", "lost", "broken", "picky")
WRITING = ("create", "create_many", "update", "delete", "put")


class Switched(ReferenceBackend):
    """The reference backend. Refused, it does nothing and says so; lost, it does everything and its answer never comes;
    broken, whatever it does ends in an error that is none of ours; picky, so does whatever writes."""

    outage = "up"

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name.startswith("_") or not asyncio.iscoroutinefunction(found):
            return found
        outage = super().__getattribute__("outage")

        async def call(*args, **kwargs):
            if outage == "refused":
                raise BackendUnavailable(self.name, "connection refused")
            if outage == "broken" or (outage == "picky" and name in WRITING):
                raise RuntimeError("500")
            result = await found(*args, **kwargs)
            if outage == "lost":
                raise BackendUnavailable(self.name, "the connection broke off", outcome="unknown")
            return result

        return call


def store(name, *, without=()):
    """A store with all that the reference can do, but for some capabilities."""
    made = Switched(name)
    made.capabilities = frozenset(made.capabilities - set(without))
    return made


class World:
    """A primary, replicas and plain fallbacks, which outlive every process; `chain` is that of the process of now."""

    def __init__(self, path, primary, *, replicas=(), fallbacks=(), spools=False, deadline_seconds=2.0):
        self.path, self.primary, self.replicas, self.fallbacks = path, primary, list(replicas), list(fallbacks)
        self.spools, self.deadline_seconds = spools, deadline_seconds
        self.start()

    def start(self):
        """Another process: with its own breakers and its own connection to the journal."""
        self.journal = Journal(self.path, whose=Whose(primary=self.primary.name, plugin="reference"))
        members = [
            Member(one.name, open=partial(_opened, one), replicates=one in self.replicas)
            for one in (self.primary, *self.replicas, *self.fallbacks)
        ]
        self.chain = Chain(members, deadline_seconds=self.deadline_seconds, journal=self.journal, spools=self.spools)
        self.deliveries = Debts(self.chain, self.journal)

    @property
    def stores(self):
        return [self.primary, *self.replicas, *self.fallbacks]

    async def heal(self):
        """Every store works, no pause lasts any more, and what was begun and not ended was so long ago."""
        for one in self.stores:
            one.outage = "up"
        await self.chain.health()
        await self.journal.write(replicas.hurry)
        for passed in (
            "UPDATE entries SET next_attempt_at = NULL WHERE state = 'pending'",
            "UPDATE tombstones SET deleted_at = 1 WHERE is_begun",
            "UPDATE outbox SET begun_at = 1 WHERE begun_at IS NOT NULL",
        ):
            await self.journal.write(partial(_executed, statement=passed))

    async def settle(self):
        """Deliver until nothing is owed any more."""
        for _ in range(20):
            await self.heal()
            done = await self.deliveries.run(seconds=None)
            if done.complete and not done.delivered and not done.executed:
                return
        raise AssertionError(f"it never comes to an end: {done}")

    async def close(self):
        await self.chain.close()


@asynccontextmanager
async def _opened(backend):
    yield backend


def _executed(connection, *, statement):
    connection.execute(statement)
