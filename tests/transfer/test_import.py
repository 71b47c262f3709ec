"""Importing: what the store holds afterwards, and what the report says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

from memspine.conformance.reference.backend import ReferenceBackend
from memspine.errors import BackendUnavailable, CapabilityError, InvalidMemoryError, ScopeError
from memspine.model import Memory, NewMemory, Tombstone
from memspine.transfer import BadLine, ImportedMemory, ImportedRecord, Note, import_items
from memspine.wire import memory_to_wire

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 3, 12, tzinfo=UTC)
MEMORY = Memory(id="m1", owner="me", content="Juno eats duck.", created_at=NOON, updated_at=NOON)
CHANGED = attrs.evolve(MEMORY, content="Juno eats fish.", updated_at=LATER, revision=2)
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def lines(*objects):
    return "\n".join(map(json.dumps, objects))


async def everything(manager, **options):
    page = await manager.list(limit=10_000, newest_first=False, everyone=True, management=True, **options)
    return page.memories


async def steps(manager, *, owner="me"):
    return [state.memory.revision for state in await manager.history("m1", owner=owner)]


def record(*states, line=1):
    return ImportedRecord(line=line, steps=states)


def test_the_rest_goes_in(managed, take):
    """Bad lines are told with their numbers, wherever they stand in a batch, and everything else is stored."""

    async def work(manager):
        text = lines({"content": "one"}, {"content": ""}, {"content": "two"}) + "\n{\n" + lines({"content": "three"})
        report = await take(manager, text, batch_size=2)
        assert [memory.content for memory in await everything(manager)] == ["one", "two", "three"]
        assert (report.stored, report.bad_total, report.total) == (3, 2, 5)
        assert [bad.line for bad in report.bad] == [2, 4]

    managed(work)


def test_an_item_that_only_the_manager_refuses_is_a_bad_line(managed):
    """Items that were not read by us are checked as well, and one that is refused keeps nothing else out."""

    async def work(manager):
        items = [ImportedMemory(line=n, memory=NewMemory(content="x" * (n != 2)), id=f"i{n}") for n in (1, 2, 3)]
        report = await import_items(manager, items)
        assert [memory.id for memory in await everything(manager)] == ["i1", "i3"]
        assert [bad.line for bad in report.bad] == [2]

    managed(work)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.md", "# Juno\n- eats duck\n- eats duck\n\nA dog.\n"),
        ("notes.txt", "one\n\ntwo"),
        ("lines.jsonl", lines({"content": "a"}, {"content": "b", "key": "k"}, {"content": "c", "id": "c"})),
        ("talk.json", json.dumps({"conversations": [{"memories": [{"text": "a"}, {"text": "b", "time": None}]}]})),
        ("export.jsonl", lines({"memory": memory_to_wire(CHANGED), "history": [{"memory": memory_to_wire(MEMORY)}]})),
    ],
)
def test_importing_again_changes_nothing(managed, take, name, content):
    """A second import of the same file finds everything there and mints no revision, whatever the format."""

    async def work(manager):
        first = await take(manager, content, name=name)
        before = await everything(manager)
        second = await take(manager, content, name=name)
        assert await everything(manager) == before
        assert first.stored == len(before) > 0
        assert (second.stored, second.replaced, second.unchanged) == (0, 0, first.total)

    managed(work)


def test_what_changed_is_replaced(managed, take):
    """An item with the id or the key of a memory replaces it when it says something else."""

    async def work(manager):
        await take(manager, lines({"content": "a", "key": "k", "metadata": {"x": 1}}, {"content": "b", "id": "b"}))
        report = await take(manager, lines({"content": "A", "key": "k"}, {"content": "B", "id": "b"}))
        assert (report.stored, report.replaced) == (0, 2)
        memories = {memory.content: memory for memory in await everything(manager)}
        assert {content: memory.revision for content, memory in memories.items()} == {"A": 2, "B": 2}
        assert memories["A"].metadata == {"x": 1}

    managed(work)


def test_the_holder_of_a_key_is_found_by_the_key(managed, take):
    """A keyed memory that was stored under an id of its own is recognised, not written again."""

    async def work(manager):
        await manager.create("a", key="k", id="own")
        assert (await take(manager, lines({"content": "a", "key": "k"}))).unchanged == 1
        assert (await take(manager, lines({"content": "b", "key": "k"}))).replaced == 1
        (memory,) = await everything(manager)
        assert (memory.id, memory.content, memory.revision) == ("own", "b", 2)

    managed(work)


def test_the_order_of_the_file_is_the_order_of_the_list(managed, take):
    """Memories without a time are listed as they stand in the file, none of them in the future."""

    async def work(manager):
        words = [f"word {n}" for n in range(200)]
        await take(manager, "\n\n".join(words), name="a.txt", batch_size=50)
        memories = await everything(manager)
        assert [memory.content for memory in memories] == words
        assert memories[-1].created_at <= datetime.now(UTC)

    managed(work)


def test_later_lines_win(managed, take):
    """Lines about one memory are applied in their order, also when they would fall into one batch."""

    async def work(manager):
        report = await take(
            manager, lines({"content": "a", "key": "k"}, {"content": "b", "key": "k"}, {"content": "b", "key": "k"})
        )
        assert (report.stored, report.replaced, report.unchanged) == (1, 1, 1)
        assert [memory.content for memory in await everything(manager)] == ["b"]

    managed(work)


def test_owner_and_session_are_those_of_the_call(managed, take):
    """Memories go to the owner of the call; the session of the call is for those that name none."""

    async def work(manager):
        report = await take(
            manager, lines({"content": "a"}, {"content": "b", "sessionId": "own"}), owner="ann", session="s"
        )
        assert [(memory.owner, memory.session) for memory in await everything(manager)] == [
            ("ann", "s"),
            ("ann", "own"),
        ]
        assert report.notes == ("line 2: the session that the file names was kept",)
        with pytest.raises(InvalidMemoryError, match="owner"):
            await take(manager, lines({"content": "a"}), owner="")
        with pytest.raises(ScopeError):
            await take(manager, lines({"content": "a"}), owner="global")

    managed(work)


def test_the_session_of_the_configuration_is_the_default(managed, take):
    """Without a session in the call, memories that name none get the configured one, as `create` has it."""

    async def work(manager):
        await take(manager, lines({"content": "a"}))
        assert (await everything(manager))[0].session == "daily"

    managed(work, {"memory": {"session": "daily"}, "backends": {"store": {"plugin": "reference"}}})


# ── whole records ──


def test_a_record_keeps_everything(managed):
    """Id, revision, times, telemetry and the states before are those of the record."""

    async def work(manager):
        used = attrs.evolve(CHANGED, access_count=4, last_accessed_at=LATER)
        assert (await import_items(manager, [record(MEMORY, used)])).stored == 1
        assert await everything(manager) == (used,)
        assert await steps(manager) == [1, 2]

    managed(work)


@pytest.mark.parametrize(
    ("there", "coming", "counts"),
    [
        ((MEMORY,), (MEMORY, CHANGED), {"replaced": 1}),
        ((MEMORY, CHANGED), (MEMORY,), {"stale": 1}),
        ((CHANGED,), (attrs.evolve(CHANGED, content="other"),), {"conflicts": 1, "bad_total": 1}),
        ((MEMORY,), (Tombstone(id="m1", owner="me", revision=2, deleted_at=LATER),), {"replaced": 1}),
        ((MEMORY, CHANGED), (Tombstone(id="m1", owner="me", revision=2, deleted_at=LATER),), {"stale": 1}),
    ],
    ids=["newer", "older", "conflict", "deletion", "old deletion"],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_records_meet_what_is_there(managed, there, coming, counts, dry_run):
    """Newer records replace, older ones are stale, others are told as conflicts; a dry run foretells it."""

    async def work(manager):
        await import_items(manager, [record(*there)])
        before = await everything(manager)
        report = await import_items(manager, [record(*coming, line=7)], dry_run=dry_run)
        fields = ("stored", "replaced", "unchanged", "stale", "conflicts", "bad_total")
        assert {name: getattr(report, name) for name in fields if getattr(report, name)} == counts
        assert [bad.line for bad in report.bad] == ([7] if "conflicts" in counts else [])
        if dry_run or "replaced" not in counts:
            assert await everything(manager) == before

    managed(work)


def test_a_key_that_another_memory_has_is_a_conflict(managed):
    """A record whose key another memory holds is told, and neither of the two is lost."""

    async def work(manager):
        await manager.create("mine", key="k")
        report = await import_items(manager, [record(attrs.evolve(MEMORY, key="k"), line=3)])
        assert (report.conflicts, report.bad[0].line) == (1, 3)
        assert "another memory has its key" in report.bad[0].reason
        assert [memory.content for memory in await everything(manager)] == ["mine"]

    managed(work)


def test_records_become_the_owners(managed):
    """Without the management role, records of another owner become the caller's, with a remark."""

    async def work(manager):
        foreign = (attrs.evolve(MEMORY, owner="bob"), attrs.evolve(CHANGED, owner="bob"))
        report = await import_items(manager, [record(*foreign)], owner="ann")
        assert [memory.owner for memory in await everything(manager)] == ["ann"]
        assert await steps(manager, owner="ann") == [1, 2]
        assert report.notes == ("the records of 'bob' now belong to 'ann'",)
        assert (await import_items(manager, [record(*foreign)], owner="ann")).unchanged == 1

    managed(work)


