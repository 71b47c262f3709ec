"""The files of an export: one alone, those of the folder that it was unpacked to, or those in the archive."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from memspine.contracts import ImportSource
from memspine.contracts.importer import HEAD_BYTES
from memspine_importers.archives import Archive, is_archive, opened, shown_name
from memspine_importers.documents import DocumentError, Readable

if TYPE_CHECKING:
    from zipfile import ZipInfo


def head_of(source: ImportSource, *patterns: str) -> bytes:
    """The beginning of the file, or of the first that matches in a folder or an archive. Raises OSError."""
    if is_archive(source):
        with contextlib.suppress(DocumentError), opened(source) as archive:
            entries = _entries(archive, patterns)
            return archive.head(entries[0][1], HEAD_BYTES) if entries else b""
        return b""
    if not source.is_folder:
        return source.head
    files = _files(source, patterns)
    if not files:
        return b""
    with files[0].open("rb") as file:
        return file.read(HEAD_BYTES)


def streams(source: ImportSource, *patterns: str) -> Iterator[tuple[str, Readable]]:
    """The file itself, or those that match in a folder or an archive, each open while it is the current one.

    With each comes how to begin what is said about it: nothing, where there is but one. Raises OSError; what is wrong
    with an archive is raised by reading, as DocumentError.
    """
    if is_archive(source):
        yield from _unpacked(source, patterns)
    elif source.stream is not None:
        yield "", source.stream
    else:
        for path in _files(source, patterns):
            with path.open("rb") as file:
                yield f"{path.name}: ", file


def file_names(source: ImportSource, *patterns: str) -> list[str]:
    """The names of the files that match in a folder or an archive; none for a file alone. Raises OSError."""
    if is_archive(source):
        with contextlib.suppress(DocumentError), opened(source) as archive:
            return [shown_name(name) for name, _ in _entries(archive, patterns)]
    return [path.name for path in _files(source, patterns)]


class _Refused:
    """In the place of a file that cannot be read: says so to who tries."""

    def __init__(self, error: DocumentError) -> None:
        self._error = error

    def read(self, size: int, /) -> bytes:
        """Raise DocumentError."""
        raise self._error


def _unpacked(source: ImportSource, patterns: tuple[str, ...]) -> Iterator[tuple[str, Readable]]:
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(opened(source))
        except DocumentError as error:
            yield "", _Refused(error)
            return
        entries = _entries(archive, patterns)
        if not entries:
            yield "", _Refused(DocumentError(f"there is no {' or '.join(patterns)} in the archive"))
        for name, entry in entries:
            try:
                file = archive.open(entry)
            except DocumentError as error:
                file = _Refused(error)
            yield f"{shown_name(name)}: ", file


def _entries(archive: Archive, patterns: tuple[str, ...]) -> list[tuple[str, ZipInfo]]:
    """The files of an archive that match, in the order of the patterns."""
    names = archive.names()
    return [pair for pattern in patterns for pair in names if _matches(pair[0], pattern)]


def _matches(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def _files(source: ImportSource, patterns: tuple[str, ...]) -> list[Path]:
    """The files of a folder that match, in their order; none for what is no folder."""
    if source.path is None or not source.is_folder:
        return []
    found = (file for pattern in patterns for file in sorted(source.path.glob(pattern)))
    return [file for file in dict.fromkeys(found) if file.is_file()]
