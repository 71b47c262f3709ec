"""Build every distribution, install each wheel alone, then run the conformance kit from the wheels.

Our own distributions are installed with --no-index only: no stranger's package of the same name can stand in for them.
What they depend on is fetched once, in the versions of requirements-dev.txt.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = Path(__file__).with_name("load_entries.py")
KIT = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "memspine.conformance"]
INSTALLATIONS = {
    "sqlite,conformance": ["backend --memspine-backend sqlite", "vectors --memspine-store sqlite"],
    "local,conformance": [
        "vectors --memspine-store sqlite",
        "embedding --memspine-source static",
        "reranker --memspine-reranker reference",
    ],
}
"""What the kit proves with these extras of memspine and nothing else: vectors without and with what compares them."""


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command that has to succeed."""
    print("$", *command, flush=True)
    # Outside the tree and without PYTHONPATH, so that only what is installed can be imported.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([str(word) for word in command], cwd=cwd, env=environment, check=True)


def build(source: Path, dist: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel built from that sdist."""
    version = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, source)
    stem = f"{version['name'].replace('-', '_')}-{version['version']}"
    return dist / f"{stem}.tar.gz", dist / f"{stem}-py3-none-any.whl"


def check_contents(source: Path, sdist: Path, wheel: Path) -> None:
    """The wheel holds the package, its types and data; the sdist nothing of a neighbour."""
    package = wheel.name.partition("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    folder = source / ("core" if source == ROOT else "src")
    expected = {
        file.relative_to(folder).as_posix()
        for file in (folder / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    if source == ROOT:
        contract = ROOT / "core" / "contract"
        expected |= {
            f"memspine/conformance/contract/{file.relative_to(contract).as_posix()}"
            for file in contract.rglob("*")
            if file.is_file()
        }
    assert f"{package}/py.typed" in packed, f"{wheel.name} has no py.typed"
    assert expected <= packed, f"{wheel.name} lacks {sorted(expected - packed)}"
    tops = {name.partition("/")[0] for name in packed}
    assert tops == {package, f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}, f"{wheel.name} holds {sorted(tops)}"
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert "pyproject.toml" in inside
    strangers = sorted(name for name in inside if re.match(r"(plugins|tests|dist)(/|$)|\.(?!gitignore)", name))
    assert not strangers, f"{sdist.name} holds {strangers}"


def foreign_requirements(wheels: list[Path]) -> set[str]:
    """What the wheels and their extras need from elsewhere."""
    own = {canonicalize_name(wheel.name.partition("-")[0]) for wheel in wheels}
    needed = set()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            metadata = Parser().parsestr(archive.read(name).decode("utf-8"))
        for text in metadata.get_all("Requires-Dist", []):
            requirement = Requirement(text)
            if canonicalize_name(requirement.name) not in own:
                requirement.marker = None
                needed.add(str(requirement))
    return needed


def fetch(requirements: set[str], house: Path, work: Path) -> None:
    """Put the requirements, in the pinned versions, into a folder of wheels."""
    pins = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    constraints = work / "constraints.txt"
    constraints.write_text("\n".join(pin for pin in pins if not pin.startswith("-e ")), encoding="utf-8")
    run(sys.executable, "-m", "pip", "download", "-q", "-d", house, "-c", constraints, *sorted(requirements))


def install(folder: Path, house: Path, dist: Path, *requirements: str) -> Path:
    """The interpreter of a new environment that holds the requirements and nothing else."""
    venv.create(folder, symlinks=os.name != "nt")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    offline = ["--no-index", "--find-links", house, "--find-links", dist]
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", *offline, *requirements)
    run(sys.executable, "-m", "pip", "--python", python, "check")
    return python


def main() -> None:
    """Everything, in a temporary folder; the first failure ends it."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name).resolve()
        dist, house = work / "dist", work / "house"
        sources = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
        wheels = []
        for source in sources:
            sdist, wheel = build(source, dist)
            check_contents(source, sdist, wheel)
            wheels.append(wheel)
        fetch(foreign_requirements(wheels), house, work)
        for wheel in wheels:
            package, version = wheel.name.split("-")[:2]
            python = install(work / package, house, dist, f"{package}=={version}")
            run(python, "-W", "error", ENTRIES, package, cwd=work)
        version = wheels[0].name.split("-")[1]
        for extras, contracts in INSTALLATIONS.items():
            python = install(work / extras.replace(",", "-"), house, dist, f"memspine[{extras}]=={version}")
            for contract in contracts:
                run(python, "-W", "error", *KIT, "--memspine-contract", *contract.split(), cwd=work)
    print(f"{len(wheels)} wheels: built, installed alone, imported, and the kit passed from the wheels")


if __name__ == "__main__":
    main()
