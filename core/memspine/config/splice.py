"""Changes one key in the text of a TOML document; all other characters stay.

Not by tomlkit, which was tried: a new key goes behind the comment that introduces the next table, a new table tears
such a comment from its table, and 0.13 breaks documents whose tables are out of order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from memspine.config.locate import KeyPath, Statement, dotted, statements
from memspine.config.show import toml_text

_LINE: Final = re.compile(r"[^\n]*\n?")


def with_value(text: str, path: KeyPath, literal: str, *, document: dict[str, Any]) -> Iterator[str]:
    """Texts that should parse as `document`, which has the value at the path; the first that does is the nicest."""
    newline = "\r\n" if "\r\n" in text else "\n"
    literal = literal.replace("\r\n", "\n").replace("\n", newline)
    found = statements(text)
    if owner := _owner(found, path):
        yield _replaced(text, owner, literal if owner.path == path else _rendered(document, owner.path))
        return
    if anchor := _last(found, lambda s: s.table == path[:-1]):
        yield _below(text, anchor, f"{dotted(path[-1:])} = {literal}{newline}", newline=newline)
    for depth in range(len(path) - 1, 0, -1):
        # The table may be written as dotted keys.
        inside = _last(found, lambda s, depth=depth: s.path[:depth] == path[:depth] and len(s.table) < depth)
        if inside and inside.value is not None:
            yield _below(text, inside, f"{dotted(path[len(inside.table) :])} = {literal}{newline}", newline=newline)
    if len(path) == 1:
        yield f"{dotted(path)} = {literal}{newline}{text}"
        return
    section = f"[{dotted(path[:-1])}]{newline}{dotted(path[-1:])} = {literal}{newline}"
    family = _last(found, lambda s: s.table[:1] == path[:1])
    if family and family is not found[-1]:
        yield _below(text, family, newline + section, newline=newline, indented=False)
    yield _ended(text, newline) + section


def without_value(text: str, path: KeyPath, *, document: dict[str, Any]) -> str:
    """The text without the key, or without all of the table; `document` is what has to be left."""
    found = statements(text)
    owner = _owner(found, path)
    if owner and owner.path != path:
        return _replaced(text, owner, _rendered(document, owner.path))
    gone = [s for s in found if s.path[: len(path)] == path or s.table[: len(path)] == path]
    for statement in reversed(gone):
        start, end = text.rfind("\n", 0, statement.start) + 1, _line_end(text, statement)
        before, after = text[:start], text[end:]
        # One empty line around what is gone is enough.
        if before.endswith(("\n\n", "\n\r\n")) or not before:
            after = after.removeprefix("\r\n").removeprefix("\n") if statement.value is None else after
        text = before + after
    return text


def _owner(found: list[Statement], path: KeyPath) -> Statement | None:
    """The `key = value` that holds the path: its own, or that of the inline table around it."""
    return _last(found, lambda s: s.value is not None and path[: len(s.path)] == s.path)


def _last(found: list[Statement], fits: Any) -> Statement | None:
    return next((statement for statement in reversed(found) if fits(statement)), None)


def _replaced(text: str, statement: Statement, literal: str) -> str:
    return text[: statement.value] + literal + text[statement.end :]


def _rendered(document: Any, path: KeyPath) -> str:
    for key in path:
        document = document[key]
    return toml_text(document)


def _line_end(text: str, statement: Statement) -> int:
    match = _LINE.match(text, statement.end)
    return match.end() if match else len(text)


def _below(text: str, anchor: Statement, addition: str, *, newline: str, indented: bool = True) -> str:
    """The text with whole lines behind those of a statement, indented as the statement is."""
    end = _line_end(text, anchor)
    before, after = text[:end], text[end:]
    if not before.endswith("\n"):
        before += newline
    indent = text[text.rfind("\n", 0, anchor.start) + 1 : anchor.start]
    if not indented and after and not after.startswith(("\n", "\r")):
        addition += newline
    return before + (indent if indented else "") + addition + after


def _ended(text: str, newline: str) -> str:
    """The text with an empty line at its end, if there is any text."""
    if text and not text.endswith("\n"):
        text += newline
    return text + newline if text and not text.endswith(("\n\n", "\n\r\n")) else text
