"""What `import` is given: files, folders and standard input, each with what reads it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast

from memspine.cli.codes import InputError
from memspine.cli.files import named_path

if TYPE_CHECKING:
    from pathlib import Path

    from memspine.contracts import Importer, ImportSource
    from memspine.transfer import Item

# What no format of the kernel begins with: read as text, every line of it would be wrong.
_OTHERWISE: Final = {
    b"PK\x03\x04": (
        "a ZIP archive that no importer recognises, or that is cut off; unpack it and import what is inside"
    ),
    b"SQLite format 3\0": "a SQLite database that no importer recognises",
    b"[": "a JSON array that no importer recognises",
}


class Source(NamedTuple):
    """One of the sources of an import; without an importer it is a file, and the formats of the kernel read it."""

    name: str
    source: ImportSource
    importer: Importer | None
    format: str | None

    def items(self, *, owner: str, keep_owners: bool) -> Iterator[Item]:
        """What is in it, for `owner`, or for the owners that it names. Raises what reading raises."""
        from memspine.transfer import read_foreign, read_records

        if self.importer is not None:
            return read_foreign(self.importer, self.source, owner=owner, keep_owners=keep_owners)
        return read_records(cast("BinaryIO", self.source.stream), name=self.name, format=self.format)

    def notes(self) -> tuple[str, ...]:
        """What a person should know before: who reads it, and what that does to the text."""
        if self.importer is None:
            return ()
        return (f"read as {self.importer.name} ({self.importer.summary}): {self.importer.changes}",)


def open_sources(names: Sequence[str], stack: contextlib.ExitStack, *, format: str | None) -> list[Source]:
    """The sources of these names, open until the stack is left, none of them read yet.

    Raises InputError for what cannot be read, and InvalidMemoryError for a format that does not fit.
    """
    from memspine.plugins import Plugins
    from memspine.transfer import FORMATS

    importers = () if format in FORMATS else Plugins().importers()
    return [_chosen(_opened(name, stack), importers, format) for name in names]


def _chosen(source: ImportSource, importers: Sequence[Importer], format: str | None) -> Source:
    from memspine.transfer import choose_importer

    try:
        importer = choose_importer(source, importers, format=format)
    except OSError as error:
        raise _unreadable(source.name, error) from error
    if importer is None:
        _check_readable(source, importers, format)
    return Source(source.name, source, importer, format)


def _check_readable(source: ImportSource, importers: Sequence[Importer], format: str | None) -> None:
    names = ", ".join(importer.name for importer in importers) or "none is installed"
    if source.is_folder:
        what = f"it is a folder{'' if format else ' that no importer recognises'}"
    elif format is None and (kind := _kind(source)):
        what = f"it is {kind}"
    else:
        return
    raise InputError(f"{source.name}: cannot be read: {what}; importers, for --format: {names}")


def _kind(source: ImportSource) -> str:
    start = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"[") and not source.name.lower().endswith(".json"):
        return ""
    return next((kind for mark, kind in _OTHERWISE.items() if start.startswith(mark)), "")


def _opened(name: str, stack: contextlib.ExitStack) -> ImportSource:
    from memspine.cli.values import stdin
    from memspine.contracts import ImportSource

    if name == "-":
        return _with_head(name, None, stdin(), stack)
    try:
        path = named_path(name)
        if path.is_dir():
            return ImportSource(name=name, path=path)
        return _with_head(name, path, stack.enter_context(path.open("rb")), stack)
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from error


def _with_head(name: str, path: Path | None, file: BinaryIO, stack: contextlib.ExitStack) -> ImportSource:
    from memspine.contracts import ImportSource
    from memspine.contracts.importer import HEAD_BYTES

    # Another buffer, so that the head is seen without being taken also where nothing can be read twice, as in a pipe.
    stream = io.BufferedReader(cast("io.RawIOBase", file), HEAD_BYTES)
    stack.callback(stream.detach)
    return ImportSource(name=name, path=path, stream=stream, head=stream.peek(HEAD_BYTES)[:HEAD_BYTES])


def _unreadable(name: str, error: Exception) -> InputError:
    return InputError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}")
