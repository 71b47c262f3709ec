"""What is measured: rows of settings, keys that are overridden, keys whose values are tuned."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from memspine_bench.errors import RequestError
from memspine_bench.tuning import Values

Document = Mapping[str, Any]
"""A configuration as the tables of a TOML file."""


@attrs.frozen(kw_only=True)
class Setting:
    """One way of finding memories: what it changes of a configuration, and whether it needs an embedding source.

    `is_fused` says that it makes one order of words and meaning, so that it has two legs to be compared with.
    """

    name: str
    help: str
    changes: Document
    uses_source: bool = True
    is_fused: bool = False


_WORDS: Final = {"vectors": {"enabled": False}}

SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            name="keyword",
            help="words alone",
            changes={**_WORDS, "retrieval": {"strategy": "hybrid"}},
            uses_source=False,
        ),
        Setting(
            name="keyword-plain",
            help="words alone, neighbours and session not counted",
            changes={**_WORDS, "retrieval": {"strategy": "hybrid", "context": False}},
            uses_source=False,
        ),
        Setting(
            name="hybrid",
            help="words and meaning, fused as configured",
            changes={"retrieval": {"strategy": "hybrid"}},
            is_fused=True,
        ),
        Setting(name="vectors", help="meaning alone", changes={"retrieval": {"strategy": "semantic"}}),
        Setting(
            name="rrf",
            help="words and meaning, fused by their ranks",
            changes={"retrieval": {"strategy": "hybrid", "fusion": "rrf"}},
            is_fused=True,
        ),
        Setting(
            name="weighted",
            help="words and meaning, fused by their plain scores",
            changes={"retrieval": {"strategy": "hybrid", "fusion": "weighted"}},
            is_fused=True,
        ),
    )
}
ALL_SETTINGS: Final = "all"
KEYWORD_LEG: Final = "keyword"
VECTOR_LEG: Final = "vectors"
DEFAULT_SETTINGS: Final = ("hybrid",)


def chosen_settings(names: Iterable[str | Setting]) -> tuple[Setting, ...]:
    """The settings of these names, each once. Raises RequestError."""
    chosen: dict[str, Setting] = {}
    for name in names:
        if isinstance(name, Setting):
            chosen[name.name] = name
        elif name == ALL_SETTINGS:
            chosen |= SETTINGS
        elif name in SETTINGS:
            chosen[name] = SETTINGS[name]
        else:
            known = [*SETTINGS, ALL_SETTINGS]
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise RequestError(f"no settings are called {name!r}; there are {', '.join(known)}{hint}")
    if not chosen:
        raise RequestError("no settings are named, so there is nothing to measure")
    return tuple(chosen.values())


def with_legs(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """The settings, and the two legs if one of them is `hybrid`."""
    names = {setting.name for setting in settings}
    legs = (KEYWORD_LEG, VECTOR_LEG) if "hybrid" in names else ()
    return (*settings, *(SETTINGS[leg] for leg in legs if leg not in names))


def merged(document: Document, *changes: Document) -> dict[str, Any]:
    """The document with tables of later ones laid over it; nothing is changed in place."""
    result = dict(document)
    for change in changes:
        for key, value in change.items():
            below = result.get(key)
            both = isinstance(value, Mapping) and isinstance(below, Mapping)
            result[key] = merged(below, value) if both and below is not None else value
    return result


def override(text: str) -> dict[str, Any]:
    """The document that one `KEY=VALUE` is. Raises RequestError."""
    key, values = _split(text)
    return nested(key, _value(values, text))


def tuned(text: str) -> tuple[str, tuple[Any, ...]]:
    """The key and the values of one `KEY=VALUE,VALUE…`. Raises RequestError."""
    key, values = _split(text)
    parsed = _parsed(f"[{values}]")
    # Words without quotes are no TOML, but what a person writes first.
    found = parsed if isinstance(parsed, list) else [_value(value.strip(), text) for value in values.split(",")]
    if not found:
        raise RequestError(f"{text!r} names no value; expected KEY=VALUE,VALUE…")
    return key, tuple(found)


def nested(key: str, value: object) -> dict[str, Any]:
    """The document in which a dotted key has a value."""
    import tomllib

    try:
        document = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{key!r} is no key of a configuration such as retrieval.vector_weight") from error
    return _with_leaf(document, value)


def grid(tuning: Mapping[str, Sequence[Any]]) -> tuple[Values, ...]:
    """Every combination of the values, those of the last key changing fastest; empty where nothing is tuned."""
    if not tuning:
        return ()
    return tuple(dict(zip(tuning, values, strict=True)) for values in itertools.product(*tuning.values()))


def _with_leaf(document: Mapping[str, Any], value: object) -> dict[str, Any]:
    return {name: _with_leaf(below, value) if isinstance(below, Mapping) else value for name, below in document.items()}


def _split(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip() or not value.strip():
        raise RequestError(f"{text!r} is no setting; expected KEY=VALUE such as retrieval.vector_weight=0.6")
    return key.strip(), value.strip()


def _value(text: str, whole: str) -> Any:
    """A value of TOML; one word that is none is a text, as `memspine config set` takes it."""
    parsed = _parsed(text)
    if parsed is not None:
        return parsed
    if any(character in text for character in "[]{}\"'\n="):
        raise RequestError(f"{whole!r}: {text!r} is no value of TOML")
    return text


def _parsed(text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return None
