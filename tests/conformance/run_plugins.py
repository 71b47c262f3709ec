"""The conformance kit against every plugin of this repository: `python run_plugins.py MODELS [PYTEST OPTIONS]`.

MODELS is a folder with the models that `plugins/onnx/tests` builds. Each contract runs in a process of its own, as a
plugin's author runs it. The remote sources and the HTTP backend need a server, so their own tests run
the kit.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ENGINES = ("numpy", "sqlite-vec", "python")
IMPORTERS = ("chatgpt", "claude", "mem0", "mcp-memory", "omniroute", "basic-memory", "openclaw")
EXPORTS = Path(__file__).resolve().parents[2] / "plugins" / "importers" / "tests" / "samples.py"


def main() -> int:
    """Run them all; the exit code of the first that failed."""
    models, options = Path(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        runs = [("backend", "--memspine-backend", "sqlite", "")]
        for engine in ENGINES:
            text = f'[vectors]\nplugin = "sqlite"\nengine = "{engine}"\n'
            runs.append(("vectors", "--memspine-store", "sqlite", text))
        runs += [("embedding", "--memspine-source", "static", "")]
        minilm = models / "all-MiniLM-L6-v2"
        for quantised in ("false", "true"):
            text = f'[embedding]\nplugin = "onnx"\nmodel = "{minilm}"\nquantised = {quantised}\n'
            runs.append(("embedding", "--memspine-source", "onnx", text))
        text = f'[rerank]\nplugin = "onnx"\nmodel = "{models / "overlap"}"\n'
        runs.append(("reranker", "--memspine-reranker", "onnx", text))
        text = f'samples = "{EXPORTS.as_posix()}"\n'
        runs += [("importer", "--memspine-importer", name, text) for name in IMPORTERS]
        for number, (contract, option, name, text) in enumerate(runs):
            command = [sys.executable, "-m", "pytest", "--rootdir", ".", "--confcutdir", ".", "-q"]
            command += ["--pyargs", "memspine.conformance", "--memspine-contract", contract, option, name, *options]
            if text:
                config = Path(folder) / f"{number}.toml"
                config.write_text(text, encoding="utf-8")
                command += ["--memspine-config", str(config)]
            print("$", *command[1:], flush=True)
            if code := subprocess.run(command, check=False).returncode:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
