"""Measuring one thing beside another."""

import asyncio
import os
import re
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

GUARD_SECONDS = 600


async def milliseconds(work: Awaitable[object]) -> float:
    """How long an awaited call takes."""
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


def milliseconds_of(work: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def process_milliseconds(
    commands: Mapping[str, Sequence[str | Path]], *, rounds: int, folder: Path
) -> dict[str, float]:
    """The median time of each of some commands, which are run by turns; each has to succeed.

    Modules are compiled once, as pip does it: a source tree whose folders get no bytecode would be compiled at each
    start.
    """
    spent: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            took = milliseconds_of(lambda command=command: succeed(command, folder=folder))
            if turn:  # the first fills caches
                spent[name].append(took)
    return {name: statistics.median(times) for name, times in spent.items()}


def succeed(command: Sequence[str | Path], *, folder: Path) -> str:
    """What a command prints. Fails when the command does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=GUARD_SECONDS, check=False
    )
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


async def hop_milliseconds(*, rounds: int = 500) -> float:
    """The median time from an event loop into a thread and back."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        return statistics.median([await milliseconds(loop.run_in_executor(pool, os.getpid)) for _ in range(rounds)])


def resident_megabytes() -> float:
    """The memory that this process has resident now; 0 where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1000 * 1.024


def peak_megabytes() -> float:
    """The most memory that this process ever had resident."""
    try:
        # Not ru_maxrss: on Linux a new process starts with that of the one it was forked from.
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1000 * 1.024
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
