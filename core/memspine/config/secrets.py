"""Credentials, which a configuration names but never holds."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from memspine.config.locate import KeyPath
from memspine.errors import ConfigError
from memspine.model import Problem

HOW_TO_REFER: Final = 'write { env = "NAME" } or { file = "path" }'
SECRET_BYTES_MAX: Final = 64 * 1024

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen(kw_only=True, repr=False)
class SecretRef:
    """Where a credential is: exactly one of `env`, a variable, and `file`, a path relative to the configuration.

    It fulfils `memspine.contracts.Secret`. `source` and `key` say where the reference stands, for problems.
    """

    env: str = ""
    file: str = ""
    key: str = attrs.field(default="", eq=False)
    source: str = attrs.field(default="configuration", eq=False)
    folder: Path = attrs.field(factory=Path)
    environ: Mapping[str, str] = attrs.field(factory=lambda: os.environ, eq=False)

    def __repr__(self) -> str:
        return f"SecretRef({self.as_toml()})"

    def as_data(self) -> dict[str, str]:
        """The reference as the table that was written."""
        return {"env": self.env} if self.env else {"file": self.file}

    def as_toml(self) -> str:
        """The reference as TOML."""
        import json

        ((kind, name),) = self.as_data().items()
        return f"{{ {kind} = {json.dumps(name, ensure_ascii=False)} }}"

    def reveal(self) -> str:
        """The credential. Raises ConfigError when the variable is not set or the file cannot be read."""
        value = self._read() if self.file else self.environ.get(self.env, "")
        if not value:
            self._refuse(f"file {self.file!r} is empty" if self.file else f"variable {self.env!r} is not set or empty")
        return value

    def _read(self) -> str:
        try:
            path = self.folder / Path(self.file).expanduser()
            with path.open("rb") as file:
                content = file.read(SECRET_BYTES_MAX + 1)
            text = content.decode()
        except UnicodeDecodeError:
            # Not chained: the error that it would show holds the content.
            text, content = "", b""
            reason = "is not UTF-8"
        except (OSError, RuntimeError, ValueError) as error:
            content, text = b"", ""
            reason = f"cannot be read: {_reason(error)}"
        else:
            reason = f"is larger than {SECRET_BYTES_MAX} bytes" if len(content) > SECRET_BYTES_MAX else ""
        if reason:
            self._refuse(f"file {self.file!r} {reason}")
        return text.removesuffix("\n").removesuffix("\r")

    def _refuse(self, text: str) -> None:
        raise ConfigError([Problem(source=self.source, line=None, key=self.key, text=f"the secret's {text}")])


def reference_problem(value: object) -> str:
    """What keeps a value from being a reference, without showing it; empty if nothing does."""
    if not isinstance(value, Mapping):
        return f"a secret is never written down here; {HOW_TO_REFER}"
    if len(value) != 1 or not value.keys() <= {"env", "file"}:
        return f"a reference to a secret has exactly one key, 'env' or 'file'; {HOW_TO_REFER}"
    ((kind, name),) = value.items()
    if not isinstance(name, str) or not name or "\0" in name:
        return f"expected the name of the secret's {'variable' if kind == 'env' else 'file'}; {HOW_TO_REFER}"
    if kind == "env" and not _VARIABLE.fullmatch(name):
        # Not shown: it may be the secret itself, written at the wrong place.
        return f"'env' is not the name of an environment variable (letters, digits, underscores); {HOW_TO_REFER}"
    return ""


def _reason(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)


def references(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, SecretRef]]:
    """The references to secrets in a value and below it, each with where it stands."""
    if isinstance(value, SecretRef):
        yield path, value
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            yield from references((*path, field.alias or field.name), getattr(value, field.name))
    elif isinstance(value, (tuple, dict)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from references((*path, key), item)


def redacted(text: str, options: object) -> str:
    """The text without the credentials that these options refer to, should any stand in it.

    For text that a plugin wrote, which may quote a header or a URL.
    """
    for _, secret in references((), options):
        with contextlib.suppress(ConfigError):
            text = text.replace(secret.reveal(), "***")
    return text
