import base64
import json

import pytest

from memspine.errors import CursorError
from memspine.model import Scope

from .tools import ALICE, ALL, BOB, EVERYONE, START, add, opened, run

SHARED, SESSION = Scope.shared("alice"), Scope.of_session("alice", "s")


def encoded(value, **options):
    """What a list cursor would be of any value."""
    return base64.urlsafe_b64encode(json.dumps(value, **options).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "WyJuIiwwLCJcdWQ4MDAiLCIiXQ",
        encoded(["n", 0, "id", "\ud800"]),
        encoded(["n", 0, "id", "\0"]),
        encoded(["n", 1 << 70, "id", ""]),
        encoded(["n", 0, "id", ""]) + "=",
        encoded(["n", 0, "id", ""], indent=1),
        encoded(["n", 0, "id"]),
        "\ud800",
        "ä",
        "🥜",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("scope", [ALICE, SHARED, EVERYONE], ids=str)
def test_what_no_list_gave_is_refused(tmp_path, cursor, scope):
    """Text that SQLite cannot take, that is not ASCII, or that is spelled otherwise is no cursor of a list or feed."""

    async def go():
        async with opened(tmp_path / "store.db") as store:
            await add(store, "a")
            with pytest.raises(CursorError):
                await store.list(ALL, scope=scope, now=START, limit=1, cursor=cursor, newest_first=True)
            with pytest.raises(CursorError):
                await store.changes(scope=scope, limit=1, cursor=cursor)

    run(go())


async def cursors_of(store, scope):
    """The cursor of each change that a scope shows, in order."""
    return [change.cursor for change in (await store.changes(scope=scope, limit=100)).changes]


def test_a_feed_cursor_tells_nothing(tmp_path):
    """What an owner's cursors are does not show what others wrote: no number, no order, no common part."""

    async def go():
        async with opened(tmp_path / "store.db") as store:
            for number in range(20):
                await add(store, f"b{number}", scope=BOB)
                await add(store, f"a{number}")
            cursors = await cursors_of(store, ALICE)
            data = [base64.urlsafe_b64decode(cursor + "=") for cursor in cursors]
            assert {len(one) for one in data} == {32}
            assert len({one[part : part + 4] for one in data for part in range(0, 32, 4)}) == 20 * 8
            assert sorted(cursors) != cursors
            assert await cursors_of(store, ALICE) == cursors
            end = (await store.changes(scope=ALICE, limit=100)).cursor
            assert end == cursors[-1]
            await add(store, "more", scope=BOB)
            assert (await store.changes(scope=ALICE, limit=100, cursor=end)).cursor == end
            assert await cursors_of(store, SESSION) == cursors

    run(go())


def test_a_feed_cursor_holds_in_its_scope_alone(tmp_path):
    """A cursor of another owner, of a wider scope, of another store, or with one character changed is refused."""

    async def go():
        async with opened(tmp_path / "store.db") as store, opened(tmp_path / "other.db") as other:
            for each in (store, other):
                await add(each, "a")
                await add(each, "b", scope=BOB)
            (cursor,) = await cursors_of(store, ALICE)
            wrong = [*(await cursors_of(store, BOB)), *(await cursors_of(store, EVERYONE))]
            wrong += [*(await cursors_of(store, SHARED)), *(await cursors_of(other, ALICE)), cursor + "A", cursor[:-1]]
            flipped = ["A" if letter != "A" else "B" for letter in cursor]
            wrong += [cursor[:at] + flipped[at] + cursor[at + 1 :] for at in range(len(cursor))]
            for one in wrong:
                with pytest.raises(CursorError, match="same scope"):
                    await store.changes(scope=ALICE, limit=1, cursor=one)
            assert (await store.changes(scope=ALICE, limit=1, cursor=cursor)).changes == ()

    run(go())
