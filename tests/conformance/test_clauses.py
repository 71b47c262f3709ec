"""Clauses and tests belong together, in both directions."""

import importlib
import inspect
import pkgutil
import re

import pytest

import memspine.conformance
from memspine.conformance.clauses import cited_clauses, clause, contract_folder, read_clauses
from memspine.conformance.options import CONTRACTS

SHARED = {"backend": ("lexical",), "vectors": ("lexical",)}
"""The folders of tests that contracts share."""


def citing_tests(contract):
    """The tests of a contract: name and function."""
    for folder in (contract, *SHARED.get(contract, ())):
        package = importlib.import_module(f"memspine.conformance.{folder}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.name.rpartition(".")[2].startswith("test_"):
                for name, value in vars(importlib.import_module(module.name)).items():
                    if name.startswith("test_") and inspect.isfunction(value):
                        yield f"{module.name}.{name}", value


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_clause_has_a_test(contract):
    """No clause of a contract is without a test."""
    cited = {id for _, test in citing_tests(contract) for id in cited_clauses(test)}
    assert set(read_clauses(contract)) - cited == set()


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_test_cites_clauses_that_exist(contract):
    """No test of the kit is without a clause, and none cites one that the contract does not have."""
    own = set(read_clauses(contract))
    known = {id for other in CONTRACTS for id in read_clauses(other)}
    tests = {name: set(cited_clauses(test)) for name, test in citing_tests(contract)}
    assert tests
    assert {name: ids for name, ids in tests.items() if not ids & own} == {}
    assert {id for ids in tests.values() for id in ids} - known == set()
    assert {name: ids for name, ids in tests.items() if ids - own and ".lexical." not in name} == {}


@pytest.mark.parametrize("contract", CONTRACTS)
def test_clauses_are_numbered_in_order_and_oblige(contract):
    """Numbers rise through the text, each line that looks like a clause is one, and each says MUST."""
    clauses = read_clauses(contract)
    numbers = [int(id.partition("-")[2]) for id in clauses]
    assert numbers == sorted(numbers)
    text = (contract_folder() / f"{contract}.md").read_text(encoding="utf-8")
    assert len(re.findall(r"\*\*[A-Z]{2}-\d+\*\*", text)) == len(clauses)
    assert [id for id, clause in clauses.items() if "MUST" not in clause.text] == []


def test_no_two_contracts_share_a_number():
    """An id names one clause of one contract."""
    ids = [id for contract in CONTRACTS for id in read_clauses(contract)]
    assert len(ids) == len(set(ids))


def test_a_coroutine_test_becomes_an_ordinary_one():
    """A cited coroutine test runs in a loop of its own, whatever other plugins do with coroutines."""
    seen = []

    @clause("MB-1")
    async def rule(word):
        seen.append(word)

    assert not inspect.iscoroutinefunction(rule)
    assert list(inspect.signature(rule).parameters) == ["word"]
    rule(word="once")
    assert seen == ["once"]


def test_the_kit_is_a_package():
    """`--pyargs memspine.conformance` finds it."""
    assert memspine.conformance.__doc__
