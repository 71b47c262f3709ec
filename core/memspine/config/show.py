"""The settings in effect, and where each comes from."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import attrs

from memspine.config.locate import KeyPath, dotted, locate, nearest_line, quoted_key
from memspine.config.schema import TABLES, Config
from memspine.config.secrets import SecretRef


@attrs.frozen(kw_only=True)
class Setting:
    """One setting. `value` is plain data, a secret as its reference; `origin` is "file:line", the name of a mapping,
    or "default"."""

    key: str
    value: Any
    origin: str
    help: str = ""

    @property
    def text(self) -> str:
        """The value as TOML; `unset` where there is none."""
        return toml_text(self.value)


def effective_settings(config: Config) -> list[Setting]:
    """Every setting with its value and origin: the tables of memspine, then the backends in the order of the file."""
    lines = locate(config.source.text) if config.source.text else {}
    settings = [
        _setting(config, lines, path, value, line_of_help)
        for name in TABLES
        for path, value, line_of_help in _fields((name,), getattr(config, name))
    ]
    for backend in config.backends:
        path = ("backends", backend.name)
        settings.append(_setting(config, lines, (*path, "plugin"), backend.plugin, backend.provider.summary))
        settings += [_setting(config, lines, *field) for field in _fields(path, backend.options)]
    return settings


def toml_text(value: object) -> str:
    """Plain data as TOML on one line."""
    if value is None:
        return "unset"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{quoted_key(key)} = {toml_text(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_text, value))}]"
    if isinstance(value, (str, bool)):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def _fields(path: KeyPath, settings: Any) -> Iterator[tuple[KeyPath, object, str]]:
    """Each field, those of nested classes one by one."""
    for field in attrs.fields(type(settings)):
        value = getattr(settings, field.name)
        inner = (*path, field.alias or field.name)
        if attrs.has(type(value)) and not isinstance(value, SecretRef):
            yield from _fields(inner, value)
        else:
            yield inner, value, str(field.metadata.get("help", ""))


def _setting(config: Config, lines: Mapping[KeyPath, int], path: KeyPath, value: object, help: str) -> Setting:
    origin = "default"
    if _is_written(config.document, path):
        line = nearest_line(lines, path)
        origin = config.source.name if line is None else f"{config.source.name}:{line}"
    return Setting(key=dotted(path), value=_plain(value), origin=origin, help=help)


def _is_written(document: Mapping[str, Any], path: KeyPath) -> bool:
    value: Any = document
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, SecretRef):
        return value.as_data()
    if callable(getattr(value, "reveal", None)):
        return "(secret)"
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if attrs.has(type(value)):
        return {field.name: _plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
    return value
