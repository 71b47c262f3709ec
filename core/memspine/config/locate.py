"""Where the keys of a TOML document are: tomllib keeps no positions (cpython #115516), nor does tomlkit (#55).

Needed only to name the lines of problems and settings and to change a file, so it runs only then, and only on text
that tomllib took.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

KeyPath: TypeAlias = tuple[str | int, ...]
"""The way to a value: the keys of tables, the indexes of arrays."""

_SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRING: Final = r"""'[^']*'|"(?:\\.|[^"\\])*[\"]"""
_QUOTED_KEY: Final = re.compile(_STRING)
# Up to two quotes may stand before the three that end a multi-line string.
_MULTILINE: Final = r"""\"{3}(?:\\.|[^\\])*?\"{3,5}|\'{3}.*?\'{3,5}"""
_SCALAR: Final = re.compile(rf"{_MULTILINE}|{_STRING}|[^,\]}}#\r\n]+", re.DOTALL)


def locate(text: str) -> dict[KeyPath, int]:
    """The line, counted from 1, of each key, table and array element of a valid document.

    A table has the line of its own header; without one, that of the first header or dotted key that implies it.
    An array of tables has the line of its first header.
    """
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.lines


@attrs.frozen
class Statement:
    """A header or a `key = value`, as characters `start` to `end` of the text, comments not included.

    `path` is where it leads, `table` that of the header above it; `value` is where the value starts, None for a header.
    """

    path: KeyPath
    table: KeyPath
    start: int
    end: int
    value: int | None = None


def statements(text: str) -> list[Statement]:
    """The statements of a valid document, in order; what is inside of an inline table is part of its statement."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.statements


def nearest_line(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """The line of a path, or of the innermost table around it that is written down; None if there is none."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def dotted(path: KeyPath) -> str:
    """A path as a person writes it: `backends."my notes".paths[2]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + quoted_key(part)
    return text


def split_key(text: str) -> list[str]:
    """The parts of a dotted key. Raises ValueError for anything else."""
    scanner = _Scanner(text)
    keys = scanner.keys()
    if not scanner.is_at_end():
        raise ValueError(f"{text!r} is no key")
    return keys


def quoted_key(key: str) -> str:
    """One key, in quotes where TOML asks for them."""
    import json

    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f")


class _Scanner:
    """One pass over a document. It trusts that the document is valid."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.statements: list[Statement] = []
        self._text = text
        self._at = 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._lengths: dict[KeyPath, int] = {}  # of the arrays of tables

    def scan(self) -> None:
        """Fill `lines` and `statements`."""
        table: KeyPath = ()
        while opening := self._next():
            start, value = self._at, None
            if opening == "[":
                path = table = self._header()
            else:
                path, value = self._pair(table)
            self.statements.append(Statement(path, table, start, self._at, value))

    def is_at_end(self) -> bool:
        """Whether all of the text has been read."""
        return self._at == len(self._text)

    def _next(self) -> str:
        """The next character that is neither space nor comment; empty at the end."""
        self._take(_SPACE)
        return self._text[self._at : self._at + 1]

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError(f"no TOML at character {self._at}")
        self._at = match.end()
        return match[0]

    def _line(self) -> int:
        return bisect.bisect_left(self._newlines, self._at) + 1

    def _header(self) -> KeyPath:
        line = self._line()
        width = 2 if self._text.startswith("[[", self._at) else 1
        self._at += width
        *parents, last = self.keys()
        self._at += width
        path: KeyPath = ()
        for key in parents:
            path = (*path, key)
            self.lines.setdefault(path, line)
            if path in self._lengths:
                path = (*path, self._lengths[path] - 1)
        path = (*path, last)
        if width == 2:
            self.lines.setdefault(path, line)
            index = self._lengths.get(path, 0)
            self._lengths[path] = index + 1
            path = (*path, index)
        self.lines[path] = line
        return path

    def keys(self) -> list[str]:
        """The parts of a dotted key; what follows it is the next character."""
        keys = []
        while True:
            keys.append(_unquoted(self._take(_QUOTED_KEY)) if self._next() in {'"', "'"} else self._take(_BARE_KEY))
            if self._next() != ".":
                return keys
            self._at += 1

    def _pair(self, table: KeyPath) -> tuple[KeyPath, int]:
        """The path, and where the value starts."""
        line = self._line()
        path = table
        for key in self.keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._at += 1  # the equals sign
        self._next()
        value = self._at
        self._value(path)
        return path, value

    def _value(self, path: KeyPath) -> None:
        opening = self._next()
        if opening not in {"[", "{"}:
            taken = self._take(_SCALAR)
            self._at -= len(taken) - len(taken.rstrip(" \t"))
            return
        self._at += 1
        index = 0
        while (following := self._next()) not in {"]", "}"}:
            if following == ",":
                self._at += 1
            elif opening == "{":
                self._pair(path)
            else:
                self.lines[(*path, index)] = self._line()
                self._value((*path, index))
                index += 1
        self._at += 1


def _unquoted(key: str) -> str:
    import tomllib

    value = tomllib.loads(f"key = {key}")["key"]
    return str(value)
