import shutil
from functools import partial
from pathlib import Path

import apsw
import pytest

from memspine.model import MemoryChanges, NewMemory, Scope
from memspine_sqlite import erasing, slack
from memspine_sqlite.connections import Settings
from memspine_sqlite.slack import DatabaseFile, Shape

from .tools import ALICE, BOB, START, add, at, chance, files_with, ids_of, opened, run, writer_of

CANARY = "qzcanaryxj"
LEAF, INTERIOR = 13, 5


# Only the bytes matter here, not when they reach the disk.
FAST = Settings(synchronous="OFF", busy_timeout_seconds=2)
WORDS = ["".join(chance(number).choices("abcdefghijklmnopqrstuvw", k=number % 7 + 3)) for number in range(2000)]


def noise(choice, words):
    """Text without a canary."""
    return " ".join(choice.choices(WORDS, k=words))


async def plant(store, choice, *, count):
    """Memories in batches of all sizes, a tenth of them with a canary in each place that holds text."""
    planted, batch, ids = [], [], []
    for number in range(count):
        id = f"{choice.getrandbits(128):032x}"
        if choice.random() < 0.1:
            planted.append(id)
            word = f"{CANARY}{number}"
            batch.append(
                NewMemory(
                    content=f"{noise(choice, choice.choice([2, 20, 900]))} {word} {noise(choice, 3)}",
                    key=choice.choice(["", f"{word} key"]),
                    session=choice.choice(["", f"{word} session"]),
                    metadata=choice.choice([{}, {"speaker": f"{word} speaker", "category": f"{word} category"}]),
                    created_at=at(-choice.randrange(10**6)),
                )
            )
        else:
            text = noise(choice, choice.choice([2, 20, 60]))
            batch.append(NewMemory(content=text, key=choice.choice(["", text[:500]]), session=noise(choice, 1)))
        ids.append(id)
        if len(batch) >= choice.choice([1, 10, 100]) or number == count - 1:
            await store.create_many(batch, scope=ALICE, ids=ids, now=START)
            batch, ids = [], []
    for id in planted:
        match choice.randrange(5):
            case 0 | 1:
                text = f"{noise(choice, choice.choice([3, 80, 1200]))} {CANARY} later"
                await store.update(id, MemoryChanges(content=text), scope=ALICE, now=at(1))
            case 2:
                await store.update(id, MemoryChanges(key=f"{CANARY} {id}"), scope=ALICE, now=at(1))
            case 3:
                await store.delete(id, scope=ALICE, now=at(1))
    return planted


def statuses(receipt):
    """The places of a receipt with what became of them."""
    return {place.place: place.status for place in receipt.places}


def tokens_of(store):
    """Every token of the keyword index."""
    return {term for (term,) in writer_of(store).execute("SELECT DISTINCT term FROM vocabulary")}


# With these, rows move between pages in a way that leaves copies behind.
SEEDS = (15, 16, 19, 22)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("step", [1, 1000], ids=["one by one", "all at once"])
def test_no_byte_is_left_anywhere(tmp_path, seed, step):
    """After the receipt no file of the folder holds a word of what was purged, nor does the index hold its tokens."""

    async def go():
        choice = chance(seed)
        async with opened(tmp_path / "store.db", FAST) as store:
            planted = await plant(store, choice, count=400 if step == 1 else 800)
            held = store.database.store("test").tokens.token(1, CANARY)
            before = await ids_of(store)
            for start in range(0, len(planted), step):
                receipt = await store.purge(planted[start : start + step], scope=ALICE, now=at(2))
            assert set(statuses(receipt).values()) == {"erased", "kept"}
            assert files_with(tmp_path, CANARY, CANARY.upper()) == []
            assert held not in tokens_of(store)
            assert await ids_of(store) == [id for id in before if id not in set(planted)]
            assert (await store.health(deep=True)).ok
        assert files_with(tmp_path, CANARY) == []

    run(go())


