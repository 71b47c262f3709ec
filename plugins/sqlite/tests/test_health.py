import apsw
import attrs
import pytest

from memspine_sqlite import health
from memspine_sqlite.config import SQLiteConfig, SQLiteVectorsConfig, lean
from memspine_sqlite.health import may_lose_log

from .tools import ALICE, START, add, opened, run, value, writer_of


@pytest.mark.parametrize(
    ("version", "is_bad"),
    [
        ("3.40.1", True),
        ("3.44.5", True),
        ("3.44.6", False),
        ("3.45.0", True),
        ("3.50.6", True),
        ("3.50.7", False),
        ("3.50.10", False),
        ("3.51.0", True),
        ("3.51.2", True),
        ("3.51.3", False),
        ("3.54.1", False),
        ("4.0.0", False),
    ],
)
def test_versions_that_may_lose_a_transaction(version, is_bad):
    """Below SQLite 3.51.3 only 3.44.6 and 3.50.7 and their successors are free of the write-ahead log bug."""
    assert may_lose_log(version) is is_bad


def test_the_sqlite_in_use_is_free_of_it():
    """The SQLite that this distribution asks for does not have the bug."""
    assert not may_lose_log(apsw.sqlite_lib_version())


def test_facts_and_findings(tmp_path, monkeypatch):
    """Health tells version, sizes and number of memories, and what a person should know, with advice."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path) as store:
            await add(store, "a")
            calm = await store.health()
            assert calm.ok
            assert calm.findings == ()
            assert calm.facts["memories"] == "1"
            assert calm.facts["journal mode"] == "WAL"
            assert calm.facts["SQLite"] == apsw.sqlite_lib_version()
            path.chmod(0o644)
            assert (await store.health()).findings == (), "nobody else can enter the folder"
            tmp_path.chmod(0o711)
            monkeypatch.setattr(health, "may_lose_log", lambda _: True)
            worried = await store.health()
            assert worried.ok
            assert [finding.level for finding in worried.findings] == ["error", "warning"]
            assert all(finding.advice for finding in worried.findings)

    run(go())


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("UPDATE owners SET documents = documents + 1", "statistics of the owner 'alice'"),
        ("UPDATE owners SET total_length = total_length - 1", "statistics of the owner 'alice'"),
        ("UPDATE keywords_data SET block = x'0102030405' WHERE id > 1000", "fts5"),
        ("INSERT INTO keywords (keywords) VALUES ('delete-all')", "the keyword index holds 0 tokens"),
        ("UPDATE memories SET terms = terms + 1", "tokens"),
    ],
)
def test_a_deep_check_finds_damage(tmp_path, harm, said):
    """A deep check tells when statistics or the index do not agree with the rows; a shallow one does not look."""

    async def go():
        async with opened(tmp_path / "store.db") as store:
            await add(store, "a", "walnut in the garden")
            assert (await store.health(deep=True)).ok
            writer_of(store).execute(harm)
            assert (await store.health()).ok
            found = await store.health(deep=True)
            assert not found.ok
            assert said in found.detail

    run(go())


def test_a_check_changes_nothing(tmp_path):
    """Neither check writes: the number of changes that SQLite counts in the file stays."""

    async def go():
        async with opened(tmp_path / "store.db") as store:
            await add(store, "a")
            before = value(store, "PRAGMA data_version")
            await store.health()
            await store.health(deep=True)
            assert value(store, "PRAGMA data_version") == before
            assert await store.get("a", scope=ALICE, now=START) is not None

    run(go())


@pytest.mark.parametrize(
    "values",
    [
        {"path": "a\0b.db"},
        {"busy_timeout_seconds": -1},
        {"busy_timeout_seconds": 3600.1},
        {"busy_timeout_seconds": float("inf")},
        {"busy_timeout_seconds": float("nan")},
        {"readers": 0},
        {"readers": 65},
        {"cache_mb": 0},
        {"matrix_mb": -1},
        {"engine": "fast"},
    ],
    ids=str,
)
def test_options_that_make_no_sense(values):
    """Options outside of their range are refused."""
    with pytest.raises(ValueError, match=next(iter(values))):
        SQLiteVectorsConfig(**values)


def test_every_option_has_help():
    """Each option says in one sentence what it is for."""
    assert all(field.metadata["help"].endswith(".") for field in attrs.fields(SQLiteVectorsConfig))


def test_lean_options_are_the_same_with_small_caches():
    """A process that passes through opens the same file, waits as long for it, and never gets a larger cache."""
    config = SQLiteConfig(path="a.db", busy_timeout_seconds=7.0, readers=9, cache_mb=100)
    assert lean(config) == SQLiteConfig(path="a.db", busy_timeout_seconds=7.0, readers=1, cache_mb=4)
    assert lean(attrs.evolve(config, cache_mb=1)).cache_mb == 1
