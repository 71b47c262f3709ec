"""The measurements. `tox -e bench` prints the table, `tox -e bench -- --write-table` also writes it into the README.

A missed target is a row of the table, never a failure; a test fails when it could not measure.
"""

import json
import shutil

import attrs
import pytest

from .corpus import EVALUATION, turns
from .stores import Layout, build
from .table import GOALS, ROOT, Board, machine, write_into

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
        "profile": board.profile,
    }
    if cache := getattr(config, "cache", None):  # with -p no:cacheprovider there is none
        file = cache.mkdir("bench") / "results.json"
        file.write_text(json.dumps(results, indent=2, ensure_ascii=False), encoding="utf-8")
    terminalreporter.section("measured")
    terminalreporter.write_line(board.table())
    terminalreporter.section("profile, in milliseconds unless said otherwise")
    for name, value in board.profile.items():
        terminalreporter.write_line(f"{name}: {json.dumps(value, ensure_ascii=False)}")
    if config.getoption("--write-table"):
        lacking = sorted(GOALS.keys() - board.rows.keys())
        if lacking:
            terminalreporter.write_line(f"README not written, this run lacks: {', '.join(lacking)}", red=True)
        else:
            write_into(ROOT / "README.md", board.table())


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
def ten_thousand(workshop):
    """A store with 10 000 memories of one owner."""
    return build(workshop / "ten-thousand.db", Layout({"me": 10_000}))


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
