"""The kit as its users meet it: options, exit codes, reports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import memspine.conformance
from memspine.conformance.options import NAME_OPTIONS

QUICK = ("--memspine-contract", "backend", "--memspine-crowd", "100")
ONE = (*QUICK, "--memspine-clauses", "MB-1")
PLANTED = ("--memspine-backend", "planted")


@pytest.fixture
def config(tmp_path):
    """Write a configuration and give the options that name it."""

    def write(text):
        file = tmp_path / "planted.toml"
        file.write_text(text, encoding="utf-8")
        return (*PLANTED, "--memspine-config", file)

    return write


def test_the_reference_backend_passes(kit, tmp_path):
    """Every clause of the base and of the claimed capabilities is proven; what is left is said."""
    report = tmp_path / "report.json"
    run = kit(*QUICK, "--memspine-report", report)
    assert run.returncode == 0, run.stdout
    assert "70 clauses proven, 0 failed, 2 not claimed (backup, native_hybrid), 1 not applicable (MB-81)" in run.stdout
    written = json.loads(report.read_text(encoding="utf-8"))
    assert written["contract"] == "backend"
    assert written["contract_number"] == 0
    assert written["plugin"] == "reference"
    assert written["distribution"] == "memspine"
    assert written["version"] == written["kit"]
    assert written["volatile"] is True
    verdicts = {id: clause["verdict"] for id, clause in written["clauses"].items()}
    assert (verdicts["MB-1"], verdicts["MB-81"], verdicts["MB-160"]) == ("proven", "not applicable", "not claimed")
    assert written["clauses"]["MB-1"]["tests"] > 1


@pytest.mark.parametrize(
    ("contract", "summary"),
    [
        ("embedding", "24 clauses proven, 0 failed"),
        ("vectors", "60 clauses proven, 0 failed, 3 not applicable (VS-42, VS-45, VS-134)"),
        ("reranker", "14 clauses proven, 0 failed"),
        ("injector", "14 clauses proven, 0 failed"),
    ],
)
def test_the_other_references_pass(kit, contract, summary):
    """So do the reference embeddings, vector store and reranker, and the injector of the kernel."""
    run = kit("--memspine-contract", contract)
    assert run.returncode == 0, run.stdout
    assert summary in run.stdout


@pytest.mark.parametrize("window", [30, 512])
def test_the_reference_embeddings_pass_with_a_window(kit, tmp_path, window):
    """Whether a text fits into it or not."""
    file = tmp_path / "window.toml"
    file.write_text(f"[embedding.reference]\ndimension = 64\nwindow_tokens = {window}\n", encoding="utf-8")
    run = kit("--memspine-contract", "embedding", "--memspine-config", file)
    assert run.returncode == 0, run.stdout
    assert "24 clauses proven, 0 failed" in run.stdout


@pytest.mark.parametrize(("contract", "option", "table"), [
    ("embedding", "source", "embedding"),
    ("reranker", "reranker", "rerank"),
])  # fmt: skip
def test_refusing_blank_texts_is_allowed(kit, tmp_path, contract, option, table):
    """A source or reranker that refuses them, and says why, keeps its contract."""
    file = tmp_path / "blank.toml"
    file.write_text(f'[{table}.x]\nplugin = "planted"\ndefect = "RefusesBlanks"\n', encoding="utf-8")
    run = kit("--memspine-contract", contract, f"--memspine-{option}", "planted", "--memspine-config", file)
    assert run.returncode == 0, run.stdout


def test_a_backend_without_capabilities_passes(kit, config):
    """The base is enough: calls of what is not claimed are shown to raise, and the run is good."""
    run = kit(*QUICK, *config('[backends.x]\nplugin = "planted"\ndefect = "BaseOnly"\n'))
    assert run.returncode == 0, run.stdout
    assert "45 clauses proven, 0 failed, 28 not claimed (backup, changes, history, lexical, native_hybrid" in run.stdout


def test_a_store_without_capabilities_passes(kit, tmp_path):
    """The same of a vector store that keeps no keyword index."""
    file = tmp_path / "base.toml"
    file.write_text('[vectors]\nplugin = "planted"\ndefect = "BaseOnly"\n', encoding="utf-8")
    run = kit("--memspine-contract", "vectors", "--memspine-store", "planted", "--memspine-config", file)
    assert run.returncode == 0, run.stdout
    assert "45 clauses proven, 0 failed, 18 not claimed (lexical)" in run.stdout


def test_the_kit_has_one_conftest():
    """No folder of the kit overrides a fixture: before 9.1, pytest gave it to all tests that are not below the root."""
    kit = Path(memspine.conformance.__file__).parent
    assert list(kit.rglob("conftest.py")) == [kit / "conftest.py"]


def test_without_a_contract_nothing_runs(kit):
    """Naming no contract is a usage error."""
    run = kit()
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--memspine-contract" in run.stderr


def test_an_importer_has_to_be_named(kit):
    """There is none to fall back to, and nothing is proven without its exports."""
    run = kit("--memspine-contract", "importer")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "name the importer to prove: --memspine-importer NAME" in run.stderr
    run = kit("--memspine-contract", "importer", "--memspine-importer", "planted")
    assert run.returncode == 1
    assert 'name a file that makes some: samples = "samples.py"' in run.stdout


@pytest.mark.parametrize(("contract", "option"), NAME_OPTIONS.items())
def test_an_unknown_plugin_is_a_usage_error(kit, contract, option):
    """The error says what is installed."""
    run = kit("--memspine-contract", contract, option, "plantd")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "named 'plantd'; installed: " in run.stderr
    assert "did you mean 'planted'?" in run.stderr


def test_an_unknown_option_is_a_usage_error(kit, config):
    """A mistake in the plugin's table is told once, by name."""
    run = kit(*ONE, *config('[backends.x]\nplugin = "planted"\ndefct = "Clean"\n'))
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "defct" in run.stderr


