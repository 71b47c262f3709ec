"""Exports as they come: files inside of a ZIP archive, read in place.

Nothing of an archive is written anywhere, and the names in it lead nowhere: they only choose what is read."""

from __future__ import annotations

import contextlib
import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from memspine.contracts import ImportSource
from memspine_importers.documents import DocumentError, Readable

ENTRY_BYTES_MAX: Final = 4 * 1024**3
"""A file in an archive that is longer than that, unpacked, is not read."""

RATIO_MAX: Final = 200
"""Texts become a tenth or a twentieth by packing; what becomes less than that was made to exhaust a reader."""

_FREE_BYTES: Final = 16 * 1024**2
# So much of a table of contents, some 50 000 files, has to fit into memory.
_CONTENTS_BYTES_MAX: Final = 8 * 1024**2
_MARK: Final = b"PK\x03\x04"
_PACKINGS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others unpack a block whole, however long it is
_ENCRYPTED: Final = 0x1
_NAME_CHARS: Final = 80
_REASON_CHARS: Final = 160
# What the library raises for archives that are damaged or forged.
_DAMAGED: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError
)  # fmt: skip


def is_archive(source: ImportSource) -> bool:
    """Whether this is a ZIP archive."""
    return source.head.startswith(_MARK)


@contextlib.contextmanager
def opened(source: ImportSource) -> Iterator[Archive]:
    """The archive. Raises DocumentError for one that is damaged or cannot be read in place, and OSError."""
    if source.path is None:
        raise DocumentError("an archive cannot be read from standard input; name the file, or unpack it")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_Contents(source.path))
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
        except _DAMAGED as error:
            raise DocumentError(f"the archive cannot be read ({_told(error)}); it may be cut off") from error
        file.is_read = True
        yield Archive(archive, archive_bytes=source.path.stat().st_size)


class Archive:
    """An open archive."""

    def __init__(self, archive: zipfile.ZipFile, *, archive_bytes: int) -> None:
        self._archive, self._archive_bytes = archive, archive_bytes
        self._bytes_left = max(_FREE_BYTES, RATIO_MAX * archive_bytes)

    def names(self) -> list[tuple[str, zipfile.ZipInfo]]:
        """The files by their path from the top of the export, which may stand in one folder, as often as they occur.

        What is placed outside of the archive (`..`, absolute paths) is not among them.
        """
        found = [(entry.filename, entry) for entry in self._archive.infolist() if _is_file_inside(entry)]
        tops = {name.partition("/")[0] for name, _ in found if not name.startswith("__MACOSX/")}
        if len(tops) == 1 and all("/" in name for name, _ in found):
            found = [(name.partition("/")[2], entry) for name, entry in found if not name.startswith("__MACOSX/")]
        return sorted(found, key=lambda pair: pair[0])

    def head(self, entry: zipfile.ZipInfo, size: int) -> bytes:
        """The beginning of a file; empty where it cannot be read."""
        try:
            _check_packing(entry)
            with self._archive.open(entry) as file:
                return file.read(size)
        except (DocumentError, *_DAMAGED):
            return b""

    def open(self, entry: zipfile.ZipInfo) -> Readable:
        """A file in the archive. Both this and reading raise DocumentError for what is damaged, or too much."""
        self._check(entry)
        self._bytes_left -= entry.file_size
        try:
            return _Entry(self._archive.open(entry))
        except _DAMAGED as error:
            raise DocumentError(f"the archive is damaged here ({_told(error)})") from error

    def _check(self, entry: zipfile.ZipInfo) -> None:
        _check_packing(entry)
        if entry.header_offset + entry.compress_size > self._archive_bytes:
            raise DocumentError("the archive is damaged: it says that more is in it than it holds")
        if entry.file_size > ENTRY_BYTES_MAX:
            raise DocumentError(f"it has {entry.file_size} bytes, of which at most {ENTRY_BYTES_MAX} are read")
        bytes_max = max(_FREE_BYTES, RATIO_MAX * entry.compress_size)
        if entry.file_size > min(bytes_max, self._bytes_left):
            raise DocumentError(
                f"it would become {entry.file_size} bytes, more than {RATIO_MAX} times what it takes in the archive; "
                "it was not unpacked, because no export is like that"
            )


class _Contents(io.FileIO):
    """The file of an archive, whose table of contents is read only if it is no longer than what is sensible."""

    is_read = False

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")

    def read(self, size: int | None = -1, /) -> Any:
        """At most so many bytes. Raises ValueError when that is a table of contents that is too long."""
        if not self.is_read and size is not None and size > _CONTENTS_BYTES_MAX:
            raise ValueError(f"its table of contents has {size} bytes, of which at most {_CONTENTS_BYTES_MAX} are read")
        return super().read(size)


class _Entry:
    """A file in an archive, as the readers of documents take it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end. Raises DocumentError."""
        try:
            data: bytes = self._file.read(size)
        except _DAMAGED as error:
            raise DocumentError(f"the archive is damaged here ({_told(error)})") from error
        return data


def shown_name(name: str) -> str:
    """The name of a file in an archive, on one line."""
    return "".join(character if character.isprintable() else "?" for character in name)[:_NAME_CHARS]


def _check_packing(entry: zipfile.ZipInfo) -> None:
    if entry.flag_bits & _ENCRYPTED:
        raise DocumentError("it is encrypted; unpack the archive with its password")
    if entry.compress_type not in _PACKINGS:
        raise DocumentError("it is packed in an unusual way; unpack the archive")


def _told(error: Exception) -> str:
    return str(error)[:_REASON_CHARS]


def _is_file_inside(entry: zipfile.ZipInfo) -> bool:
    parts = entry.filename.split("/")
    return not entry.is_dir() and not {"", ".", ".."}.intersection(parts) and "\\" not in entry.filename
