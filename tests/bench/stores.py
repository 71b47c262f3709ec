"""Stores to measure: how they are opened and filled. The backend is named here and nowhere else."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from memspine import MemoryManager
from memspine.contracts import MemoryBackend
from memspine.resources import SharedResources, open_provider

from .corpus import new_memories

BACKEND = "sqlite"
BATCH = 1_000


@attrs.frozen
class Layout:
    """How many memories each owner has. They are stored in turns, so that an owner's lie scattered in the file."""

    owners: Mapping[str, int]
    rounds: int = 2

    def batches(self) -> Iterator[tuple[str, int, int]]:
        """Owner, number of the first memory, how many."""
        numbers = dict.fromkeys(self.owners, 0)
        for turn in range(1, self.rounds + 1):
            for owner, total in self.owners.items():
                until = total * turn // self.rounds
                while numbers[owner] < until:
                    count = min(BATCH, until - numbers[owner])
                    yield owner, numbers[owner], count
                    numbers[owner] += count


def settings(path: Path, *, owner: str = "me") -> dict:
    """The configuration of one store."""
    return {"memory": {"owner": owner}, "backends": {"store": {"plugin": BACKEND, "path": str(path)}}}


def toml(path: Path) -> str:
    """The same as a file."""
    return f'[backends.store]\nplugin = "{BACKEND}"\npath = "{path.as_posix()}"\n'


def manager(path: Path, *, owner: str = "me") -> MemoryManager:
    """A manager over one store that does nothing beside what it is asked for."""
    return MemoryManager(settings(path, owner=owner), background=False)


@asynccontextmanager
async def backend(path: Path) -> AsyncIterator[MemoryBackend]:
    """The backend alone, as the manager would open it."""
    async with manager(path) as memory:
        chosen = memory.config.primary
        opened = open_provider(
            chosen.provider,
            chosen.options,
            name=chosen.name,
            config_folder=memory.config.source.folder,
            data_folder=memory.config.data_folder,
            resources=SharedResources(),
        )
        async with opened as store:
            yield store


def build(path: Path, layout: Layout, *, spent: list[tuple[int, float]] | None = None) -> Path:
    """Fill a new store; `spent` gets the size of each batch, and how many seconds it took."""

    async def fill() -> None:
        async with manager(path) as memory:
            for owner, start, count in layout.batches():
                batch = list(new_memories(count, start=start))
                began = time.perf_counter()
                await memory.create_many(batch, owner=owner)
                if spent is not None:
                    spent.append((count, time.perf_counter() - began))

    asyncio.run(fill())
    return path
