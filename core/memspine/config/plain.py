"""Settings as plain data, for people and for what is kept of them."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import attrs

from memspine.config.secrets import SecretRef


def plain(value: Any) -> Any:
    """The value as it would be written in TOML; a secret as its reference, or not at all."""
    if isinstance(value, SecretRef):
        return value.as_data()
    if callable(getattr(value, "reveal", None)):
        return "(secret)"
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if attrs.has(type(value)):
        return {field.alias or field.name: plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
    return value


def storable(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table as JSON can hold it: dates as texts, and of what a program passed that is no data only the type."""
    data: dict[str, Any] = json.loads(json.dumps(plain(table), default=_text))
    return data


def _text(value: object) -> str:
    return str(value) if hasattr(value, "isoformat") else f"({type(value).__name__})"
