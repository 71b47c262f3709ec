"""Places in the change feed of a store that is replaced by older copies of itself."""

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspine.errors import CursorError
from memspine.model import Memory, Scope
from memspine_sqlite.connections import Settings
from memspine_sqlite.schema import STEPS

from .tools import ALICE, BOB, EVERYONE, START, add, opened, run, value

FAST = Settings(synchronous="OFF")
SCOPES = {scope: scope.owners for scope in (ALICE, BOB, Scope.shared("alice"), EVERYONE)}
LATER = START + timedelta(days=1)

WRITES = st.tuples(st.just("write"), st.sampled_from(["alice", "bob", "global"]), st.sampled_from("ab"))
TRIMS = st.tuples(st.just("trim"), st.integers(1, 3))
ACTIONS = st.one_of(WRITES, WRITES, WRITES, TRIMS, st.just(("back up",)), st.just(("restore",)), st.just(("restore",)))


@attrs.define
class Told:
    """What a feed has said since the store was made, each change with a number of its own, and how much was trimmed."""

    changes: list = attrs.field(factory=list)
    trimmed: int = 0

    def of(self, scope):
        """What a scope is shown, and how much of it was trimmed."""
        owners = SCOPES[scope]
        mine = [owners is None or change[0] in owners for change in self.changes]
        return [one for one, is_mine in zip(self.changes, mine, strict=True) if is_mine], sum(mine[: self.trimmed])

    def copy(self):
        return Told([*self.changes], self.trimmed)


async def write(store, told, owner, id):
    """A record that says the same in every life of the store, times included."""
    revision = 1 + sum(change[:2] == (owner, id) for change in told.changes)
    memory = Memory(id=id, owner=owner, content="walnut", created_at=START, updated_at=START, revision=revision)
    await store.put([memory], scope=Scope.of_owner(owner))
    told.changes.append((owner, id, revision, object()))


async def places(store, told):
    """Every place that the feed gives now, by scope, with what was told up to there."""
    found = []
    for scope in SCOPES:
        said, trimmed = told.of(scope)
        page = await store.changes(scope=scope, limit=100)
        assert len(page.changes) == len(said) - trimmed
        found += [(scope, change.cursor, said[: trimmed + n]) for n, change in enumerate(page.changes, 1)]
        found.append((scope, page.cursor, said))
    return found


async def check(store, told, known):
    """Whether each place goes on with what the store has told since, and is refused where it was never told."""
    for scope, cursor, before in known:
        said, trimmed = told.of(scope)
        if len(before) < trimmed or said[: len(before)] != before:
            with pytest.raises(CursorError):
                await store.changes(scope=scope, limit=100, cursor=cursor)
            continue
        page = await store.changes(scope=scope, limit=100, cursor=cursor)
        assert [(one.owner, one.id, one.revision) for one in page.changes] == [one[:3] for one in said[len(before) :]]


@settings(deadline=None, max_examples=60)
@given(st.lists(ACTIONS, min_size=3, max_size=14))
def test_a_place_is_refused_or_goes_on_truly(actions):
    """After any writes, trims, backups and restored backups, every place that a feed ever gave is refused, or is told
    all that the store has come to since, though rows of several lives say the same."""

    async def go(folder):
        path, copy = folder / "store.db", folder / "copy.db"
        told, saved, known, left = Told(), None, [], list(actions)
        while left:
            async with opened(path, FAST) as store:
                while left and left[0][0] != "restore":
                    what, *details = left.pop(0)
                    if what == "write":
                        await write(store, told, *details)
                    elif what == "trim":
                        (limit,) = details
                        told.trimmed += await store.trim_changes(scope=EVERYONE, before=LATER, limit=limit)
                    else:
                        copy.unlink(missing_ok=True)
                        await store.backup(copy)
                        saved = told.copy()
                    known += await places(store, told)
                    await check(store, told, known)
            if left:
                left.pop(0)
                if saved is not None:
                    told = saved.copy()
                    shutil.copy(copy, path)

    with tempfile.TemporaryDirectory() as folder:
        run(go(Path(folder)))


def test_a_number_that_was_given_again(tmp_path):
    """Where an older copy was put back and written past a place, the place is refused, and the error says why."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path) as store:
            await add(store, "a")
            await store.backup(tmp_path / "copy.db")
            await add(store, "b")
            cursors = [(scope, (await store.changes(scope=scope, limit=10)).cursor) for scope in (ALICE, EVERYONE)]
        shutil.copy(tmp_path / "copy.db", path)
        async with opened(path) as store:
            await add(store, "c")
            await add(store, "d")
            for scope, cursor in cursors:
                with pytest.raises(CursorError, match="older copy"):
                    await store.changes(scope=scope, limit=10, cursor=cursor)

    run(go())


def test_an_older_feed_goes_on_counting(tmp_path):
    """A store from before its rows were marked keeps its feed, and a number is not given again, all being trimmed."""

    async def go():
        older = attrs.evolve(FAST, steps=STEPS[:2])
        async with opened(tmp_path / "full.db", older) as full, opened(tmp_path / "empty.db", older) as empty:
            for store in (full, empty):
                for id in "abc":
                    await add(store, id)
            for statement in ("DELETE FROM changes", "UPDATE owners SET trimmed = 3"):
                empty.database.store("test").writer.execute(statement)
            empty.database.store("test").writer.execute("UPDATE meta SET value = '3' WHERE name = 'trimmed'")
        async with opened(tmp_path / "full.db", FAST) as store:
            page = await store.changes(scope=EVERYONE, limit=10)
            assert [(one.id, one.revision) for one in page.changes] == [("a", 1), ("b", 1), ("c", 1)]
        async with opened(tmp_path / "empty.db", FAST) as store:
            end = (await store.changes(scope=ALICE, limit=10)).cursor
            await add(store, "d")
            assert value(store, "SELECT sequence FROM changes") == 4
            assert [one.id for one in (await store.changes(scope=ALICE, limit=10, cursor=end)).changes] == ["d"]

    run(go())