def test_two_owners_never_become_one(managed):
    """Records of a second owner are refused, because the memories of two people would be mixed."""

    async def work(manager):
        items = [record(attrs.evolve(MEMORY, owner=owner), line=n) for n, owner in enumerate(("me", "bob"), 1)]
        report = await import_items(manager, items, owner="me", management=True)
        assert [memory.owner for memory in await everything(manager)] == ["me"]
        assert [bad.line for bad in report.bad] == [2]

    managed(work)


def test_the_management_role_keeps_owners(managed):
    """With the management role and no owner named, every record stays with its owner, in few batches."""

    async def work(manager):
        owners = ["bob", "me", "global"] * 4
        items = [record(attrs.evolve(MEMORY, owner=owner, id=f"m{n}")) for n, owner in enumerate(owners)]
        progress = []
        report = await import_items(manager, items, management=True, on_progress=progress.append)
        assert {memory.id: memory.owner for memory in await everything(manager)} == {
            f"m{n}": owner for n, owner in enumerate(owners)
        }
        assert (report.stored, progress, report.notes) == (12, [12], ())

    managed(work)


def test_a_store_without_put_gets_memories(managed, without):
    """Where whole records cannot be put, they are created with id and time, and the report says what was lost."""

    async def work(manager):
        with pytest.raises(CapabilityError):
            await manager.put([MEMORY])
        stone = Tombstone(id="m2", owner="me", revision=2, deleted_at=LATER)
        items = [record(MEMORY, attrs.evolve(CHANGED, access_count=1)), record(stone, line=2)]
        report = await import_items(manager, items)
        (memory,) = await everything(manager)
        assert (memory.id, memory.content, memory.created_at) == ("m1", CHANGED.content, NOON)
        assert (report.stored, [bad.line for bad in report.bad]) == (1, [2])
        (note,) = report.notes
        assert "2 were created anew with their ids and creation times" in note
        assert "not kept were their update times, the revision numbers of 1, 1 earlier states" in note
        assert "the access counts of 1" in note
        again = await import_items(manager, items)
        assert (again.unchanged, await everything(manager)) == (1, (memory,))

    without("put")
    managed(work)


