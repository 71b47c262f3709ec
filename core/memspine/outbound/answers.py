"""What comes back: read to a limit, and without surprises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, NoReturn

from memspine import times
from memspine.errors import MemspineError

if TYPE_CHECKING:
    from datetime import datetime

RETRY_AFTER_SECONDS_MAX: Final = 86_400.0
"""What a service asks for beyond a day is taken for a day: no caller should be shut out for longer by one answer."""


def retry_after(text: str, *, date: str = "") -> float | None:
    """The seconds that a Retry-After header asks for, in seconds or as a date, a day at most; None if it says nothing
    of the kind.

    `date` is the Date header beside it: by the service's own clock, a wrong clock on either side does no harm.
    """
    text = text.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), RETRY_AFTER_SECONDS_MAX)
    moment = _moment(text)
    if moment is None:
        return None
    seconds = (moment - (_moment(date) or times.now())).total_seconds()
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS_MAX)


class AnswerError(MemspineError, ValueError):
    """An answer that is no use; its text says what it was, without quoting it."""


async def unpacked(chunks: AsyncIterator[bytes], encoding: str, *, bytes_max: int) -> AsyncIterator[bytes]:
    """The body of an answer as it comes, unpacked, in pieces of at most `bytes_max` bytes where it was packed.

    `encoding` is the Content-Encoding header, empty for none; gzip is the only one. A piece is unpacked when it is
    asked for, so that who stops reading at a limit holds no more than that. Raises AnswerError.
    """
    import zlib

    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        async for chunk in chunks:
            yield chunk
        return
    if encoding not in {"gzip", "x-gzip"}:
        raise AnswerError("an answer in an encoding that was not asked for")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    async for chunk in chunks:
        packed = chunk
        while packed:
            try:
                yield unpacker.decompress(packed, bytes_max)
            except zlib.error:
                raise AnswerError("an answer that is packed otherwise than it says") from None
            packed = unpacker.unconsumed_tail


def parse_json(data: bytes) -> object:
    """The value of a JSON text. Raises AnswerError, also for NaN and infinities, which JSON does not have."""
    import json

    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise AnswerError("an answer that is no JSON") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _moment(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
