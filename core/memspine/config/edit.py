"""Changes one key of a configuration file; comments, order and form of everything else stay as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs

from memspine.config.files import locked, replace_file
from memspine.config.load import check_source, parse, read_source
from memspine.config.locate import dotted, locate, nearest_line, split_key, statements
from memspine.config.schema import ConfigSource, Origin
from memspine.config.show import toml_text
from memspine.config.splice import with_value, without_value
from memspine.config.structure import got
from memspine.errors import ConfigError
from memspine.model import Problem
from memspine.plugins import Plugins

LOCK_SECONDS: Final = 10.0


@attrs.frozen(kw_only=True)
class Change:
    """What was changed: plain values of TOML, None where the key is not there."""

    path: Path
    key: str
    old: Any
    new: Any


def set_value(
    path: str | os.PathLike[str],
    key: str,
    value_text: str,
    *,
    plugins: Plugins,
    environ: Mapping[str, str] | None = None,
    origin: Origin = "option",
    timeout_seconds: float = LOCK_SECONDS,
) -> Change:
    """Write `key = value`; what is no TOML value is taken as a text. The file and its folder are made if missing.

    Raises ConfigError, and leaves the file as it is, when the file cannot be read or the result is no valid
    configuration: its lines are those of the result. `origin` says how the file will be found later.
    """
    keys = _keys(key)
    value, literal = _parsed_value(value_text)

    def edit(source: ConfigSource) -> tuple[str, Any]:
        text, document = _read(source)
        table = _table(document, keys, source)
        old = table.get(keys[-1])
        table[keys[-1]] = value
        for result in with_value(text, tuple(keys), literal, document=document):
            if _parses_as(result, document):
                return result, old
        raise _unchangeable(text, keys, source)

    old = _change(Path(path), edit, plugins=plugins, environ=environ, origin=origin, timeout_seconds=timeout_seconds)
    return Change(path=Path(path), key=dotted(tuple(keys)), old=old, new=value)


def unset_value(
    path: str | os.PathLike[str],
    key: str,
    *,
    plugins: Plugins,
    environ: Mapping[str, str] | None = None,
    origin: Origin = "option",
    timeout_seconds: float = LOCK_SECONDS,
) -> Change:
    """Remove a key or a table, so that its default holds; nothing is written when it is not there.

    Raises ConfigError as `set_value` does.
    """
    keys = _keys(key)

    def edit(source: ConfigSource) -> tuple[str, Any]:
        text, document = _read(source)
        if not _is_there(document, keys):
            return text, None
        old = _table(document, keys, source).pop(keys[-1])
        result = without_value(text, tuple(keys), document=document)
        if not _parses_as(result, document):
            raise _unchangeable(text, keys, source)
        return result, old

    old = _change(Path(path), edit, plugins=plugins, environ=environ, origin=origin, timeout_seconds=timeout_seconds)
    return Change(path=Path(path), key=dotted(tuple(keys)), old=old, new=None)


def _change(
    path: Path,
    edit: Callable[[ConfigSource], tuple[str, Any]],
    *,
    plugins: Plugins,
    environ: Mapping[str, str] | None,
    origin: Origin,
    timeout_seconds: float,
) -> Any:
    """Read, edit, check, write under the lock; the old value."""
    target = Path(os.path.realpath(path))  # a link is followed, not replaced

    def prepared() -> tuple[str, str, Any]:
        source = _source(target, origin=origin, name=str(path))
        text, old = edit(source)
        check_source(attrs.evolve(source, text=text), plugins=plugins, environ=environ)
        return source.text or "", text, old

    try:
        if not target.parent.exists():
            before, after, old = prepared()  # so that a mistake makes no folder
            if after == before:
                return old
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(target, timeout_seconds=timeout_seconds):
            before, after, old = prepared()
            if after != before:
                if target.exists() and not os.access(target, os.W_OK):
                    raise _failed(str(path), "cannot be written: it is read-only")
                replace_file(target, after.encode())
    except TimeoutError as error:
        raise _failed(str(path), f"{error}; try again") from None
    except OSError as error:
        raise _failed(str(path), f"cannot be written: {error.strerror or error}") from error
    return old


def _source(target: Path, *, origin: Origin, name: str) -> ConfigSource:
    if os.path.lexists(target):
        return read_source(target, origin=origin, name=name)
    return ConfigSource(path=target, origin=origin, folder=target.parent, name=name, text="")


def _read(source: ConfigSource) -> tuple[str, dict[str, Any]]:
    text = source.text or ""
    return text, parse(text, name=source.name)


def _table(document: dict[str, Any], keys: list[str], source: ConfigSource) -> dict[str, Any]:
    """The table that holds the last of the keys, made if missing."""
    table: Any = document
    for depth, key in enumerate(keys[:-1], 1):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise _failed(source.name, f"expected a table, got {got(table)}", keys=keys[:depth])
    return cast("dict[str, Any]", table)


def _parsed_value(text: str) -> tuple[Any, str]:
    """The plain value, and how to write it: as it was given if that is one value of TOML, else as a text."""
    import tomllib

    text = text.strip()
    line = f"value = {text}"
    try:
        document = tomllib.loads(line)
    except (ValueError, RecursionError):
        return text, toml_text(text)
    if len(document) == 1 and statements(line)[0].end == len(line):
        return document["value"], text
    return text, toml_text(text)


def _parses_as(text: str, document: dict[str, Any]) -> bool:
    try:
        return _is_same(_filled(parse(text, name="")), _filled(document))
    except ConfigError:
        return False


def _unchangeable(text: str, keys: list[str], source: ConfigSource) -> ConfigError:
    line = nearest_line(locate(text), tuple(keys))
    return _failed(source.name, "cannot be changed where it is written; change it by hand", line=line, keys=keys)


def _keys(key: str) -> list[str]:
    try:
        return split_key(key)
    except ValueError:
        raise _failed("key", f"{key!r} is no key of TOML; expected a form like retrieval.max_tokens") from None


def _is_there(document: Any, keys: list[str]) -> bool:
    for key in keys:
        if not isinstance(document, Mapping) or key not in document:
            return False
        document = document[key]
    return True


def _filled(document: dict[str, Any]) -> dict[str, Any]:
    """Without empty tables: one that only its contents implied goes with the last of them, and means nothing."""
    tables = {key: _filled(value) if isinstance(value, dict) else value for key, value in document.items()}
    return {key: value for key, value in tables.items() if value != {}}


def _is_same(one: Any, other: Any) -> bool:
    """Equal in types too: 1, 1.0 and true are not the same, nan is itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


def _failed(name: str, text: str, *, line: int | None = None, keys: list[str] | None = None) -> ConfigError:
    return ConfigError([Problem(source=name, line=line, key=dotted(tuple(keys or ())), text=text)])