def test_plain_lines_and_records_may_be_mixed(managed, take):
    """A file may hold both kinds of lines, which are applied in their order."""

    async def work(manager):
        text = lines({"content": "x", "id": "m1"}, {"memory": memory_to_wire(CHANGED)}, {"content": "y", "id": "m1"})
        assert (await take(manager, text)).total == 3
        (memory,) = await everything(manager)
        assert (memory.content, memory.revision) == ("y", 3)

    managed(work)


# ── the run ──


@pytest.mark.parametrize("kind", ["memories", "records"])
def test_a_dry_run_stores_nothing(managed, take, kind):
    """A dry run gives the report of the real one and leaves the store as it was."""
    plain = lines({"content": "a"}, {"content": ""}, {"content": "b", "key": "k"})
    whole = lines(*(memory_to_wire(attrs.evolve(MEMORY, id=f"m{n}")) for n in range(3)))

    async def work(manager):
        text = plain if kind == "memories" else whole
        foretold = await take(manager, text, dry_run=True)
        assert await everything(manager) == ()
        assert await take(manager, text) == foretold

    managed(work)


def test_progress_is_told_batch_by_batch(managed):
    """After each batch the caller learns how many items are done, bad ones counted in."""

    async def work(manager):
        items = [ImportedMemory(line=n, memory=NewMemory(content=str(n)), id=str(n)) for n in range(5)]
        seen = []
        await import_items(manager, [BadLine(1, "x"), *items], batch_size=2, on_progress=seen.append)
        assert seen == [3, 5, 6]

    managed(work)


