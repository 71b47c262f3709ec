"""The planted plugin, installed for the processes that a test starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLANTED = Path(__file__).with_name("planted")


@pytest.fixture(scope="session")
def planted_environment(tmp_path_factory):
    """The environment of a process that finds the planted plugin among its entry points."""
    site = tmp_path_factory.mktemp("site")
    metadata = site / "memspine_planted-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: memspine-planted\nVersion: 0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[memspine]\nplanted = memspine_planted\n", encoding="utf-8")
    paths = [str(site), str(PLANTED), *filter(None, [os.environ.get("PYTHONPATH")])]
    # CI makes Hypothesis draw the same examples in every run.
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "CI": "1", "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def kit(planted_environment, tmp_path):
    """Run the kit in a process of its own, as a plugin author does."""

    def run(*arguments):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path]
        options = ["--confcutdir", tmp_path, "--pyargs", "memspine.conformance", *arguments]
        return subprocess.run(
            [*command, *options],
            cwd=tmp_path,
            env=planted_environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    return run
