"""A memspine process that delivers until there is nothing left: `python -m chaining.deliverer CONFIG FOLDER`. It says
"ready", and begins when FOLDER has a file `go`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from memspine.blocking import MemoryManager

PAUSE_SECONDS = 0.01


def main(config, folder):
    """Deliver; the number of records that this process delivered is printed."""
    delivered = 0
    with MemoryManager(config, background=False) as memory:
        memory.status()
        print("ready", flush=True)
        while not (Path(folder) / "go").exists():
            time.sleep(0.001)
        while any(one.replica is not None and one.replica.behind != 0 for one in memory.status().backends):
            delivered += memory.maintain(["deliver"]).delivered
            time.sleep(PAUSE_SECONDS)
    print(delivered, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
