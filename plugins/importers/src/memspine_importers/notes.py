"""Folders of Markdown: their files, the properties at the beginning of each, and its blocks."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs
import yaml
from markdown_it import MarkdownIt

from memspine.contracts import BadLine, ImportSource, Note

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Larger notes are bad: each is parsed as a whole."""

_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv"})
_LISTS: Final = ("bullet_list_open", "bullet_list_close", "ordered_list_open", "ordered_list_close")
_MARKER: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")


@attrs.frozen(kw_only=True)
class Document:
    """A note: its path inside the folder, its properties, and its text from line `offset` + 1 on."""

    path: str
    properties: Mapping[str, Any]
    text: str
    offset: int
    problem: str = ""


@attrs.frozen(kw_only=True)
class Block:
    """A paragraph, an item of a list, a piece of code: its line, its text, and the headings above, outermost first."""

    line: int
    text: str
    headings: tuple[str, ...]
    is_item: bool = False


def documents(source: ImportSource, *, below: str = "") -> Iterator[Document | BadLine | Note]:
    """The Markdown files of a folder, or of a folder in it, or the one file that the source is."""
    if source.stream is not None:
        yield _document(source.name, source.stream)
    if source.path is None or not source.is_folder:
        return
    for path in files(source.path / below):
        name = path.relative_to(source.path).as_posix()
        if path.is_symlink():
            yield Note(1, f"{name}: a link was not followed")
            continue
        try:
            with path.open("rb") as file:
                yield _document(name, file)
        except OSError as error:
            yield BadLine(1, f"{name}: cannot be read: {error.strerror or error}")


def files(folder: Path) -> Iterator[Path]:
    """The Markdown files below a folder in the order of their paths; hidden folders are passed over."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(names):
            if name.lower().endswith(".md") and not name.startswith("."):
                yield Path(root) / name


def properties_of(text: str) -> tuple[Mapping[str, Any], int, str]:
    """The properties at the beginning of a note, how many lines they take, and what is wrong with them, if anything."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return {}, 0, ""
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    if not end:
        return {}, 0, ""
    try:
        value = _loaded("\n".join(lines[1:end]))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return {}, end + 1, str(error).splitlines()[0] if str(error) else type(error).__name__
    if value is None or isinstance(value, dict):
        return {str(name): entry for name, entry in (value or {}).items()}, end + 1, ""
    return {}, end + 1, "they are no names with values"


def _loaded(text: str) -> Any:
    """What YAML says, with every value as text: nothing is merged or multiplied, whatever the file refers to."""
    loader = yaml.BaseLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def blocks(text: str, *, offset: int = 0) -> Iterator[Block]:
    """The blocks of a Markdown text, whose first line is line `offset` + 1.

    Headings stand above them; one with nothing below it is a block itself.
    """
    lines, headings, depth = text.split("\n"), list[tuple[int, str]](), 0
    bare: Block | None = None
    tokens = MarkdownIt("commonmark").parse(text)
    for place, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            level, name = int(token.tag[1]), tokens[place + 1].content
            if bare and level <= headings[-1][0]:
                yield bare
            headings = [(above, outer) for above, outer in headings if above < level]
            bare = Block(line=offset + token.map[0] + 1, text=name, headings=tuple(outer for _, outer in headings))
            headings.append((level, name))
        elif token.type in _LISTS and token.level == 0:
            depth = max(token.nesting, 0)
        elif token.map and token.nesting >= 0 and token.level == depth and token.type != "hr":
            raw = _raw(lines[token.map[0] : token.map[1]], is_item=depth > 0)
            if raw:
                bare = None
                names = tuple(name for _, name in headings)
                yield Block(line=offset + token.map[0] + 1, text=raw, headings=names, is_item=depth > 0)
    if bare and bare.text:
        yield bare


def _raw(lines: list[str], *, is_item: bool) -> str:
    """The lines as they stand, of an item without its marker and without what it is indented by."""
    if is_item and lines:
        first, *rest = lines
        lines = [_MARKER.sub("", first, count=1), textwrap.dedent("\n".join(rest))]
    return "\n".join(lines).strip()


def _document(name: str, file: BinaryIO) -> Document | BadLine:
    data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        return BadLine(1, f"{name}: has more than {FILE_BYTES_MAX // (1024 * 1024)} MiB; divide it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return BadLine(line, f"{name}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8; convert the file")
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    properties, offset, problem = properties_of(text)
    rest = "\n".join(text.split("\n")[offset:])
    return Document(path=name, properties=properties, text=rest, offset=offset, problem=problem)
