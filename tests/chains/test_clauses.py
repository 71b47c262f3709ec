"""The clauses of chains and their tests belong together, in both directions."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

from memspine.conformance.clauses import cited_clauses, contract_folder, read_clauses
from memspine.conformance.options import CONTRACTS

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def citing():
    """The clauses that each test of this folder cites, by its name."""
    found = {}
    for file in sorted(HERE.glob("test_*.py")):
        if file != Path(__file__):
            package, _, _ = __name__.rpartition(".")
            name = f"{package}.{file.stem}"
            module = sys.modules.get(name) or importlib.import_module(name)
            tests = {n: one for n, one in vars(module).items() if n.startswith("test_") and inspect.isfunction(one)}
            found |= {f"{file.name}::{name}": set(cited_clauses(test)) for name, test in tests.items()}
    return found


def test_every_clause_has_a_test(citing):
    """No clause is without a test."""
    assert set(read_clauses("chain")) - set().union(*citing.values()) == set()


def test_every_test_cites_clauses_that_exist(citing):
    """No test is without a clause, and none cites one that there is not."""
    known = set(read_clauses("chain"))
    assert citing
    assert {name: ids for name, ids in citing.items() if not ids or ids - known} == {}


def test_clauses_are_numbered_in_order_and_oblige():
    """Numbers rise through the text, each line that looks like a clause is one, each says MUST, and no other contract
    has its number."""
    clauses = read_clauses("chain")
    numbers = [int(id.partition("-")[2]) for id in clauses]
    assert numbers == sorted(numbers)
    text = (contract_folder() / "chain.md").read_text(encoding="utf-8")
    assert len(re.findall(r"\*\*[A-Z]{2}-\d+\*\*", text)) == len(clauses)
    assert [id for id, clause in clauses.items() if "MUST" not in clause.text] == []
    assert {id for other in CONTRACTS for id in read_clauses(other)} & set(clauses) == set()
