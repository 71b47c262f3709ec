"""Stores to measure: how they are opened and filled. The backend is named here and nowhere else."""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from memspine import MemoryManager
from memspine.config.schema import InstanceSettings
from memspine.contracts import MemoryBackend, VectorStore
from memspine.resources import SharedResources, open_provider

from .corpus import new_memories

BACKEND = "sqlite"
BATCH = 1_000
UNCACHED = {"cache_entries": 0}  # so that a question which was asked before is embedded again


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


def settings(path: Path, *, owner: str = "me", embedding: Mapping[str, Any] | None = None, **vectors: Any) -> dict:
    """The configuration of one store; `embedding` is its table, without which words alone are looked for."""
    return {
        "memory": {"owner": owner},
        "backends": {"store": {"plugin": BACKEND, "path": str(path)}},
        "vectors": {"enabled": embedding is not None, **vectors},
        **({} if embedding is None else {"embedding": dict(embedding)}),
    }


def toml(document: Mapping[str, Any], *names: str) -> str:
    """A configuration as a file."""
    own = {key: value for key, value in document.items() if not isinstance(value, Mapping)}
    lines = [f"[{'.'.join(names)}]"] if names and own else []
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in own.items()]
    tables = [toml(value, *names, key) for key, value in document.items() if key not in own]
    return "\n".join([*lines, *tables])


def manager(path: Path, *, background: bool = False, **options: Any) -> MemoryManager:
    """A manager over one store that does nothing beside what it is asked for."""
    return MemoryManager(settings(path, **options), background=background)


@asynccontextmanager
async def backend(path: Path) -> AsyncIterator[MemoryBackend]:
    """The backend alone, as the manager would open it."""
    async with manager(path) as memory, _opened(memory, memory.config.primary) as store:
        yield store


@asynccontextmanager
async def vector_store(path: Path, **options: Any) -> AsyncIterator[VectorStore]:
    """The vector store alone, with these options."""
    async with manager(path, embedding={}, plugin=BACKEND, **options) as memory:
        assert memory.config.store is not None
        async with _opened(memory, memory.config.store) as store:
            yield store


def _opened(memory: MemoryManager, chosen: InstanceSettings[Any]) -> Any:
    return open_provider(
        chosen.provider,
        chosen.options,
        name=chosen.name,
        config_folder=memory.config.source.folder,
        data_folder=memory.config.data_folder,
        resources=SharedResources(),
    )


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


def indexed(source: Path, target: Path, *, embedding: Mapping[str, Any]) -> tuple[Path, float]:
    """A copy of a store with vectors of all its memories, and how many seconds making them took, the loading of the
    model not counted."""
    shutil.copy(source, target)

    async def work() -> float:
        async with manager(target, embedding=embedding) as memory:
            await memory.engine(probe=True)
            began = time.perf_counter()
            report = await memory.reindex()
            assert report.complete, report.troubles
            return time.perf_counter() - began

    return target, asyncio.run(work())
