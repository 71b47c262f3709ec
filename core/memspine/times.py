"""Times: always UTC, always with milliseconds, one canonical text form (`2026-01-02T03:04:05.678Z`)."""

from __future__ import annotations

from datetime import UTC, datetime

from memspine.errors import InvalidMemoryError

_EXPECTED = "a date and time with its offset, such as 2026-01-02T03:04:05Z"


def now() -> datetime:
    """The current time in UTC, cut to whole milliseconds."""
    return _whole_milliseconds(datetime.now(UTC))


def canonical(value: datetime, *, field: str = "time") -> datetime:
    """The same instant in UTC, cut to whole milliseconds.

    Raises InvalidMemoryError for a naive time, and for one that UTC cannot express.
    """
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidMemoryError(field, value, _EXPECTED)
    try:
        return _whole_milliseconds(value.astimezone(UTC))
    except OverflowError as error:
        raise InvalidMemoryError(field, value, "a time between the years 1 and 9999 in UTC") from error


def to_text(value: datetime) -> str:
    """Canonical text of a UTC time; sorts as the times do."""
    return f"{value.isoformat(timespec='milliseconds')[:23]}Z"


def from_text(text: str, *, field: str = "time") -> datetime:
    """Read ISO 8601 with any offset; raises InvalidMemoryError when it is naive, malformed or out of range."""
    try:
        value = datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise InvalidMemoryError(field, text, _EXPECTED) from error
    return canonical(value, field=field)


def to_milliseconds(value: datetime) -> int:
    """Milliseconds since 1970, negative before; exact, because it avoids floating point."""
    delta = value - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000


def from_milliseconds(value: int) -> datetime:
    """The time that `to_milliseconds` gave."""
    return _EPOCH + value * _MILLISECOND


def _whole_milliseconds(value: datetime) -> datetime:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC) - _EPOCH
