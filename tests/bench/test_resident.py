"""How much memory a process needs."""

import json
import subprocess
import sys
from pathlib import Path

from .corpus import questions
from .stores import settings
from .timing import GUARD_SECONDS

HERE = Path(__file__).parent
# Every second question goes to the owner of 100 000.
OWNERS = [name for n in range(0, 800, 40) for name in ("large", f"owner {n}")]
BARE = "import apsw; from timing import peak_megabytes; print(peak_megabytes())"


def test_resident_memory(bench, million, tmp_path):
    """200 searches, 200 gets and 50 creates in a store of 1 000 000, beside a Python that only imports apsw."""
    task = {"settings": settings(million), "questions": questions()[::4], "owners": OWNERS}
    served = json.loads(printed([sys.executable, HERE / "serving.py"], text=json.dumps(task)))
    assert served["found"] > 1_000, served
    bare = float(printed([sys.executable, "-c", BARE]))
    peak = served["peak"]
    bench.record("resident", measured=peak, baseline=f"Python that imports apsw {bare:.1f} MB", ratio=peak / bare)
    bench.profile["resident, MB"] = {"after the imports": round(served["imported"], 1)}


def printed(command, *, text=""):
    done = subprocess.run(
        command, cwd=HERE, input=text, capture_output=True, text=True, timeout=GUARD_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
