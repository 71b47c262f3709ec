"""A process that writes until it is killed.

Run as `python -m memspine.conformance.crash` it opens the plugin that its argument names, creates memories one after
the other (or stores vectors and queues more of them), and prints the id of each as soon as the store has acknowledged
it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from memspine.conformance.samples import ALICE, at
from memspine.conformance.subject import Place, Subject
from memspine.conformance.vectors.tools import drawn, record, space
from memspine.contracts import MemoryBackend, VectorStore
from memspine.model import MemoryRef, NewMemory

WRITES_MAX = 100_000
SPACE = "written"
"""The space that vectors are written to."""


class Writer:
    """The process, from its parent."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> Self:
        order = {
            "contract": self._place.subject.contract,
            "name": self._place.subject.name,
            "folder": str(self._place.folder),
            "config": str(self._place.subject.settings.file or ""),
        }
        self._process = subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
            [sys.executable, "-m", "memspine.conformance.crash", json.dumps(order)],
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        self.rest()
        self._output.close()

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def read(self, *, count: int) -> list[str]:
        """Wait for so many acknowledged ids."""
        ids = [self._output.readline().strip() for _ in range(count)]
        assert all(ids), "the writing process ended by itself"
        return ids

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def rest(self) -> list[str]:
        """What it had acknowledged when it ended; a last line without its end does not count."""
        return [line.strip() for line in self._output if line.endswith("\n")]


async def write_memories(store: MemoryBackend) -> AsyncIterator[str]:
    """Create memories without end."""
    for number in range(WRITES_MAX):
        id = f"n{number}"
        await store.create(NewMemory(content=f"content of {id}", key=id), scope=ALICE, id=id, now=at(number))
        yield id


async def write_vectors(store: VectorStore) -> AsyncIterator[str]:
    """Store vectors and queue memories without end."""
    await store.open_space(space(SPACE))
    for number in range(WRITES_MAX):
        id = f"n{number}"
        await store.upsert(SPACE, records=[record(id, drawn(number))])
        await store.enqueue(SPACE, revisions={MemoryRef("alice", f"next-{id}"): 1}, position=id)
        yield id


async def write(subject: Subject, folder: Path) -> None:
    """Open the plugin, and write."""
    async with subject.open(folder) as store:
        ids = write_vectors(store) if subject.contract == "vectors" else write_memories(store)
        async for id in ids:
            print(id, flush=True)  # noqa: T201 - the parent reads it


def main() -> None:
    """Read the order, and write."""
    order = json.loads(sys.argv[1])
    config = Path(order["config"]) if order["config"] else None
    subject = Subject.find(order["contract"], order["name"], config=config)
    asyncio.run(write(subject, Path(order["folder"])))


if __name__ == "__main__":
    main()
