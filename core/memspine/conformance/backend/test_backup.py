"""Capability backup: a copy of a store that is in use."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from memspine.conformance.backend.tools import add, pages, said
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, at
from memspine.conformance.subject import Place
from memspine.contracts import MemoryBackend
from memspine.errors import MemspineError
from memspine.model import NewMemory, SearchQuery


def restored(place: Place, backup: Path) -> Place:
    """A fresh place in which the backup stands where the store, closed by now, has its own file."""
    files = [file for file in place.folder.rglob("*") if file.is_file()]
    largest = max(files, key=lambda file: file.stat().st_size)
    name = place.subject.settings.backup_as or str(largest.relative_to(place.folder))
    fresh = place.another()
    target = fresh.folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(backup, target)
    return fresh


@clause("MB-160")
async def test_a_backup_is_complete_and_consistent(place: Place, tmp_path: Path) -> None:
    """Made while others write, it opens, is in health, and holds all that was there, batches whole."""
    backup = tmp_path / "backup.db"

    async def batches(store: MemoryBackend) -> None:
        for number in range(20):
            ids = [f"batch{number}-{n}" for n in range(10)]
            await store.create_many([NewMemory(content="b")] * 10, scope=ALICE, ids=ids, now=at(9))

    async with place.open() as store:
        for number in range(50):
            await add(store, f"m{number}", f"walnut {number}", key=f"k{number}")
        await store.delete("m7", scope=ALICE, now=at(1))
        before = [said(memory) for memory in await pages(store)]
        await asyncio.gather(store.backup(backup), batches(store))
        assert backup.is_file()
    async with restored(place, backup).open() as store:
        assert (await store.health(deep=True)).ok is True
        found = await pages(store)
        assert [said(memory) for memory in found if not memory.id.startswith("batch")] == before
        assert sum(memory.id.startswith("batch") for memory in found) % 10 == 0
        assert len(await store.search(SearchQuery(text="walnut", limit=99), scope=ALICE, now=at(2))) == 49
        await add(store, "new")
        assert (await store.count(ALL, scope=ALICE, now=at(9))).total == len(found) + 1


@clause("MB-160")
async def test_a_backup_overwrites_nothing(store: MemoryBackend, tmp_path: Path) -> None:
    """A target that exists is refused and stays what it was."""
    target = tmp_path / "precious"
    target.write_text("not to be lost", encoding="utf-8")
    await add(store, "a")
    with pytest.raises((MemspineError, FileExistsError)):
        await store.backup(target)
    assert target.read_text(encoding="utf-8") == "not to be lost"
