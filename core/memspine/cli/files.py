"""Files that commands write."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from memspine.cli.codes import InputError


def named_path(name: str) -> Path:
    """The path that an argument names, `~` and `~user` resolved. Raises InputError."""
    from memspine.config.load import expanded
    from memspine.errors import ConfigError

    try:
        return expanded(name)
    except ConfigError as error:
        raise InputError(str(error)) from None


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A file to write, which takes its place when all is in it, readable by its owner alone. Raises OSError.

    What is there and is no file (a pipe, a device) is written to as it is: it must not be replaced.
    """
    target = Path(os.path.realpath(path))  # a link is followed, not replaced
    if target.exists() and not target.is_file():
        with target.open("w", encoding="utf-8") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)
