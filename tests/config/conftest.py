"""Plugins for the configuration to check against."""

import enum
import sys
import types
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from memspine.contracts import Provider, Secret
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


def provider(name: str, config_type: type) -> Provider:
    return Provider(name=name, config_type=config_type, open="nowhere:open", summary=f"the {name}")


def module_of(*providers: Provider) -> types.ModuleType:
    module = types.ModuleType("fake_plugin")

    @hookimpl
    def memspine_memory_backends():
        return providers

    module.memspine_memory_backends = memspine_memory_backends
    return module


@pytest.fixture
def plugins(monkeypatch) -> Plugins:
    """Backends `sqlite`, `full` and `needs`, two with odd options, and a plugin that cannot be imported."""
    monkeypatch.setitem(sys.modules, "fake_sqlite", module_of(provider("sqlite", Options)))
    others = [("full", Options), ("needs", Needs), ("odd", Odd), ("odd-type", OddType)]
    monkeypatch.setitem(sys.modules, "fake_full", module_of(*(provider(*other) for other in others)))
    names = {"sqlite": "fake_sqlite", "full": "fake_full", "broken": "fake_module_that_is_not_there"}
    return Plugins(find=lambda: [PluginEntry(name=name, module=module) for name, module in names.items()])
