"""JSON documents of any size, one element of their array at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple, Protocol

ELEMENT_CHARS_MAX: Final = 256 * 1024 * 1024
"""More than that in one element, and the document is given up: so much has to fit into memory."""

_BLOCK: Final = 64 * 1024
_SPACE: Final = " \t\r\n"
_DEPTHS: Final = 5
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:]', re.DOTALL)
# A value that goes on behind the buffer is wrong at its end, or in a text that has no end yet.
_TAIL: Final = 16


class DocumentError(Exception):
    """The document cannot be read on from here."""


class Element(NamedTuple):
    """One element, of the array that the document is (then `array` is empty) or that it has under this name."""

    array: str
    value: Any


class Readable(Protocol):
    """What can be read from."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""
        ...


def outline(head: bytes) -> tuple[set[str], ...]:
    """The names at each depth of the JSON that begins so, counted by brackets: at 1 those of a document that is an
    object, at 2 those of the objects in an array."""
    names: tuple[set[str], ...] = tuple(set() for _ in range(_DEPTHS))
    depth, text = 0, ""
    for found in _TOKEN.findall(head.decode("utf-8-sig", errors="replace")):
        if found in "{[":
            depth += 1
        elif found in "}]":
            depth -= 1
        elif found == ":" and 0 <= depth < _DEPTHS:
            names[depth].add(text)
        text = found[1:-1] if found.startswith('"') else ""
    return names


def begins_with(head: bytes, mark: bytes) -> bool:
    """Whether this is the first character that is no space."""
    return head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(mark)


def elements(stream: Readable, arrays: Collection[str] = ()) -> Iterator[Element]:
    """The elements of a document that is an array, or of the arrays that an object has under these names.

    Raises DocumentError, after all that could be read.
    """
    cursor = _Cursor(stream)
    start = cursor.peek()
    if start == "[":
        yield from (Element("", value) for value in cursor.array())
    elif start == "{" and arrays:
        yield from _in_object(cursor, arrays)
    else:
        raise DocumentError("it is no JSON array" if start else cursor.problem or "it is empty")
    if cursor.peek():
        raise DocumentError("something follows behind the end of the document")


def _in_object(cursor: _Cursor, arrays: Collection[str]) -> Iterator[Element]:
    cursor.take("{")
    while cursor.peek() != "}":
        name = cursor.value()
        cursor.take(":")
        if name in arrays and cursor.peek() == "[":
            yield from (Element(name, value) for value in cursor.array())
        else:
            cursor.value()
        if cursor.peek() != "}":
            cursor.take(",")
    cursor.take("}")


class _Cursor:
    """A place in a document, and as much of what follows as is needed."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._decoder = json.JSONDecoder(strict=False)
        self._text = ""
        self._place = 0
        self._at_end = False
        self.problem = ""

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            while self._place < len(self._text):
                character = self._text[self._place]
                if character not in _SPACE:
                    return character
                self._place += 1
            if self._at_end:
                return ""
            self._fill()

    def take(self, character: str) -> None:
        """Go behind this character. Raises DocumentError."""
        found = self.peek()
        if found != character:
            raise DocumentError(f"{found!r} stands where {character!r} should" if found else self._end())
        self._place += 1

    def array(self) -> Iterator[Any]:
        """The elements of the array that begins here. Raises DocumentError."""
        self.take("[")
        while self.peek() != "]":
            yield self.value()
            if self.peek() != "]":
                self.take(",")
        self.take("]")

    def value(self) -> Any:
        """The value that begins here. Raises DocumentError."""
        if not self.peek():
            raise DocumentError(self._end())
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._place)
            except json.JSONDecodeError as error:
                goes_on = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _TAIL
                if self._at_end or not goes_on:
                    wrong = f"it is no JSON from here on ({error.msg})"
                    raise DocumentError(self._end() if self._at_end and goes_on else wrong) from error
            except (ValueError, RecursionError) as error:
                raise DocumentError("it is nested too deeply, or has a number that is too long") from error
            else:
                if self._at_end or isinstance(value, dict | list | str) or end < len(self._text) - _TAIL:
                    self._place = end
                    return value
            self._fill()

    def _end(self) -> str:
        """Why there is no more of the document."""
        return self.problem or "it is cut off"

    def _fill(self) -> None:
        """At least twice as much of the document as there was, so that trying again costs no more than it did."""
        rest = self._text[self._place :]
        if len(rest) > ELEMENT_CHARS_MAX:
            raise DocumentError(f"one element has more than {ELEMENT_CHARS_MAX} characters")
        pieces, wanted = [rest], max(len(rest), _BLOCK)
        while wanted > 0 and not self._at_end:
            block = self._stream.read(_BLOCK)
            self._at_end = not block
            try:
                pieces.append(self._decode.decode(block, final=not block))
            except UnicodeDecodeError as error:
                # What stands before it is read still, as if the document ended there.
                pieces.append(error.object[: error.start].decode())
                self._at_end = True
                self.problem = f"byte 0x{error.object[error.start]:02x} in it is not UTF-8"
            wanted -= len(block)
        self._text, self._place = "".join(pieces), 0
