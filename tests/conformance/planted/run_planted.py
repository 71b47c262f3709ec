"""Run the kit once for each defect, all in one process, and print what became of the clauses.

python run_planted.py CONTRACT DEFECT=CLAUSE,CLAUSE …      no clauses: all of them
"""

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from memspine_planted import importer_name

# Finding a defect is enough here; making its example small takes minutes.
settings.register_profile("planted", phases=[Phase.generate])
settings.load_profile("planted")

SECTIONS = {
    "backend": "backends",
    "embedding": "embedding",
    "vectors": "vectors",
    "reranker": "rerank",
    "injector": "injectors",
    "importer": "importers",
}
OPTIONS = {
    "backend": "backend",
    "embedding": "source",
    "vectors": "store",
    "reranker": "reranker",
    "injector": "injector",
    "importer": "importer",
}


# Random lives find many defects, in their time: each has to be found by the test that was written for it.
PLAIN = ["-k", "not dictionary and not any_text_and_metadata"]


def run(contract, defect, clauses, folder, more):
    config, report = folder / "planted.toml", folder / f"{defect}.json"
    name, text = "planted", f'[{SECTIONS[contract]}.x]\nplugin = "planted"\ndefect = "{defect}"\n'
    if contract == "importer":  # without options: each defect is an importer of its own
        name, text = importer_name(defect), f'samples = "{Path(__file__).with_name("planted_exports.py").as_posix()}"\n'
    config.write_text(text, encoding="utf-8")
    place = ["--rootdir", str(folder), "--confcutdir", str(folder), "--basetemp", str(folder / "tmp")]
    quiet = ["-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    subject = ["--memspine-contract", contract, f"--memspine-{OPTIONS[contract]}", name]
    files = ["--memspine-config", str(config), "--memspine-report", str(report)]
    chosen = ["--memspine-crowd", "300", "--memspine-clauses", clauses, *more, *(PLAIN if clauses else ())]
    arguments = ["--pyargs", "memspine.conformance", *place, *quiet, *subject, *files, *chosen]
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = int(pytest.main(arguments))
    verdicts = {}
    if report.exists():
        found = json.loads(report.read_text(encoding="utf-8"))["clauses"]
        verdicts = {id: clause["verdict"] for id, clause in found.items()}
    return {"defect": defect, "code": code, "verdicts": verdicts, "output": output.getvalue()}


def main():
    contract, *orders = sys.argv[1:]
    more = [order for order in orders if order.startswith("-")]
    with tempfile.TemporaryDirectory() as name:
        for order in orders:
            if order not in more:
                defect, _, clauses = order.partition("=")
                print(json.dumps(run(contract, defect, clauses, Path(name), more)), flush=True)


if __name__ == "__main__":
    main()
