"""How long a start takes, and what an installation weighs."""

import subprocess
import sys
from pathlib import Path

import pytest

from .corpus import questions
from .stores import toml
from .table import ROOT
from .timing import GUARD_SECONDS, process_milliseconds, succeed

ROUNDS = 15


def test_start(bench, ten_thousand, tmp_path):
    """Importing the manager, `memspine --help` and `memspine search`, each beside a Python that does nothing."""
    command = Path(sys.executable).with_name("memspine")
    configuration = tmp_path / "memspine.toml"
    configuration.write_text(toml(ten_thousand), encoding="utf-8")
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "import": [sys.executable, "-c", "from memspine import MemoryManager"],
        "help": [command, "--help"],
        "command-search": [command, "--config", configuration, "search", questions()[0]],
    }
    assert "ref" in succeed(commands["command-search"], folder=tmp_path), "the search found nothing"
    medians = process_milliseconds(commands, rounds=ROUNDS, folder=tmp_path)
    bare = medians.pop("python")
    for name, median in medians.items():
        measured = median - bare if name == "import" else median
        bench.record(name, measured=measured, baseline=f"bare Python {bare:.1f} ms", ratio=median / bare)


def test_size(bench, tmp_path):
    """The wheels of this tree with the extras `sqlite` and `cli`, installed by pip into an empty folder."""
    dist, target = tmp_path / "dist", tmp_path / "target"
    for source in (ROOT, ROOT / "plugins" / "sqlite"):
        succeed([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", dist, source], folder=tmp_path)
    kernel, plugin = (next(dist.glob(pattern)) for pattern in ("memspine-*.whl", "memspine_sqlite-*.whl"))
    pins = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("\n".join(pin for pin in pins if not pin.startswith("-e ")), encoding="utf-8")
    # Both wheels by their place: no stranger's package of the same name can stand in for them.
    install = ["install", "-q", "--target", target, "-c", constraints, f"{kernel}[sqlite,cli]", plugin]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *install], capture_output=True, text=True, timeout=GUARD_SECONDS, check=False
    )
    if done.returncode and "No matching distribution" in done.stderr:
        bench.missing("size", reason="no package index")
        pytest.skip("what memspine depends on cannot be installed here")
    assert not done.returncode, done.stderr
    sizes = {"memspine": 0, "others": 0}
    for file in target.rglob("*"):
        if file.is_file():
            own = file.relative_to(target).parts[0].startswith("memspine")
            sizes["memspine" if own else "others"] += file.stat().st_size
    total = sum(sizes.values()) / 1e6
    others = sizes["others"] / 1e6
    bench.record("size", measured=total, baseline=f"without memspine's own files {others:.1f} MB", ratio=total / others)
