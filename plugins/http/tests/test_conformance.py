import re
import subprocess
import sys

import pytest

# What a thousand strangers would not change, a hundred thousand would not either: the service has an owner's memories
# apart. Sending them one by one is what takes the time.
CROWD = 1200


@pytest.mark.parametrize("kind", ["plain", "capable"])
def test_the_backend_keeps_the_contract(request, tmp_path, kind):
    """Every clause of the base against a plain service, and those of the claimed capabilities against a capable one."""
    service = request.getfixturevalue(kind)
    service.break_down()
    config = tmp_path / "http.toml"
    # The folder of each test is part of the URL, so that each has a store of its own.
    config.write_text(
        f'[backends.http]\nplugin = "http"\nurl = "{service.root}/s{{folder}}"\nallow_local = ["127.0.0.1"]\n',
        encoding="utf-8",
    )
    kit = ["--pyargs", "memspine.conformance", "--memspine-contract", "backend", "--memspine-backend", "http"]
    place = ["--rootdir", tmp_path, "--confcutdir", tmp_path, "-p", "no:cacheprovider", "--memspine-config", config]
    command = [sys.executable, "-m", "pytest", "-q", *place, *kit, "--memspine-crowd", str(CROWD)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    proven = re.search(r"(\d+) clauses proven, 0 failed", done.stdout)
    assert proven, done.stdout[-2000:]
