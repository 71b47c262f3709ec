"""Journals by themselves, without a chain."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from memspine.journal import Journal, Whose, entries

NOW = 1_750_000_000_000


def journal(path, *, primary="notes", plugin="sqlite", store="", place=""):
    return Journal(Path(path), whose=Whose(primary=primary, plugin=plugin, store=store, place=place))


def enter(id, *, owner="me", body="{}"):
    """Work that enters a write."""
    return partial(entries.append, writes=[("create", owner, id, body)], now=NOW)


async def ids(one):
    """The ids of what waits, in order."""
    return [entry.id for entry in await one.read(partial(entries.waiting, after=0, limit=1_000_000))]


async def closing(one):
    """The same, of a journal that is closed then."""
    found = await ids(one)
    await one.close()
    return found


async def made(path, *names):
    """A journal of the primary `notes` in sqlite that was written and closed."""
    one = journal(path)
    for name in names or ("a",):
        await one.write(enter(name))
    await one.close()
    return Path(path)