def test_the_report_stays_small(managed):
    """However many lines are bad, a hundred are listed and all are counted; equal notes are told once."""

    async def work(manager):
        items = [BadLine(n, "x") for n in range(1, 1001)]
        items += [Note(n, "the same") for n in range(1, 501)] + [Note(n, f"another {n}") for n in range(1, 501)]
        report = await import_items(manager, items)
        assert (report.bad_total, len(report.bad), len(report.notes)) == (1000, 100, 101)
        assert report.notes[0] == "line 1 and 499 more: the same"
        assert report.notes[-1] == "and 401 more notes"

    managed(work)


def test_what_only_a_fallback_has_is_stored(managed, monkeypatch):
    """A memory that a fallback knows is not there yet for the primary, which is what the import fills."""
    settings = {
        "memory": {"primary": "main", "fallbacks": ["old"]},
        "backends": {"main": {"plugin": "reference"}, "old": {"plugin": "reference"}},
    }

    known = {id: attrs.evolve(MEMORY, id=id, content=id) for id in ("a", "b")}
    get_many = ReferenceBackend.get_many

    async def get(self, ids, **options):
        return {id: known[id] for id in ids} if self.name == "old" else await get_many(self, ids, **options)

    async def work(manager):
        await manager.create("b", id="b")
        items = [ImportedMemory(line=1, memory=NewMemory(content=id), id=id) for id in known]
        report = await import_items(manager, items)
        assert (report.stored, report.unchanged) == (1, 1)
        assert {memory.id for memory in await everything(manager)} == {"a", "b"}

    monkeypatch.setattr(ReferenceBackend, "get_many", get)
    managed(work, settings)


@pytest.mark.parametrize(("name", "bad"), [("conversations-short.json", 0), ("conversations-long.json", 1)])
def test_real_conversations_go_in(managed, take, without_shared, name, bad):
    """The conversations of the evaluation go in, but for a message that is longer than a memory may be."""
    if not (DATA / name).is_file():
        without_shared(f"{name} is not in ../shared/data")
    raw = (DATA / name).read_bytes()
    count = sum(len(conversation["memories"]) for conversation in json.loads(raw)["conversations"])

    async def work(manager):
        report = await take(manager, raw, name=name)
        assert (report.stored, report.bad_total) == (count - bad, bad)
        assert all("at most 100000 characters" in line.reason for line in report.bad)
        assert (await take(manager, raw, name=name)).unchanged == count - bad
        sessions = await manager.count(by="session")
        assert all("/" in session for session in sessions.groups)

    managed(work)


def test_what_waits_is_not_counted_as_stored(managed, monkeypatch, tmp_path):
    """What was put off because the primary failed between the question and the answer is counted apart."""
    settings = {
        "memory": {"primary": "main", "on_write_failure": "spool"},
        "backends": {"main": {"plugin": "reference"}},
        "journal": {"path": str(tmp_path / "waiting.journal")},
    }
    items = [ImportedMemory(line=n, memory=NewMemory(content=f"{n}"), id=f"n{n}") for n in (1, 2)]

    async def refused(self, *_, **__):
        raise BackendUnavailable(self.name, "connection refused")

    async def work(manager):
        await manager.create("1", id="n1")
        monkeypatch.setattr(ReferenceBackend, "create_many", refused)
        report = await import_items(manager, items)
        assert (report.stored, report.unchanged, report.waiting, report.total) == (0, 1, 1, 2)

    managed(work, settings)


def test_an_import_that_ends_says_what_waits(managed, monkeypatch, tmp_path):
    """An import that ends with an error because the primary stays away says how many memories wait for it."""
    settings = {
        "memory": {"primary": "main", "on_write_failure": "spool"},
        "backends": {"main": {"plugin": "reference"}},
        "journal": {"path": str(tmp_path / "waiting.journal")},
    }

    async def refused(self, *_, **__):
        monkeypatch.setattr(ReferenceBackend, "get_many", refused)
        raise BackendUnavailable(self.name, "connection refused")

    async def work(manager):
        items = [ImportedMemory(line=n, memory=NewMemory(content=f"{n}"), id=f"n{n}") for n in range(1, 5)]
        monkeypatch.setattr(ReferenceBackend, "create_many", refused)
        with pytest.raises(BackendUnavailable, match="nothing of it went in, 2 wait for the primary; import"):
            await import_items(manager, items, batch_size=2)

    managed(work, settings)
