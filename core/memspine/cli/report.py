"""What a person, or a program with --json, is told about an error."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from typing import Any

from memspine.cli.codes import AnswerError, Exit, exit_code
from memspine.cli.output import Output, is_debugging
from memspine.errors import ConfigError, MemspineError, shorten


def report(error: Exception, out: Output) -> Exit:
    """Tell about the error that ended a command; returns the exit code."""
    if is_debugging():
        traceback.print_exception(error, file=sys.stderr)
    if out.extension is not None and out.is_loading and not isinstance(error, MemspineError):
        error = out.extension.load_error(error)
    if isinstance(error, MemspineError):
        tell(error, out)
    elif isinstance(error, OSError):
        reason = error.strerror or str(error)
        text = f"{error.filename}: {reason}" if error.filename else reason
        out.error(text, type="failure", details={"errno": error.errno})
    else:
        out.error(_bug(error, out), type="failure", details={"class": type(error).__name__})
    try:
        out.flush()  # what was answered before the error
    except (OSError, AnswerError):
        out.give_up()
    return exit_code(error) if isinstance(error, MemspineError) else Exit.FAILURE


def _bug(error: Exception, out: Output) -> str:
    whose = "memspine" if out.extension is None else out.extension.distribution
    what = f"unexpected failure: {type(error).__name__}: {error}"
    return f"{what}; this is a bug in {whose}, please report it with the command (MEMSPINE_DEBUG=1 shows where)"


def tell(error: MemspineError, out: Output) -> None:
    """Tell about an error that memspine raised on purpose."""
    lines = tuple(map(str, error.problems)) if isinstance(error, ConfigError) else ()
    out.error(str(error), type=exit_code(error).name.lower(), details=details(error), lines=lines)


def details(error: MemspineError) -> dict[str, Any]:
    """The public fields of an error as JSON."""
    return {name: _plain(value) for name, value in vars(error).items() if not name.startswith("_")}


def as_data(error: MemspineError) -> dict[str, Any]:
    """An error inside an answer about several things."""
    return {"message": str(error), "type": exit_code(error).name.lower(), "details": details(error)}


def _plain(value: object) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value if len(value) <= 300 else shorten(value, length_max=300)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value[:100]]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    from memspine.model import Problem

    if isinstance(value, Problem):
        return {"source": value.source, "line": value.line, "key": value.key, "text": value.text}
    return shorten(value)
