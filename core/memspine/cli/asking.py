"""Questions to the person at the terminal."""

from __future__ import annotations

import sys

from memspine.cli.codes import UsageError


def confirm(question: str, *, yes: bool) -> bool:
    """Whether to go on: `yes` was given, or the person says so. Raises UsageError where nobody can be asked."""
    if yes:
        return True
    streams = (sys.stdin, sys.stderr)
    if not all(stream is not None and stream.isatty() for stream in streams):
        raise UsageError(f"{question} Nobody can be asked here: say --yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in {"y", "yes"}
