"""What the tests share: opened stores, memories, child processes, files read as bytes."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memspine.model import Memory, MemoryFilter, NewMemory, Scope
from memspine_sqlite import keywords
from memspine_sqlite.backend import SQLiteBackend
from memspine_sqlite.connections import Settings
from memspine_sqlite.database import Database
from memspine_sqlite.rows import state_of
from memspine_sqlite.schema import STEPS

ALICE = Scope.of_owner("alice")
BOB = Scope.of_owner("bob")
EVERYONE = Scope.everyone()
ALL = MemoryFilter()
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def at(seconds):
    """A time so many seconds after the start."""
    return START + timedelta(seconds=seconds)


class FakeContext:
    """What the kernel gives a provider."""

    def __init__(self, folder, stack, *, name="sqlite"):
        self.name = name
        self.config_folder = folder / "config"
        self.data_folder = folder / "data"
        self._stack = stack
        self.resources = {}

    async def shared(self, key, open):
        if key not in self.resources:
            self.resources[key] = await self._stack.enter_async_context(open())
        return self.resources[key]


@asynccontextmanager
async def opened(path, settings=None):
    """A backend on a database of its own."""
    async with Database(Path(path), settings or Settings()) as database:
        backend = SQLiteBackend(database)
        backend.database = database
        yield backend
        backend.close()


@asynccontextmanager
async def context_of(folder):
    """A context in a folder."""
    async with AsyncExitStack() as stack:
        yield FakeContext(folder, stack)


def run(coroutine):
    """Run one coroutine to its end."""
    return asyncio.run(coroutine)


async def add(store, id, content="walnut", *, scope=ALICE, now=START, **fields):
    """Create one memory."""
    return (await store.create(NewMemory(content=content, **fields), scope=scope, id=id, now=now)).memory


async def filled_at_version_1(path, contents, **fields):
    """A store as the first release made it, with memories of alice."""

    def fill(transaction):
        connection = transaction.connection
        connection.execute("INSERT INTO owners (number, name) VALUES (1, 'alice')")
        for row, (id, content) in enumerate(contents.items(), 1):
            memory = Memory(id=id, owner="alice", content=content, created_at=START, updated_at=START, **fields)
            state = state_of(memory)
            entry = transaction.tokens.entry(1, state, metadata=memory.metadata)
            connection.execute(
                f"INSERT INTO memories VALUES (?, 1, ?, ?{', ?' * len(state)})",  # noqa: S608 - a number of marks
                (row, entry.terms, entry.checksum, *state),
            )
            keywords.add(connection, [(row, entry)])
        connection.execute("UPDATE owners SET (documents, total_length) = (SELECT count(*), sum(terms) FROM memories)")

    async with Database(Path(path), Settings(steps=STEPS[:1])) as database:
        await database.write(fill, backend="test")


async def ids_of(store, scope=ALICE, *, now=START, filter=ALL):
    """The ids of everything in a scope, in order."""
    ids, cursor = [], None
    while True:
        page = await store.list(filter, scope=scope, now=now, limit=1000, cursor=cursor)
        ids += [memory.id for memory in page.memories]
        cursor = page.cursor
        if cursor is None:
            return ids


def writer_of(store):
    """The connection that writes, to be used while no call is running."""
    return store.database.store("test").writer


def value(store, statement, *values):
    """What a statement says on that connection, first column of the first row."""
    return writer_of(store).execute(statement, values).fetchone()[0]


def chance(seed):
    """Numbers that look random and are always the same."""
    return random.Random(seed)  # noqa: S311 - they protect nothing


def child(code, *arguments, **options):
    """Run Python code in a process of its own, which has to succeed; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_with(folder, *words):
    """The words that stand in a file of a folder, as (word, file)."""
    found = []
    for file in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
        data = file.read_bytes()
        found += [(word, file.name) for word in words if word.encode() in data]
    return found
