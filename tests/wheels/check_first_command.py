"""Run the first command of the README in a fresh copy of the tree, with nothing but Python and pip."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = ("206 turns of 20 sessions", "because of", "score", "Recall, and why", "after injection", "<memory-context")


def copy_tree(target: Path) -> None:
    """The files that a clone would have, as they are now."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def main() -> None:
    """Copy, run, compare."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^```sh\n(python3 -m venv .*quickstart)\n```$", readme, re.MULTILINE)
    assert command, "the README has no first command"
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        copy_tree(tree)
        # The interpreter of this run is what a person has as `python3`; of its environment nothing else is left.
        tools = Path(folder) / "bin"
        tools.mkdir()
        (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "PYTHON"))}
        environment = {**kept, "HOME": folder, "PATH": f"{tools}{os.pathsep}/usr/bin{os.pathsep}/bin"}
        print("$", command[1], flush=True)
        done = subprocess.run(
            ["sh", "-c", command[1]], cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
        print(done.stdout, done.stderr, sep="\n", flush=True)
        assert done.returncode == 0, f"exit code {done.returncode}"
        missing = [text for text in EXPECTED if text not in done.stdout]
        assert not missing, f"the output lacks {missing}"


if __name__ == "__main__":
    main()
