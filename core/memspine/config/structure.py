"""TOML values to attrs values, by the types that their fields declare: strict, and with every problem, not the first.

An own walker, because cattrs coerces by default, drops the field's name from a validator's text, and reports validators
only once all types are right; replacing all three takes more code than this.
"""

from __future__ import annotations

import difflib
import enum
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Union

import attrs

from memspine.config.locate import KeyPath, dotted, locate, nearest_line
from memspine.config.schema import ConfigSource
from memspine.config.secrets import SecretRef, reference_problem
from memspine.contracts import Secret
from memspine.errors import ConfigError, shorten
from memspine.model import Problem


class Invalid(enum.Enum):
    """The type of `INVALID`, which stands for a value that cannot be used; why is among the problems."""

    INVALID = "invalid"


INVALID: Final = Invalid.INVALID

NO_SECRETS: Final = (
    "a file found in the working folder may not refer to secrets; name it with --config or $MEMSPINE_CONFIG"
)


@attrs.define(kw_only=True)
class Structurer:
    """Checks values and collects what is wrong with them as (path, text)."""

    source: ConfigSource
    environ: Mapping[str, str]
    problems: list[tuple[KeyPath, str]] = attrs.field(factory=list)

    def refuse(self, path: KeyPath, text: str) -> Invalid:
        """Note a problem."""
        self.problems.append((path, text))
        return INVALID

    def raise_problems(self) -> None:
        """Raise ConfigError with every problem noted so far, in the order of their lines, if there are any."""
        if self.problems:
            raise ConfigError(located(self.problems, self.source))

    def table(self, path: KeyPath, value: object, cls: type, *, besides: Iterable[str] = ()) -> Any:
        """An instance of an attrs class, or INVALID. The keys in `besides` are known, but not of the class."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            return self.refuse(path, f"expected a table, got {got(value)}")
        try:
            kinds = typing.get_type_hints(cls)
        except (NameError, TypeError) as error:
            return self.refuse(
                path, f"the types of {cls.__qualname__} cannot be resolved: {error}; report it to its author"
            )
        count = len(self.problems)
        fields = options_of(cls)
        self._unknown_keys(path, value, [*fields, *besides])
        given: dict[str, Any] = {}
        for key, field in fields.items():
            if key in value:
                given[key] = self._field_value((*path, key), value[key], field, kinds.get(field.name, Any))
            elif field.default is attrs.NOTHING:
                self.refuse(path, f"missing required key {key!r}")
        self._validate(path, cls, fields, given)
        if len(self.problems) > count:
            return INVALID
        try:
            return cls(**given)
        except (TypeError, ValueError) as error:
            return self.refuse(path, one_line(error))

    def _unknown_keys(self, path: KeyPath, value: Mapping[Any, Any], known: list[str]) -> None:
        for key in value:
            if not isinstance(key, str):
                self.refuse(path, f"keys are texts, got {got(key)}")
            elif key not in known:
                self.refuse((*path, key), "unknown key" + suggestion(key, known))

    def _field_value(self, path: KeyPath, value: object, field: attrs.Attribute[Any], kind: object) -> Any:
        aliases = field.metadata.get("aliases", {})
        if isinstance(value, str) and value in aliases:
            value = aliases[value]
        return self.value(path, value, kind)

    def _validate(
        self, path: KeyPath, cls: type, fields: Mapping[str, attrs.Attribute[Any]], given: Mapping[str, Any]
    ) -> None:
        """Run the validators one by one on an instance of their own: constructing it would stop at the first that fails
        and not say which."""
        probe = _probe(cls, given)
        for key, value in given.items():
            field = fields[key]
            if value is INVALID:
                continue
            try:
                _validate(probe, field, value)
            except (TypeError, ValueError) as error:
                self.refuse((*path, key), one_line(error))
            except AttributeError:
                # A validator that looks at another field, which is invalid or missing and so has its own problem.
                if not self.problems:
                    raise

    def value(self, path: KeyPath, value: object, kind: object) -> Any:
        """A value of the type that is declared, or INVALID."""
        if kind is Any:
            return value
        if kind is Secret:
            return self._secret(path, value)
        if kind is Path:
            return self._path(path, value)
        arguments = typing.get_args(kind)
        match typing.get_origin(kind):
            case None if isinstance(kind, type):
                return self._simple(path, value, kind)
            case origin if origin is Literal:
                return self._choice(path, value, {choice: choice for choice in arguments})
            case origin if origin in {Union, types.UnionType}:
                return self._union(path, value, arguments)
            case origin if origin is tuple:
                return self._tuple(path, value, arguments)
            case origin if origin in {dict, Mapping} and arguments[0] is str:
                return self._mapping(path, value, arguments[1])
        return self._unsupported(path, kind)

    def _simple(self, path: KeyPath, value: object, kind: type) -> Any:
        if attrs.has(kind):
            return self.table(path, value, kind)
        if issubclass(kind, enum.Enum):
            return value if isinstance(value, kind) else self._choice(path, value, {e.value: e for e in kind})
        if kind is float and type(value) in {int, float}:
            return self._float(path, typing.cast("float", value))
        if kind not in {str, int, float, bool}:
            return self._unsupported(path, kind)
        # The exact type: True is an int to Python, but not to the person who wrote it.
        return value if type(value) is kind else self.refuse(path, f"expected {kind.__name__}, got {got(value)}")

    def _float(self, path: KeyPath, value: float) -> float | Invalid:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        return number if math.isfinite(number) else self.refuse(path, f"expected a finite number, got {got(value)}")

    def _path(self, path: KeyPath, value: object) -> Path | Invalid:
        if isinstance(value, Path):
            return value
        if not isinstance(value, str) or not value or "\0" in value:
            return self.refuse(path, f"expected a path, got {got(value)}")
        try:
            return Path(value).expanduser()
        except RuntimeError as error:
            return self.refuse(path, f"{shorten(value)}: {one_line(error)}")

    def _secret(self, path: KeyPath, value: object) -> Any:
        if callable(getattr(value, "reveal", None)):
            return value
        if problem := reference_problem(value):
            return self.refuse(path, problem)
        if self.source.origin == "folder":
            # Whoever can put a file into a folder that the user enters must not get at the user's environment.
            return self.refuse(path, NO_SECRETS)
        reference = typing.cast("Mapping[str, str]", value)
        return SecretRef(
            **reference, key=dotted(path), source=self.source.name, folder=self.source.folder, environ=self.environ
        )

    def _choice(self, path: KeyPath, value: object, choices: Mapping[Any, object]) -> Any:
        for choice, result in choices.items():
            if type(choice) is type(value) and choice == value:
                return result
        names = [choice for choice in choices if isinstance(choice, str)]
        hint = suggestion(value, names) if isinstance(value, str) else ""
        return self.refuse(path, f"expected one of {', '.join(map(repr, choices))}, got {got(value)}{hint}")

    def _union(self, path: KeyPath, value: object, kinds: tuple[object, ...]) -> Any:
        some = [kind for kind in kinds if kind is not types.NoneType]
        if value is None and len(some) < len(kinds):
            return None
        if len(some) == 1:
            return self.value(path, value, some[0])
        for kind in some:
            attempt = Structurer(source=self.source, environ=self.environ)
            result = attempt.value(path, value, kind)
            if not attempt.problems:
                return result
        return self.refuse(path, f"expected {' or '.join(map(named, some))}, got {got(value)}")

    def _tuple(self, path: KeyPath, value: object, kinds: tuple[object, ...]) -> Any:
        if not isinstance(value, (list, tuple)):
            return self.refuse(path, f"expected an array, got {got(value)}")
        if len(kinds) == 2 and kinds[1] is ...:
            kinds = kinds[:1] * len(value)
        elif len(kinds) != len(value):
            return self.refuse(path, f"expected an array of {len(kinds)}, got one of {len(value)}")
        items = tuple(
            self.value((*path, i), item, kind) for i, (item, kind) in enumerate(zip(value, kinds, strict=True))
        )
        return INVALID if INVALID in items else items

    def _mapping(self, path: KeyPath, value: object, kind: object) -> Any:
        if not isinstance(value, Mapping):
            return self.refuse(path, f"expected a table, got {got(value)}")
        items = {key: self.value((*path, key), item, kind) for key, item in value.items()}
        return INVALID if INVALID in items.values() else items

    def _unsupported(self, path: KeyPath, kind: object) -> Invalid:
        return self.refuse(path, f"declared as {named(kind)}, which no configuration can hold; report it to its author")


def options_of(cls: type) -> dict[str, attrs.Attribute[Any]]:
    """The fields of an attrs class by the keys that they have in a table."""
    return {field.alias or field.name: field for field in attrs.fields(cls) if field.init}


def located(problems: Iterable[tuple[KeyPath, str]], source: ConfigSource) -> tuple[Problem, ...]:
    """The problems with their lines, in their order; those of no line last."""
    lines = locate(source.text) if source.text and problems else {}
    found = [
        Problem(source=source.name, line=nearest_line(lines, path), key=dotted(path), text=text)
        for path, text in problems
    ]
    return tuple(sorted(found, key=lambda problem: (problem.line is None, problem.line)))


def got(value: object) -> str:
    """The type and the value, the content of tables and arrays left out: it may hold anything."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, (list, tuple)):
        return "an array"
    return f"{type(value).__name__} {shorten(value)}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'url'?`, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def named(kind: object) -> str:
    """A type as a person calls it."""
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind).replace("typing.", "")


def one_line(error: Exception) -> str:
    """What an error says. attrs' own validators put the field and the value behind the text."""
    text = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _probe(cls: type, given: Mapping[str, Any]) -> object:
    """An instance that nothing has validated, for the validators that look at other fields."""
    probe: object = object.__new__(cls)
    for field in attrs.fields(cls):
        value: Any = given.get(field.alias or field.name, field.default)
        if isinstance(value, typing.cast("type[Any]", attrs.Factory)):
            value = attrs.NOTHING if value.takes_self else value.factory()
        if value is not INVALID and value is not attrs.NOTHING:
            object.__setattr__(probe, field.name, value)
    return probe


def _validate(probe: object, field: attrs.Attribute[Any], value: object) -> None:
    """What the constructor does with one value."""
    if field.converter is not None:
        convert = typing.cast("Callable[..., Any]", field.converter)
        value = convert(value, probe, field) if isinstance(convert, attrs.Converter) else convert(value)
        object.__setattr__(probe, field.name, value)
    if field.validator is not None:
        field.validator(probe, field, value)
