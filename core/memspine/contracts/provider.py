"""How a plugin offers what it has, and what it gets when it opens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import attrs

from memspine.contracts.capability import Capability

CONTRACT: int = 0
"""The number of the contracts in this package: 0 while they are being proven, then raised for what is incompatible."""

T = TypeVar("T")
C = TypeVar("C")


class Secret(Protocol):
    """A credential that the configuration names by reference; its repr never shows it."""

    def reveal(self) -> str:
        """The credential. Raises ConfigError when the variable or file is missing."""
        ...


@attrs.frozen(kw_only=True)
class Folders:
    """Where the paths of a configuration start, and where a plugin keeps files when it names none."""

    config_folder: Path
    data_folder: Path


class Context(Protocol):
    """What the kernel gives a provider when it opens."""

    name: str
    """The name that the configuration gives this instance."""
    config_folder: Path
    """Where relative paths of the configuration start."""
    data_folder: Path
    """Where the plugin may keep files when the configuration names none."""

    async def shared(self, key: str, open: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """One reference-counted resource for all who ask with the same key; closed when the last of them closes."""
        ...


@attrs.frozen(kw_only=True)
class Provider(Generic[T, C]):
    """What a plugin offers: a name, how its table in the TOML is checked, and how it is opened.

    `open` is a callable, or its address "module:attribute" (resolved at first use, so that registering imports
    nothing heavy). It takes the checked configuration and a Context and gives an async context manager: constructing
    does no I/O, entering opens, leaving closes everything.
    """

    name: str
    config_type: type[C]
    open: str | Callable[[C, Context], AbstractAsyncContextManager[T]]
    capabilities: frozenset[Capability] = frozenset()
    lean: Callable[[C], C] | None = None
    """The same options for a process that goes through all memories once and remembers none of them: small caches."""
    place: Callable[[C, Folders], object] | None = None
    """What of the options says which store it is, for good and from wherever it is named: paths are absolute. Two
    backends for which it is equal are one store under two names. A text, or the text that a tuple begins with, is shown
    to people and holds no credential. None: the options as a whole."""
    contract: int = CONTRACT
    summary: str = ""
    distribution: str = ""
    """Filled in by the kernel when it loads the plugin: the distribution and its version, for messages."""
