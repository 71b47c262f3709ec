"""Which store a backend is: told from its options, and the same wherever and under whatever name they are written."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from memspine.config.secrets import SecretRef
from memspine.contracts import Folders, Provider
from memspine.model import canonical_json

SECRET_ROUNDS: Final = 50_000
"""A mark may be seen by others, so that guessing a credential by it has to be slow."""


@attrs.frozen(kw_only=True)
class StoreIdentity:
    """Which store a backend is: `mark` is a SHA-256 in hexadecimal that only names of this store have. `place` is how a
    person knows it, empty where its plugin says nothing that may be shown."""

    mark: str
    place: str = attrs.field(default="", eq=False)


def store_identity(provider: Provider[Any, Any], options: object, folders: Folders) -> StoreIdentity:
    """Which store these options of a provider name.

    A credential that is referred to counts as its reference, so that a renewed one makes no other store.
    """
    if provider.place is None:
        # Nobody says which of the options are paths: so they hold from this folder alone.
        place: object = ("", str(folders.config_folder.absolute()), options)
    else:
        place = provider.place(options, folders)
    first = place[0] if isinstance(place, tuple) and place else place
    text = canonical_json([provider.name, _plain(place, folders)])
    return StoreIdentity(
        mark=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        place=first if isinstance(first, str) else "",
    )


def _plain(value: Any, folders: Folders) -> object:
    """A value as JSON can hold it: equal values are equal, in every process."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, Path):
        return str((folders.config_folder / value).absolute())
    if isinstance(value, SecretRef):
        return {"env": value.env} if value.env else {"file": _plain(value.folder / value.file, folders)}
    if callable(getattr(value, "reveal", None)):
        return _marked(value.reveal())
    if isinstance(value, Mapping):
        return {str(key): _plain(item, folders) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, folders) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item, folders) for item in value), key=canonical_json)
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return {field.name: _plain(getattr(value, field.name), folders) for field in fields if field.eq}
    # One without a repr of its own shows an address, which another process does not have.
    has_none = getattr(type(value), "__repr__", None) is object.__repr__
    return type(value).__qualname__ if has_none else repr(value)


def _marked(secret: str) -> str:
    """What stands for a credential that a program passed: there is no reference to tell it by."""
    return hashlib.pbkdf2_hmac("sha256", secret.encode("utf-8", "surrogatepass"), b"memspine", SECRET_ROUNDS).hex()
