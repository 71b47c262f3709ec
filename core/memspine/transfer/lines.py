"""Lines of a file of any size, with bounded memory and without giving up at the first that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

LINE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Longer lines are bad: no memory is as long as that, with all the history it may have."""

_BOM: Final = b"\xef\xbb\xbf"


@attrs.frozen(kw_only=True)
class Line:
    """One line without its end. With a `problem` there is no text; `complete` is False when the file ends in it."""

    number: int
    text: str = ""
    problem: str = ""
    complete: bool = True


def read_lines(chunks: Iterable[bytes]) -> Iterator[Line]:
    """The lines of UTF-8 text, counted from 1; a byte order mark, LF and CRLF are no part of them."""
    for number, (raw, complete) in enumerate(_raw_lines(chunks), 1):
        if raw is None:
            problem = f"the line is longer than {LINE_BYTES_MAX // (1024 * 1024)} MiB"
            yield Line(number=number, problem=problem, complete=complete)
            continue
        start = len(_BOM) if number == 1 and raw.startswith(_BOM) else 0
        try:
            yield Line(number=number, text=raw[start:].removesuffix(b"\r").decode(), complete=complete)
        except UnicodeDecodeError as error:
            problem = f"byte 0x{raw[start + error.start]:02x} at position {start + error.start} is not UTF-8"
            yield Line(number=number, problem=f"{problem}; convert the file to UTF-8", complete=complete)


def _raw_lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes | None, bool]]:
    """Each line, None for one that is too long to be held, and whether it has an end."""
    begun: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        size += len(first)
        begun = [*begun, first] if size <= LINE_BYTES_MAX else []
        if not others:
            continue
        yield (b"".join(begun) if size <= LINE_BYTES_MAX else None), True
        for line in others[:-1]:
            yield (line if len(line) <= LINE_BYTES_MAX else None), True
        begun, size = [others[-1]], len(others[-1])
        if size > LINE_BYTES_MAX:
            begun = []
    if size:
        yield (b"".join(begun) if size <= LINE_BYTES_MAX else None), False
