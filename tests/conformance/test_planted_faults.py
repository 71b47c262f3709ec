"""The kit finds defects: one is planted for every clause, and the implementation without any passes everything."""

import ast
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memspine.conformance.clauses import read_clauses

PLANTED = Path(__file__).with_name("planted")
FILES = {
    "backend": ("planted_writes", "planted_reads", "planted_capabilities", "planted_surroundings"),
    "embedding": ("planted_sources", "planted_windows"),
    "vectors": (
        "planted_spaces",
        "planted_storing",
        "planted_nearness",
        "planted_queues",
        "planted_leases",
        "planted_words",
        "planted_terms",
    ),
    "reranker": ("planted_rerankers",),
    "injector": ("planted_injectors",),
    "importer": ("planted_importers",),
}


def planted(contract):
    """The defects of a contract, each with the clauses that have to notice it."""
    found = {}
    for name in FILES[contract]:
        for node in ast.parse((PLANTED / f"{name}.py").read_text(encoding="utf-8")).body:
            for statement in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(statement, ast.Assign) and statement.targets[0].id == "breaks":
                    found[node.name] = ast.literal_eval(statement.value)
    return {name: clauses for name, clauses in found.items() if clauses}


DEFECTS = {contract: planted(contract) for contract in FILES}
CASES = [(contract, defect) for contract, defects in DEFECTS.items() for defect in defects]


def run_planted(contract, orders, environment):
    """What became of the clauses, by defect."""
    command = [sys.executable, PLANTED / "run_planted.py", contract, *orders]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
    assert run.returncode == 0, run.stderr
    return {result["defect"]: result for result in map(json.loads, run.stdout.splitlines())}


@pytest.fixture(scope="module")
def results(planted_environment):
    """The runs of the kit with each defect, those of one contract in as many processes as there are processors."""
    known = {}

    def get(contract):
        if contract not in known:
            orders = ["Clean=", *(f"{name}={','.join(clauses)}" for name, clauses in DEFECTS[contract].items())]
            shares = min(os.cpu_count() or 1, 4)
            with ThreadPoolExecutor(shares) as pool:
                parts = pool.map(lambda n: run_planted(contract, orders[n::shares], planted_environment), range(shares))
                known[contract] = {defect: result for part in parts for defect, result in part.items()}
        return known[contract]

    return get


@pytest.mark.parametrize("contract", FILES)
def test_the_clean_implementation_passes_everything(results, contract):
    """Without a defect every clause is proven, those of all capabilities too."""
    result = results(contract)["Clean"]
    assert result["code"] == 0, result["output"]
    assert result["verdicts"] == dict.fromkeys(read_clauses(contract), "proven")


@pytest.mark.parametrize(("contract", "defect"), CASES, ids=["-".join(case) for case in CASES])
def test_a_defect_is_noticed(results, contract, defect):
    """Each clause that a defect breaks fails with it, and the run fails."""
    result = results(contract)[defect]
    verdicts = {clause: result["verdicts"].get(clause) for clause in DEFECTS[contract][defect]}
    assert verdicts == dict.fromkeys(verdicts, "failed"), result["output"]
    assert result["code"] == 1


@pytest.mark.parametrize("contract", FILES)
def test_every_clause_notices_a_defect(contract):
    """No clause is without a planted defect, and no defect names a clause that there is not."""
    broken = {clause for clauses in DEFECTS[contract].values() for clause in clauses}
    assert broken == set(read_clauses(contract))


LIVED_THROUGH = (
    "ReplacesMetadata", "KeepsNull", "CountsWithoutSessions", "OwnersByPrefix",
    "FoldsSessions", "SwallowsConflicts", "ForgetsTombstones", "RevivesTheExpired", "AccessIsAChange", "IdWins",
    "ExpiryHidesOnly", "HistoryWithoutTheCurrent", "ReadsStaleRows",
)  # fmt: skip


@pytest.fixture(scope="module")
def lives(planted_environment):
    """Runs of the state machine alone."""
    return run_planted("backend", ["-k=dictionary", *(f"{name}=" for name in LIVED_THROUGH)], planted_environment)


@pytest.mark.parametrize("defect", LIVED_THROUGH)
def test_the_state_machine_notices_a_defect(lives, defect):
    """Random lives alone are enough to find what is wrong in the middle of a store."""
    assert lives[defect]["code"] == 1, lives[defect]["output"]
    assert "1 failed" in lives[defect]["output"]
