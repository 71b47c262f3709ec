"""Files inside of the folders that exports are unpacked to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from memspine.contracts import ImportSource
from memspine.contracts.importer import HEAD_BYTES


def json_files(source: ImportSource, *patterns: str) -> list[Path]:
    """The files of a folder that match, in their order; none for what is no folder."""
    if source.path is None or not source.is_folder:
        return []
    found = (file for pattern in patterns for file in sorted(source.path.glob(pattern)))
    return [file for file in dict.fromkeys(found) if file.is_file()]


def head_of(source: ImportSource, *patterns: str) -> bytes:
    """The beginning of the file, or of the first that matches in a folder. Raises OSError."""
    if not source.is_folder:
        return source.head
    files = json_files(source, *patterns)
    if not files:
        return b""
    with files[0].open("rb") as file:
        return file.read(HEAD_BYTES)


def streams(source: ImportSource, *patterns: str) -> Iterator[tuple[str, BinaryIO]]:
    """The file itself, or those that match in a folder, each open while it is the current one. Raises OSError.

    With each comes how to begin what is said about it: nothing, where there is but one.
    """
    if source.stream is not None:
        yield "", source.stream
        return
    for path in json_files(source, *patterns):
        with contextlib.ExitStack() as stack:
            yield f"{path.name}: ", stack.enter_context(path.open("rb"))
