"""The measurements. `tox -e bench` prints the tables, `tox -e bench -- --write-table` also writes them into the README.

A missed target is a row of the table, never a failure; a test fails when it could not measure.
"""

import json
import shutil

import attrs
import pytest

from .corpus import EVALUATION, turns
from .goals import MINILM
from .models import SHIPPED, drawn_vectors, minilm, minilm_folder
from .stores import Layout, build, indexed
from .table import ROOT, TABLES, Board, machine, write_into

_BOARD = pytest.StashKey[Board]()

# One owner as large as search is promised for, one small owner, and a crowd.
MILLION = Layout({"large": 100_000, "small": 1_000} | {f"owner {n}": 1_000 for n in range(899)})


def pytest_addoption(parser):
    parser.addoption("--write-table", action="store_true", help="write the measurements into the README")


def pytest_configure(config):
    config.stash[_BOARD] = Board()


def pytest_terminal_summary(terminalreporter, config):
    board = config.stash[_BOARD]
    if not board.rows:
        return
    results = {
        "machine": machine(),
        "rows": {name: attrs.asdict(row) for name, row in board.rows.items()},
        "quality": {kind: attrs.asdict(quality) for kind, quality in board.quality.items()},
        "profile": board.profile,
    }
    if cache := getattr(config, "cache", None):  # with -p no:cacheprovider there is none
        file = cache.mkdir("bench") / "results.json"
        file.write_text(json.dumps(results, indent=2, ensure_ascii=False), encoding="utf-8")
    tables = {name: board.measured_table(name) for name in TABLES} | {"quality": board.quality_table()}
    for title, table in tables.items():
        terminalreporter.section(title)
        terminalreporter.write_line(table)
    terminalreporter.section("profile, in milliseconds unless said otherwise")
    for name, value in board.profile.items():
        terminalreporter.write_line(f"{name}: {json.dumps(value, ensure_ascii=False)}")
    if config.getoption("--write-table"):
        for name in TABLES:
            if lacking := board.lacking(name):
                terminalreporter.write_line(
                    f"table {name!r} not written, this run lacks: {', '.join(lacking)}", red=True
                )
                continue
            regions = ("measured", "quality") if name == "measured" else (name,)
            write_into(ROOT / "README.md", {region: tables[region] for region in regions})


@pytest.fixture(scope="session")
def bench(request):
    """Where measurements go."""
    return request.config.stash[_BOARD]


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """A folder for stores, emptied afterwards: pytest would keep gigabytes."""
    folder = tmp_path_factory.mktemp("stores")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def evaluation():
    """The module that defines the measures of quality, None where it is not."""
    return EVALUATION


@pytest.fixture(scope="session")
def minilm_model(request):
    """The folder of all-MiniLM-L6-v2 or None, and then why."""
    cache = getattr(request.config, "cache", None)
    return minilm_folder(cache.mkdir("models") if cache else None)


@pytest.fixture
def minilm_or_skip(bench, minilm_model):
    """What a test calls for the model, with the rows that it cannot measure without."""

    def folder(*rows):
        found, reason = minilm_model
        if found is None:
            bench.missing(*rows, reason=reason)
            pytest.skip(reason)
        return found

    return folder


@pytest.fixture(scope="session")
def thousand(workshop):
    """A store with 1 000 memories of one owner."""
    return build(workshop / "one-thousand.db", Layout({"me": 1_000}))


@pytest.fixture(scope="session")
def ten_thousand(workshop):
    """A store with 10 000 memories of one owner."""
    return build(workshop / "ten-thousand.db", Layout({"me": 10_000}))


@pytest.fixture(scope="session")
def hundred_thousand(workshop):
    """A store with 100 000 memories of one owner."""
    return build(workshop / "hundred-thousand.db", Layout({"me": 100_000}))


@pytest.fixture(scope="session")
def ten_thousand_static(ten_thousand, workshop):
    """The same with vectors of the shipped model."""
    return indexed(ten_thousand, workshop / "ten-thousand-static.db", embedding=SHIPPED)[0]


@pytest.fixture(scope="session")
def ten_thousand_minilm(ten_thousand, workshop, minilm_model):
    """The same with vectors in place of those of MiniLM, which would take half a minute; None without that model."""
    folder, _ = minilm_model
    if folder is None:
        return None
    with drawn_vectors():
        return indexed(ten_thousand, workshop / f"ten-thousand-{MINILM}.db", embedding=minilm(folder))[0]


@pytest.fixture(scope="session")
def million(workshop, bench):
    """A store with 1 000 000 memories."""
    path = workshop / "million.db"
    spent = []
    build(path, MILLION, spent=spent)
    thirds = [spent[:100], spent[len(spent) // 2 :][:100], spent[-100:]]
    bench.profile["building 1 000 000"] = {
        "seconds": round(sum(seconds for _, seconds in spent)),
        "memories/s in the first, middle and last 100 batches": [
            round(sum(count for count, _ in part) / sum(seconds for _, seconds in part)) for part in thirds
        ],
        "file MB": round(path.stat().st_size / 1e6),
        "distinct turns": len(turns()),
    }
    return path
