"""Values of the command line: times, durations, JSON, standard input."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, BinaryIO, Final

from memspine import times
from memspine.cli.codes import InputError
from memspine.errors import InvalidMemoryError

INPUT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one text or one request on standard input; what memspine takes is much less, so nothing real is refused."""

_DURATION: Final = re.compile(r"(\d{1,9})(s|m|h|d|w)", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FORMS: Final = "a date and time with its offset, such as 2026-01-02T03:04:05Z, or a duration such as 30d, 12h, 90m"


def future(text: str | None, *, field: str) -> datetime | None:
    """A time, or a duration from now on. Raises InvalidMemoryError."""
    return _time(text, field=field, sign=1)


def past(text: str | None, *, field: str) -> datetime | None:
    """A time, or a duration before now. Raises InvalidMemoryError."""
    return _time(text, field=field, sign=-1)


def _time(text: str | None, *, field: str, sign: int) -> datetime | None:
    if text is None:
        return None
    duration = _DURATION.fullmatch(text.strip())
    try:
        if duration:
            distance = timedelta(**{_UNITS[duration[2]]: int(duration[1])})
            return times.canonical(times.now() + sign * distance, field=field)
        return times.from_text(text.strip(), field=field)
    except OverflowError:
        raise InvalidMemoryError(field, text, "a time between the years 1 and 9999 in UTC") from None
    except InvalidMemoryError as error:
        raise InvalidMemoryError(field, text, error.expected if duration else _FORMS) from error


def json_object(text: str, *, field: str) -> Mapping[str, Any]:
    """A JSON object. Raises InvalidMemoryError."""
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMemoryError(field, text, f"a JSON object ({error})") from error
    if not isinstance(value, dict):
        raise InvalidMemoryError(field, text, "a JSON object")
    return value


def content(words: list[str]) -> str:
    """The text that the words make, or for a single `-` standard input. Raises InputError."""
    return read_text() if words == ["-"] else " ".join(words)


def read_text() -> str:
    """Standard input as UTF-8, without a byte order mark and without the last line's end. Raises InputError."""
    data = stdin().read(INPUT_BYTES_MAX + 1)
    if len(data) > INPUT_BYTES_MAX:
        raise InputError(f"standard input: more than {INPUT_BYTES_MAX} bytes; expected one text, not a file of many")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"standard input, line {line}: byte 0x{data[error.start]:02x} is not UTF-8; expected UTF-8 text; "
            "convert it first, for instance with `iconv -t UTF-8`"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def stdin() -> BinaryIO:
    """Standard input as bytes. Raises InputError when it is closed."""
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("standard input is closed; expected data on it")
    return sys.stdin.buffer