@pytest.mark.parametrize("text", ["[", '[[expected-failures]]\nclause = "MB-1"\n', "expected-failures = 5"])
def test_a_broken_file_is_a_usage_error(kit, config, text):
    """The error names the file."""
    run = kit(*ONE, *config(text))
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "planted.toml" in run.stderr


def test_the_folder_has_a_placeholder(kit, config):
    """`{folder}` in any option is the fresh folder of the test."""
    run = kit(*ONE, *config('[backends.x]\nplugin = "planted"\ndefect = "Clean"\nfolder = "{folder}/sub"\n'))
    assert run.returncode == 0, run.stdout + run.stderr


EXPECTED = """
[backends.x]
plugin = "planted"
defect = "{defect}"

[[expected-failures]]
clause = "{clause}"
reason = "it counts from zero"
issue = "https://example.org/1"
"""


def test_an_expected_failure_is_no_failure(kit, config, tmp_path):
    """The clause counts as an expected failure, with its reason in the report; others are proven."""
    report = tmp_path / "report.json"
    options = config(EXPECTED.format(defect="BeginsAtZero", clause="MB-10"))
    run = kit(*QUICK, "--memspine-clauses", "MB-10,MB-13", *options, "--memspine-report", report)
    assert run.returncode == 0, run.stdout
    assert "1 clauses proven, 0 failed, 1 expected failure, 71 not run" in run.stdout
    clause = json.loads(report.read_text(encoding="utf-8"))["clauses"]["MB-10"]
    assert clause["verdict"] == "expected failure"
    assert clause["detail"] == "MB-10: it counts from zero https://example.org/1"


def test_an_unexpected_pass_is_a_failure(kit, config):
    """A clause that is kept although its failure is expected makes the run fail."""
    run = kit(*QUICK, "--memspine-clauses", "MB-10,MB-13", *config(EXPECTED.format(defect="Clean", clause="MB-10")))
    assert run.returncode == 1
    assert "MB-10 is kept, although its failure was expected: it counts from zero" in run.stdout


def test_an_unknown_clause_is_a_usage_error(kit, config):
    """In the expected failures as well as on the command line."""
    run = kit(*QUICK, *config(EXPECTED.format(defect="Clean", clause="MB-999")))
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no clause MB-999" in run.stderr
    assert kit(*QUICK, "--memspine-clauses", "MB-998").returncode == pytest.ExitCode.USAGE_ERROR


def test_nothing_proven_is_a_failure(kit):
    """A run that proves nothing says so and fails."""
    run = kit(*QUICK, "--memspine-clauses", "MB-160")
    assert run.returncode != 0
    assert "0 clauses proven" in run.stdout


def test_a_skipped_base_clause_is_a_failure(kit):
    """Whatever skips a test of the base, the run fails and names the clause."""
    run = kit("-p", "planted_skips", *QUICK, "--memspine-clauses", "MB-10,MB-13")
    assert run.returncode == 1
    assert "MB-10 was skipped: not today" in run.stdout


def test_the_options_import_nothing_heavy():
    """pytest loads them in every run of everybody."""
    code = "import sys, memspine.conformance.options; print(*{name.partition('.')[0] for name in sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pytest", "hypothesis", "cattrs", "attrs", "attr", "pluggy", "tomllib"} & set(run.stdout.split())
