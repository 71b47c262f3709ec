"""Files as items: which format a file has, and the reader of each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import BinaryIO, Final

from memspine.intake import Intake
from memspine.transfer.conversations import read_conversations
from memspine.transfer.items import BadLine, Item
from memspine.transfer.jsonl import read_jsonl
from memspine.transfer.lines import Line, read_lines
from memspine.transfer.prose import read_markdown, read_text

FORMATS: Final = ("jsonl", "conversations", "markdown", "text")
"""The formats that can be read."""

HEAD_BYTES: Final = 4096
"""How much of a file's beginning `guess_format` wants to see."""

_CHUNK_BYTES: Final = 256 * 1024
_BY_SUFFIX: Final = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".md": "markdown", ".markdown": "markdown", ".txt": "text", ".text": "text",
}  # fmt: skip
_MARKDOWN_LINE: Final = re.compile(rb"^(?:#{1,6} |[-*+] |```)", re.MULTILINE)
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


def guess_format(name: str, head: bytes) -> str:
    """The format of a file by its name, or else by how it begins."""
    by_suffix = _BY_SUFFIX.get(PurePath(name).suffix.lower())
    if by_suffix is not None:
        return by_suffix
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        is_export = start.startswith(b'{"memspine"')  # whatever its memories are about
        return "conversations" if b'"conversations"' in start and not is_export else "jsonl"
    if PurePath(name).suffix.lower() == ".json":
        return "jsonl"
    return "markdown" if _MARKDOWN_LINE.search(start) else "text"


def read_records(file: BinaryIO, *, name: str, format: str | None = None) -> Iterator[Item]:
    """The items of a file in their order; `name` is what people call it, a path or `-`.

    Raises InvalidMemoryError for a format that is none of `FORMATS`, before anything is read, and whatever reading
    the file raises.
    """
    head = b"" if format is not None else file.read(HEAD_BYTES)
    chosen = guess_format(name, head) if format is None else Intake().choice("format", format, FORMATS)
    return _read(chosen, _chunks(head, file), title="" if name == "-" else PurePath(name).name)


def _chunks(head: bytes, file: BinaryIO) -> Iterator[bytes]:
    return itertools.chain([head] if head else [], iter(lambda: file.read(_CHUNK_BYTES), b""))


def _read(format: str, chunks: Iterator[bytes], *, title: str) -> Iterator[Item]:
    first = next(chunks, b"")
    if first.startswith(_UTF16_MARKS):
        yield BadLine(1, "the file is UTF-16; convert it to UTF-8")
        return
    whole = itertools.chain([first], chunks)
    if format == "conversations":
        yield from read_conversations(whole)
        return
    readers: dict[str, Callable[[Iterable[Line]], Iterator[Item]]] = {
        "jsonl": read_jsonl,
        "markdown": lambda lines: read_markdown(lines, title=title),
        "text": lambda lines: read_text(lines, title=title),
    }
    yield from readers[format](read_lines(whole))
