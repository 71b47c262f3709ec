"""A memspine process that writes for two owners until it has made enough memories:
`python -m chaining.driver CONFIG LOG COUNT SEED`. It goes on where the log of the one before it ends.

Each answer it gets is compared with what it was promised; what contradicts that is a line of the log too.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from memspine import MemoryManager
from memspine.errors import BackendUnavailable, NotFoundError

from .belief import Fate
from .judging import contradiction
from .writing import ARCHIVED, Log, Pen, chances

OWNERS = ("ann", "ben")
PAUSES_SECONDS = 2.5
"""How long all pauses of an owner that makes few memories take: so that processes are killed while there is work, and
not all of it is done between two kills."""
PAUSE_SECONDS_MAX = 0.01
LIST_SIZE = 40


class Writer:
    """What is done for one owner, one thing after the other."""

    def __init__(self, memory, log, owner, *, count, chances):
        self.memory, self.log, self.owner, self.count, self.chances = memory, log, owner, count, chances
        self.pen = Pen(memory, log, owner)
        self.primary = memory.config.memory.primary
        self.fates = log.belief.fates[owner]
        self.ids = list(self.fates)
        self.is_well = True
        self.pause_seconds = min(PAUSE_SECONDS_MAX, PAUSES_SECONDS / count)
        self.unmade = [id for id, fate in self.fates.items() if not fate.is_promised]

    async def run(self):
        """Until there were enough of them."""
        while self.log.belief.promised[self.owner] < self.count:
            await self.step()
            # A spool that is worked off while it is filled would never be empty.
            longest = 2 * self.pause_seconds if self.is_well else 10 * PAUSE_SECONDS_MAX
            await asyncio.sleep(self.chances.uniform(0, longest))

    async def step(self):
        """Do something, mostly with what was touched lately: what one store has and another has not got yet."""
        chance = self.chances.random()
        if chance < 0.4 or len(self.ids) < 4:
            return await self.create()
        id = self.chances.choice(self.ids[-30:] if self.chances.random() < 0.6 else self.ids)
        if chance < 0.8:
            return await self.change(id, self.fates[id])
        if chance < 0.92:
            early = f"{self.owner}-{self.chances.randrange(ARCHIVED)}"
            return await self.get(early if chance < 0.82 else id)
        return await (self.search(id) if chance < 0.97 else self.list())

    async def create(self):
        """Make a new memory, or one that could not be made before."""
        if self.unmade and self.chances.random() < 0.5:
            id = self.unmade.pop()
        else:
            id = f"{self.owner}-{len(self.ids)}"
            self.ids.append(id)
        if (await self.write("create", id)) not in {"done", "pending"}:
            self.unmade.append(id)

    async def write(self, what, id):
        """Write, and note whether the primary did it."""
        outcome = await self.pen.write(what, id)
        self.is_well = outcome == "done"
        return outcome

    async def change(self, id, fate):
        """Change or delete what is surely there; make anew what may be gone."""
        if not fate.is_there:
            await self.write("create", id)
        else:
            await self.write("delete" if self.chances.random() < 0.3 else "update", id)

    def known(self, id):
        """What is known of a memory, also of one that nobody ever wrote."""
        return self.fates.get(id, Fate())

    def fault(self, text):
        """Note what must not be."""
        self.log.write(fault=f"{self.owner}: {text}")

    def look(self, memory, where, *, is_current=False):
        """Compare a memory that somebody showed with what is known of it."""
        if text := contradiction(memory, self.known(memory.id), owner=self.owner, is_current=is_current):
            self.fault(f"{where} shows {text}")

    async def get(self, id):
        """Ask for one memory."""
        try:
            result = await self.memory.get(id, owner=self.owner)
        except BackendUnavailable:
            return
        except NotFoundError:
            if (fate := self.known(id)).is_there:
                self.fault(f"get finds no {id}, which is one of {sorted(fate.may_be)}")
            return
        where = f"get from {result.backend}"
        self.look(result.memory, where, is_current=result.backend == self.primary or result.pending)

    async def search(self, id):
        """Ask for what is like one memory."""
        try:
            result = await self.memory.search(f"walnut {id}", owner=self.owner, limit=20)
        except BackendUnavailable:
            return
        for hit in result.hits:
            self.look(hit.memory, f"search in {result.trace.backend}")

    async def list(self):
        """Ask for the newest."""
        try:
            page = await self.memory.list(owner=self.owner, limit=LIST_SIZE)
        except BackendUnavailable:
            return
        for memory in page.memories:
            self.look(memory, f"list of {page.backend}", is_current=not self.known(memory.id).is_pending)


async def main(config, log, count, seed):
    """Write until it is done."""
    log = Log(Path(log))
    async with MemoryManager(config) as memory, asyncio.TaskGroup() as group:
        for owner in OWNERS:
            luck = chances(seed, owner, log.belief.lines)
            writer = Writer(memory, log, owner, count=int(count) // len(OWNERS), chances=luck)
            group.create_task(writer.run())
    log.write(finished=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