def test_pages_have_to_be_cleaned(tmp_path, monkeypatch):
    """Without cleaning the unused bytes of pages, words outlive their deletion in some store: the scan can fail."""
    monkeypatch.setattr(DatabaseFile, "clean", lambda *_: 0)

    async def go(seed):
        async with opened(tmp_path / f"{seed}" / "store.db", FAST) as store:
            planted = await plant(store, chance(seed), count=800)
            await store.purge(planted, scope=ALICE, now=at(2))
            return files_with(tmp_path / f"{seed}", CANARY)

    assert any(run(go(seed)) for seed in (*SEEDS, *range(15)))


def test_a_whole_owner_goes(tmp_path):
    """Purging an owner erases all of theirs, and nothing of another owner with the same words, ids and keys."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            for number in range(300):
                text = f"{CANARY} {noise(chance(number), 30)}"
                await add(store, f"m{number}", text, key=f"k{number}")
                await add(store, f"m{number}", "walnut " + text.removeprefix(CANARY), key=f"k{number}", scope=BOB)
            receipt = await store.purge(None, scope=ALICE, now=at(2))
            assert receipt.memories == 300
            assert files_with(tmp_path, CANARY) == []
            assert len(await ids_of(store, BOB)) == 300
            assert len(await store.tombstones([f"m{n}" for n in range(300)], scope=ALICE)) == 300
            assert statuses(receipt)["owner's name"] == "kept"
            assert (await store.health(deep=True)).ok

    run(go())


def test_an_owner_is_named_where_the_name_stays(tmp_path):
    """The receipt names the owner's name only for a whole owner, and only where the store knows it."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            await add(store, "a", session="s")
            for ids, scope in ((None, BOB), (["a"], ALICE), (None, Scope.of_session("alice", "s"))):
                assert "owner's name" not in statuses(await store.purge(ids, scope=scope, now=at(1)))
            places = (await store.purge(None, scope=ALICE, now=at(1))).places
            (named,) = [place for place in places if place.place == "owner's name"]
            assert named.status == "kept"
            assert named.detail == "the name stays beside tombstones and feed, which refer to it"

    run(go())


def test_backups_are_reached(tmp_path):
    """A purge reaches the copies that the store wrote."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            await add(store, "a", f"{CANARY} one", key="k")
            await add(store, "b")
            await store.backup(tmp_path / "copies.db")
            receipt = await store.purge(["a"], scope=ALICE, now=at(1))
            found = statuses(receipt)
            assert found[f"backup {tmp_path / 'copies.db'}"] == "erased"
            assert files_with(tmp_path, CANARY) == []
        async with opened(tmp_path / "copies.db") as copy:
            assert await ids_of(copy) == ["b"]
            assert (await copy.health(deep=True)).ok

    run(go())


def test_a_backup_that_was_moved_is_remembered(tmp_path):
    """A copy that is not at its path is kept until it is back, where the purge then erases it."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            await add(store, "a", f"{CANARY} one")
            copy, place = tmp_path / "copy.db", f"backup {tmp_path / 'copy.db'}"
            await store.backup(copy)
            copy.rename(tmp_path / "moved.db")
            for _ in range(2):
                receipt = await store.purge(["a"], scope=ALICE, now=at(1))
                (found,) = [one for one in receipt.places if one.place == place]
                assert found.status == "kept"
                assert "no file is there now; a copy that was moved still holds the content" in found.detail
                assert files_with(tmp_path, CANARY) == [(CANARY, "moved.db")]
            (tmp_path / "moved.db").rename(copy)
            assert statuses(await store.purge(["a"], scope=ALICE, now=at(2)))[place] == "erased"
            assert files_with(tmp_path, CANARY) == []

    run(go())


def test_a_backup_that_is_finished_meanwhile_is_reached(tmp_path, monkeypatch):
    """A copy that gets its own name between the looks for one name and for the other is purged, not taken for gone."""
    copy, half = tmp_path / "copy.db", tmp_path / ".copy.db.partial"
    exists = Path.exists

    def finish(path):
        """Rename the copy right after the first look at either name."""
        found = exists(path)
        if path in {copy, half} and exists(half):
            half.rename(copy)
        return found

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            await add(store, "a", f"{CANARY} one")
            await store.backup(copy)
            copy.rename(half)
            writer_of(store).execute("UPDATE backups SET partial = ?", (str(half),))
            monkeypatch.setattr(Path, "exists", finish)
            found = statuses(await store.purge(["a"], scope=ALICE, now=at(1)))
            assert found[f"backup {copy}"] == "erased"
            assert files_with(tmp_path, CANARY) == []

    run(go())


