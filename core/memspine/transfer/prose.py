"""Text and Markdown as memories: a paragraph, a list item of the top level or a block of code is one memory.

Of Markdown, the headings above a memory are in its metadata as `heading`, joined by ` / `; a heading with nothing
below it is a memory itself. Front matter and thematic breaks are no memories. Words are never changed: of a list item
the marker is taken off, lines end in LF, and blanks around a memory are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from memspine.model import CONTENT_LENGTH_MAX, NewMemory
from memspine.transfer.frontmatter import FRONT_MATTER, without_front_matter
from memspine.transfer.items import BadLine, Item, Note, checked_memory, content_id
from memspine.transfer.lines import Line

_HEADING: Final = re.compile(r" {0,3}(?P<marks>#{1,6})(?P<text>[ \t].*)?")
_UNDERLINE: Final = re.compile(r" {0,3}(?P<mark>=+|-+)[ \t]*")
_BREAK: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})")
_LIST_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+(?P<text>.*)|[ \t]*)")
_FENCE: Final = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<info>.*)")


@attrs.define
class _Block:
    """What becomes one memory: lines from `line` on. A `problem` in one of them spoils it as a whole."""

    line: int
    lines: list[str] = attrs.field(factory=list)
    is_item: bool = False
    problem: str = ""
    length: int = 0
    is_cut: bool = False

    def add(self, line: Line) -> None:
        """One line more; of what is longer than any memory the rest is not held."""
        if line.problem and not self.problem:
            self.problem = line.problem if line.number == self.line else f"line {line.number}: {line.problem}"
        self.append(line.text)

    def append(self, text: str) -> None:
        """Text of one line more."""
        self.is_cut = self.is_cut or self.length > CONTENT_LENGTH_MAX
        if not self.is_cut:
            self.length += len(text) + 1
            self.lines.append(text)

    def items(self, format: str, *, title: str, heading: str = "") -> Iterator[Item]:
        """The memory, if there is a word in it."""
        content = "\n".join(self.lines).strip()
        if self.problem:
            yield BadLine(self.line, f"{self.problem}; the whole paragraph was left out")
        elif self.is_cut:
            yield BadLine(self.line, f"the paragraph has more than {CONTENT_LENGTH_MAX} characters; divide it")
        elif content:
            metadata: dict[str, Any] = {}
            if heading:
                metadata["heading"] = heading
            if title:
                metadata["source"] = title
            id = content_id(format, title, heading, content)
            yield from checked_memory(self.line, NewMemory(content=content, metadata=metadata), id=id)


def read_text(lines: Iterable[Line], *, title: str) -> Iterator[Item]:
    """The paragraphs of a text, which blank lines divide. `title` names the text in the metadata as `source`."""
    block: _Block | None = None
    for line in lines:
        if line.text.strip() or line.problem:
            block = block or _Block(line.number)
            block.add(line)
        elif block is not None:
            yield from block.items("text", title=title)
            block = None
    if block is not None:
        yield from block.items("text", title=title)


def read_markdown(lines: Iterable[Line], *, title: str) -> Iterator[Item]:
    """The memories of a Markdown document. `title` names it in the metadata as `source`."""
    reader = _Markdown(title)
    for line in without_front_matter(lines):
        if line.problem == FRONT_MATTER:
            yield Note(line.number, FRONT_MATTER)
        else:
            yield from reader.take(line)
    yield from reader.end()


class _Markdown:
    """The reader's place in a document: the headings above, the open block, the open fence."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._headings: list[tuple[int, str]] = []
        self._heading_line = 0
        self._bare = False
        self._block: _Block | None = None
        self._fence = ""
        self._blanks = 0

    def take(self, line: Line) -> Iterator[Item]:
        """One line."""
        blank = not line.text.strip() and not line.problem
        if self._fence:
            self._continue(line)
            if _closes(line.text, self._fence):
                self._fence = ""
        elif blank:
            # A list item goes on after a blank line if what follows is indented; `_belongs` sees to that.
            if self._block is not None and not self._block.is_item:
                yield from self._close()
        elif self._is_underline(line.text):
            yield from self._underlined(line)
        elif self._belongs(line.text):
            self._keep_blanks()
            self._open_fence(line.text)
            self._continue(line)
        else:
            yield from self._begin(line)
        self._blanks = self._blanks + 1 if blank else 0

    def end(self) -> Iterator[Item]:
        """The end of the document."""
        yield from self._close()
        yield from self._lonely_heading()

    def _begin(self, line: Line) -> Iterator[Item]:
        yield from self._close()
        if heading := _HEADING.fullmatch(line.text):
            yield from self._descend(line.number, len(heading["marks"]), _heading_text(heading["text"] or ""))
        elif not _BREAK.fullmatch(line.text):
            item = _LIST_ITEM.fullmatch(line.text)
            self._block = _Block(line.number, is_item=item is not None)
            text = line.text if item is None else item["text"] or ""
            self._open_fence(text)
            self._block.add(attrs.evolve(line, text=text))

    def _belongs(self, text: str) -> bool:
        """Whether the line goes on with the open block."""
        if self._block is None:
            return False
        if self._block.is_item and text[:1] in (" ", "\t") and _indent(text) >= 2:
            return True
        if self._blanks or _HEADING.fullmatch(text) or _BREAK.fullmatch(text):
            return False
        return _LIST_ITEM.fullmatch(text) is None

    def _is_underline(self, text: str) -> bool:
        is_paragraph = self._block is not None and not self._block.is_item and not self._blanks
        return is_paragraph and _UNDERLINE.fullmatch(text) is not None

    def _underlined(self, line: Line) -> Iterator[Item]:
        block, self._block = self._block, None
        if block is not None:
            text = " ".join(part.strip() for part in block.lines)
            yield from self._descend(block.line, 1 if "=" in line.text else 2, text)

    def _descend(self, line: int, level: int, text: str) -> Iterator[Item]:
        if level <= (self._headings[-1][0] if self._headings else 0):
            yield from self._lonely_heading()
        self._headings = [*((above, name) for above, name in self._headings if above < level), (level, text.strip())]
        self._heading_line, self._bare = line, True

    def _lonely_heading(self) -> Iterator[Item]:
        if self._bare:
            self._bare = False
            block = _Block(self._heading_line)
            block.append(self._headings[-1][1])
            yield from block.items("markdown", title=self._title, heading=self._path(self._headings[:-1]))

    def _continue(self, line: Line) -> None:
        if self._block is not None:
            self._block.add(line)

    def _keep_blanks(self) -> None:
        for _ in range(self._blanks if self._block is not None else 0):
            self._continue(Line(number=0))

    def _open_fence(self, text: str) -> None:
        opening = _FENCE.fullmatch(text)
        if opening and not (opening["mark"][0] == "`" and "`" in opening["info"]):
            self._fence = opening["mark"]

    def _close(self) -> Iterator[Item]:
        block, self._block = self._block, None
        if block is not None:
            for item in block.items("markdown", title=self._title, heading=self._path(self._headings)):
                self._bare = False
                yield item

    def _path(self, headings: list[tuple[int, str]]) -> str:
        return " / ".join(text for _, text in headings if text)


def _heading_text(text: str) -> str:
    """The words of a heading, without the marks that may close it."""
    stripped = text.strip()
    opened = stripped.rstrip("#")
    return opened.rstrip() if opened.endswith((" ", "\t")) or not opened else stripped


def _indent(text: str) -> int:
    expanded = text.expandtabs(4)
    return len(expanded) - len(expanded.lstrip(" "))


def _closes(text: str, fence: str) -> bool:
    stripped = text.strip()
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}
