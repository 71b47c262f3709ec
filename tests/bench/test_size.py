"""What an installation weighs."""

import subprocess
import sys

import pytest

from .table import ROOT
from .timing import GUARD_SECONDS, succeed

SOURCES = {"memspine": ROOT} | {f"memspine_{name}": ROOT / "plugins" / name for name in ("sqlite", "static")}
INSTALLATIONS = {
    "size": ("sqlite,cli", ("memspine_sqlite",)),
    "size-local": ("local", ("memspine_sqlite", "memspine_static")),
}
"""By row: the extras, and the distributions of this tree that they name."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheels of this tree by their names."""
    dist = tmp_path_factory.mktemp("dist")
    for source in SOURCES.values():
        succeed([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", dist, source], folder=dist)
    return {name: next(dist.glob(f"{name}-*.whl")) for name in SOURCES}


def test_size_of_the_wheel(bench, wheels):
    """The wheel with the shipped model."""
    measured, kernel = (wheels[name].stat().st_size / 1e6 for name in ("memspine_static", "memspine"))
    baseline = f"wheel of the kernel {kernel:.2f} MB"
    bench.record("wheel-static", measured=measured, baseline=baseline, ratio=measured / kernel)


@pytest.mark.parametrize("row", INSTALLATIONS)
def test_size(bench, wheels, tmp_path, *, row):
    """The wheels of this tree with some extras, installed by pip into an empty folder."""
    extras, plugins = INSTALLATIONS[row]
    pins = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    constraints, target = tmp_path / "constraints.txt", tmp_path / "target"
    constraints.write_text("\n".join(pin for pin in pins if not pin.startswith("-e ")), encoding="utf-8")
    # All wheels by their place: no stranger's package of the same name can stand in for them.
    own = [f"{wheels['memspine']}[{extras}]", *(wheels[name] for name in plugins)]
    install = ["install", "-q", "--target", target, "-c", constraints, *own]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *install], capture_output=True, text=True, timeout=GUARD_SECONDS, check=False
    )
    if done.returncode and "No matching distribution" in done.stderr:
        bench.missing(row, reason="no package index")
        pytest.skip("what memspine depends on cannot be installed here")
    assert not done.returncode, done.stderr
    record(bench, row, target)


def record(bench, row, target):
    """How much there is, and how much of that is not memspine's."""
    sizes = {}
    for file in target.rglob("*"):
        if file.is_file():
            top = file.relative_to(target).parts[0]
            name = "memspine" if top.startswith("memspine") else top.partition("-")[0].removesuffix(".libs")
            sizes[name] = sizes.get(name, 0) + file.stat().st_size / 1e6
    total = sum(sizes.values())
    others = total - sizes["memspine"]
    bench.record(row, measured=total, baseline=f"without memspine's own files {others:.1f} MB", ratio=total / others)
    largest = sorted(sizes, key=sizes.get, reverse=True)[:6]
    bench.profile[f"{row}, MB"] = {name: round(sizes[name], 1) for name in largest}