def test_a_backup_that_cannot_be_reached_is_pending(tmp_path):
    """A copy whose folder is away, which is damaged or half written, is never called erased."""

    async def go():
        (tmp_path / "disk").mkdir()
        async with opened(tmp_path / "store.db", FAST) as store:
            await add(store, "a", f"{CANARY} one")
            await store.backup(tmp_path / "disk" / "away.db")
            await store.backup(tmp_path / "damaged.db")
            await store.backup(tmp_path / "replaced.db")
            shutil.move(tmp_path / "disk", tmp_path / "elsewhere")
            (tmp_path / "damaged.db").write_bytes(b"no database at all" * 1000)
            (tmp_path / "replaced.db").unlink()
            apsw.Connection(str(tmp_path / "replaced.db")).execute("CREATE TABLE t (x)")
            half = tmp_path / ".half.db.partial"
            half.touch()
            writer_of(store).execute("INSERT INTO backups VALUES (?, ?)", (str(tmp_path / "half.db"), str(half)))
            found = statuses(await store.purge(["a"], scope=ALICE, now=at(1)))
            assert found["rows"] == "erased"
            assert found[f"backup {tmp_path / 'disk' / 'away.db'}"] == "pending"
            assert found[f"backup {tmp_path / 'damaged.db'}"] == "pending"
            assert found[f"backup {tmp_path / 'half.db'}"] == "pending"
            assert found[f"backup {tmp_path / 'replaced.db'}"] == "kept"

    run(go())


def test_a_reader_makes_it_pending(tmp_path):
    """While a reader of another process holds the log, the receipt says pending; repeated later, it says erased."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path, Settings(busy_timeout_seconds=0.2)) as store:
            await add(store, "a", f"{CANARY} one", key="k")
            reader = apsw.Connection(str(path))
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM memories").fetchall()
            receipt = await store.purge(["a"], scope=ALICE, now=at(1))
            assert receipt.memories == 1
            assert statuses(receipt)["rows"] == statuses(receipt)["write-ahead log"] == "pending"
            assert all(place.detail for place in receipt.places if place.status != "erased")
            assert await ids_of(store) == []
            assert files_with(tmp_path, CANARY) != []
            reader.execute("COMMIT")
            receipt = await store.purge(["a"], scope=ALICE, now=at(2))
            assert statuses(receipt)["rows"] == "erased"
            assert files_with(tmp_path, CANARY) == []
            reader.close()

    run(go())


def test_a_purge_that_was_interrupted_is_finished(tmp_path):
    """When the process dies between the rows and their bytes, the next one to open the store erases the bytes."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path, FAST) as store:
            planted = await plant(store, chance(2), count=600)
            await store.database.write(partial(erasing.purge_rows, ids=planted, scope=ALICE, now=at(1)), backend="test")
            shutil.copytree(tmp_path, tmp_path / "after")
        assert files_with(tmp_path / "after", CANARY) != []
        async with opened(tmp_path / "after" / "store.db") as store:
            assert await ids_of(store) != []
        assert files_with(tmp_path / "after", CANARY) == []

    run(go())


def test_a_purge_waits_for_no_writer(tmp_path):
    """Purging while another process writes erases everything all the same."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path, FAST) as store, opened(path, FAST) as other:
            for number in range(40):
                await add(store, f"a{number}", f"{CANARY} {number}")
                await add(other, f"b{number}", f"walnut {number}")
                if number % 10 == 9:
                    ids = [f"a{n}" for n in range(number + 1)]
                    receipt = await store.purge(ids, scope=ALICE, now=at(1))
                    await add(other, f"c{number}", "walnut")
                    assert "pending" not in statuses(receipt).values()
                    assert files_with(tmp_path, CANARY) == []
            assert len(await ids_of(other)) == 44

    run(go())


def test_a_session_purges_its_own(tmp_path):
    """In the scope of a session only memories whose last state lies in it are purged."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            for id, session in (("in", "s"), ("out", ""), ("deleted", "s"), ("moved", "s")):
                await add(store, id, f"{CANARY} {id}", session=session)
            await store.update("moved", MemoryChanges(session="t"), scope=ALICE, now=at(1))
            await store.delete("deleted", scope=ALICE, now=at(1))
            inside = Scope.of_session("alice", "s")
            assert (await store.purge(None, scope=inside, now=at(2))).memories == 2
            assert sorted(await ids_of(store)) == ["moved", "out"]
            assert await store.history("deleted", scope=ALICE) == ()
            assert len(await store.history("moved", scope=ALICE)) == 2

    run(go())


