"""Sources as the kernel gives them, with what is watched or wrong about them, and what importers made of them."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from memspine.contracts import BadLine, Importer, ImportSource, Note, SourceItem, SourceMemory
from memspine.contracts.importer import HEAD_BYTES
from memspine.plugins import reader, recogniser

PICTURE: Final = b"\x89PNG\r\x1a\xff\xd8\x00\x01\x02\x03" * 20
JSON_FOREIGN: Final = {"array": b'[{"a": 1}]', "object": b'{"a": {"b": [1]}}'}
"""What a document of JSON may be, of no product."""


def _archive() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("read me.txt", "nothing")
    return data.getvalue()


FOREIGN: Final = {
    **JSON_FOREIGN,
    "nothing": b"",
    "blanks": b" \r\n\t",
    "prose": b"Dear diary,\n\ntoday nothing happened.\n",
    "note": b"# Shopping\n\n- milk\n- [ ] bread\n",
    "lines": b'{"a": 1}\n{"a": 2}\n',
    "nested": b'[[{"a": [{"b": null}]}], 2]',
    "export of memspine": b'{"memspine": 1, "exportedAt": "2026-01-01T00:00:00.000Z"}\n',
    "picture": PICTURE,
    "database": b"SQLite format 3\0" + bytes(4080),
    "archive": _archive(),
    "UTF-16": "\ufeffnotes".encode("utf-16-le"),
}
"""Beginnings of files that no product has written."""


@contextmanager
def opened(
    path: Path, *, is_piped: bool = False, wrapped: Callable[[BinaryIO], Any] = lambda file: file
) -> Iterator[ImportSource]:
    """A source, as `memspine import` opens it; a piped one as if it came on standard input."""
    if path.is_dir():
        yield ImportSource(name=path.name, path=path)
        return
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        file.seek(0)
        stream = cast("BinaryIO", wrapped(file))
        name = "-" if is_piped else path.name
        yield ImportSource(name=name, path=None if is_piped else path, stream=stream, head=head)


def recognises(importer: Importer, path: Path, **options: Any) -> bool:
    """Whether the importer recognises what is there."""
    with opened(path, **options) as source:
        return recogniser(importer)(source)


def items(importer: Importer, path: Path, **options: Any) -> list[SourceItem]:
    """What the importer reads there."""
    with opened(path, **options) as source:
        return list(reader(importer)(source))


def memories(found: Sequence[SourceItem]) -> list[SourceMemory]:
    """Those items that are memories."""
    return [item for item in found if isinstance(item, SourceMemory)]


def bad_lines(found: Sequence[SourceItem]) -> list[BadLine]:
    """Those items that are bad lines."""
    return [item for item in found if isinstance(item, BadLine)]


def told(found: Sequence[SourceItem]) -> list[str]:
    """What bad lines and notes say."""
    return [
        item.reason if isinstance(item, BadLine) else item.text for item in found if isinstance(item, BadLine | Note)
    ]


def said(found: Sequence[SourceItem]) -> set[tuple[tuple[str, ...], str, str]]:
    """Identity, owner and content of the memories."""
    return {(item.identity, item.owner, item.memory.content) for item in memories(found)}


def copied(path: Path, folder: Path) -> Path:
    """The source in a fresh folder, under its own name."""
    folder.mkdir(parents=True)
    place = folder / path.name
    if path.is_dir():
        shutil.copytree(path, place)
    else:
        shutil.copyfile(path, place)
    return place


def files_of(path: Path) -> list[Path]:
    """The file itself, or all of a folder."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """All that is in a folder: mode, time of the last change and content by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.stat()
        changed = 0 if path.is_dir() else about.st_mtime_ns
        found[str(path.relative_to(folder))] = (about.st_mode, changed, b"" if path.is_dir() else path.read_bytes())
    return found


class Untouched:
    """A stream that nobody may touch."""

    def __init__(self, _: BinaryIO) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the stream was touched: {name}")


class Watched(io.RawIOBase):
    """A stream that counts what was read of it, and fails behind `bytes_max`."""

    def __init__(self, file: BinaryIO, bytes_max: int | None = None) -> None:
        self.file, self.bytes_max, self.done = file, bytes_max, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read as much as there is place for."""
        size = len(buffer)
        if self.bytes_max is not None:
            size = min(size, self.bytes_max - self.done)
            if size <= 0:
                raise OSError(5, "the device failed, as the kit wanted")
        data = self.file.read(size)
        buffer[: len(data)] = data
        self.done += len(data)
        return len(data)
