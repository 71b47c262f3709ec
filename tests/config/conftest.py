"""Plugins for the configuration to check against."""

import enum
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from memspine.contracts import Capability, Provider, Secret
from memspine.hookspecs import hookimpl
from memspine.plugins import PluginEntry, Plugins


class Mode(enum.StrEnum):
    FAST = "fast"
    SAFE = "safe"


@attrs.frozen(kw_only=True)
class Retry:
    attempts: int = attrs.field(default=3, validator=attrs.validators.in_(range(1, 10)), metadata={"help": "how often"})
    pause: float = 0.5


@attrs.frozen(kw_only=True)
class Options:
    """Every type that an option may have."""

    path: Path = Path("notes.db")
    url: str = attrs.field(default="", metadata={"help": "where it is"})
    size: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    ratio: float = 0.5
    on: bool = False
    mode: Mode = Mode.SAFE
    level: Literal["low", "high", 3] = "low"
    tags: tuple[str, ...] = ()
    pair: tuple[int, int] = (0, 0)
    headers: dict[str, str] = attrs.field(factory=dict)
    note: str | None = None
    mixed: int | tuple[str, ...] = 0
    retry: Retry = Retry()
    steps: tuple[Retry, ...] = ()
    api_key: Secret | None = None
    keys: tuple[Secret, ...] = ()
    low: int = 0
    high: int = attrs.field(default=10)
    doubled: int = attrs.field(default=0, converter=lambda value: value * 2)
    anything: Any = None

    @high.validator
    def _above_low(self, attribute, value):
        if value < self.low:
            raise ValueError(f"{value} is below low, which is {self.low}")

    @url.validator
    def _no_spaces(self, attribute, value):
        if " " in value:
            raise TypeError("a URL has no\nspaces")

    def __attrs_post_init__(self):
        if self.on and self.mode is Mode.FAST and not self.url:
            raise ValueError("fast needs a url")


@attrs.frozen(kw_only=True)
class Needs:
    folder: Path
    token: Secret


# What a plugin's author may get wrong: the type is imported for type checkers only.
Odd = attrs.make_class("Odd", {"value": attrs.field(default=0, type="Nowhere")}, frozen=True)


@attrs.frozen
class OddType:
    value: complex = 0j


@attrs.frozen(kw_only=True)
class Model:
    """The options of an embedding source or a reranker."""

    model: str = attrs.field(default="small", metadata={"help": "which model"})
    threads: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    folder: Path | None = None
    api_key: Secret | None = None
    since: Any = None


@attrs.frozen(kw_only=True)
class Named:
    """Options that bear names which memspine has taken."""

    name: str = ""
    enabled: bool = True


@attrs.frozen(kw_only=True)
class Store:
    """The options of a vector store: `path`, `api_key` and `doubled` are also options of the backend."""

    path: Path = Path("vectors.db")
    api_key: Secret | None = None
    doubled: int = attrs.field(default=0, converter=lambda value: value * 2)
    cells: int = attrs.field(default=8, validator=attrs.validators.ge(1), metadata={"help": "how many"})


def provider(name: str, config_type: type, *capabilities: Capability) -> Provider:
    claimed = frozenset(capabilities)
    return Provider(
        name=name, config_type=config_type, open="nowhere:open", summary=f"the {name}", capabilities=claimed
    )


def module_of(*providers: Provider, **others: list[Provider]) -> types.ModuleType:
    """A plugin that offers backends, and others by their kind: `embedding_sources`, `vector_stores`, `rerankers`."""
    module = types.ModuleType("fake_plugin")
    for kind, offered in {"memory_backends": list(providers), **others}.items():
        setattr(module, f"memspine_{kind}", hookimpl(lambda offered=tuple(offered): offered))
    return module


@pytest.fixture
def plugins(monkeypatch) -> Plugins:
    """Backends `sqlite`, `full`, `needs` and `vault` (which may be a replica), two with odd options, and a plugin that
    cannot be imported.

    Of the others: sources `onnx`, `remote` (which needs options) and `named`, stores `sqlite`, `vault` (which does too)
    and `named`, rerankers `onnx` and `judge`.
    """
    modules = {
        "sqlite": module_of(provider("sqlite", Options), vector_stores=[provider("sqlite", Store)]),
        "full": module_of(
            *(provider(*other) for other in [("full", Options), ("needs", Needs), ("odd", Odd), ("odd-type", OddType)])
        ),
        "onnx": module_of(embedding_sources=[provider("onnx", Model)], rerankers=[provider("onnx", Model)]),
        "remote": module_of(embedding_sources=[provider("remote", Needs)], rerankers=[provider("judge", Model)]),
        "vault": module_of(provider("vault", Options, Capability.PUT), vector_stores=[provider("vault", Needs)]),
        "named": module_of(embedding_sources=[provider("named", Named)], vector_stores=[provider("named", Named)]),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, f"fake_{name}", module)
    entries = [PluginEntry(name=name, module=f"fake_{name}", distribution=f"memspine-{name}") for name in modules]
    return Plugins(find=lambda: [*entries, PluginEntry(name="broken", module="fake_module_that_is_not_there")])


@pytest.fixture
def plugins_of(monkeypatch) -> Callable[[str, type], Plugins]:
    """Plugins that have nothing but one backend with these options."""

    def only(name: str, config_type: type) -> Plugins:
        monkeypatch.setitem(sys.modules, "fake_only", module_of(provider(name, config_type)))
        return Plugins(find=lambda: [PluginEntry(name=name, module="fake_only")])

    return only