def page_with(*, kind, cells, content, size=512, free=0):
    """A page of a b-tree that is full of dirt."""
    page = bytearray(b"\xff" * size)
    page[0:8] = bytes([kind]) + free.to_bytes(2) + cells.to_bytes(2) + content.to_bytes(2) + b"\0"
    return page


@pytest.mark.parametrize(("kind", "header"), [(LEAF, 8), (10, 8), (INTERIOR, 12), (2, 12)])
def test_the_unused_middle_of_a_page(kind, header):
    """Between the cell pointers and the cells of a b-tree page, and in its free blocks, there is nothing to keep."""
    page = page_with(kind=kind, cells=3, content=400, free=450)
    page[450:454] = (0).to_bytes(2) + (20).to_bytes(2)
    shape = Shape(512, 512, 9, {})
    assert list(slack.unused_ranges(shape, 2, bytes(page))) == [(header + 6, 400), (454, 470)]


def test_pages_that_are_not_understood_are_left_alone():
    """Overflow pages, and pages whose numbers do not fit, are not touched; free pages are, but for their list."""
    shape = Shape(512, 512, 9, {4: 24, 5: 0})
    assert list(slack.unused_ranges(shape, 2, bytes(512))) == []
    assert list(slack.unused_ranges(shape, 2, bytes(page_with(kind=LEAF, cells=300, content=400)))) == []
    assert list(slack.unused_ranges(shape, 2, bytes(page_with(kind=LEAF, cells=3, content=600)))) == []
    looping = page_with(kind=LEAF, cells=3, content=400, free=450)
    looping[450:454] = (450).to_bytes(2) + (20).to_bytes(2)
    assert list(slack.unused_ranges(shape, 2, bytes(looping))) == [(14, 400), (454, 470)]
    assert list(slack.unused_ranges(shape, 4, bytes(512))) == [(24, 512)]
    assert list(slack.unused_ranges(shape, 5, bytes(512))) == [(0, 512)]


def test_a_file_that_is_too_large_stays_pending(tmp_path, monkeypatch):
    """A file with so many pages that they cannot be told apart is not touched, and the receipt says so."""
    monkeypatch.setattr(slack, "PAGES_MAX", 10)

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            await add(store, "a", CANARY)
            receipt = await store.purge(["a"], scope=ALICE, now=at(1))
            assert statuses(receipt)["rows"] == "pending"
            assert "too large" in next(place.detail for place in receipt.places if place.place == "rows")

    run(go())


def test_cleaning_leaves_a_sound_database(tmp_path):
    """A database whose unused bytes were all overwritten passes SQLite's own check and says the same as before."""
    path = tmp_path / "plain.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    connection.execute("CREATE TABLE t (a, b)")
    connection.execute("CREATE INDEX i ON t (b)")
    choice = chance(1)
    connection.execute("BEGIN")
    for number in range(3000):
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, noise(choice, choice.choice([1, 5, 400]))))
        if number % 3 == 0:
            connection.execute("DELETE FROM t WHERE a = ?", (choice.randrange(number + 1),))
    connection.execute("DELETE FROM t WHERE a > 2500")
    connection.execute("COMMIT")
    before = connection.execute("SELECT a, b FROM t ORDER BY a").fetchall()
    connection.close()
    file = DatabaseFile(path)
    shape = file.shape()
    assert file.clean(shape, 1, shape.pages) > 10_000
    assert file.clean(shape, 1, shape.pages) == 0
    file.close()
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("SELECT a, b FROM t ORDER BY a").fetchall() == before
    connection.close()
