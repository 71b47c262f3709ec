"""Any backend of a configuration by its name, opened alone: as a chain of one, so that its errors are ours."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

from memspine.chain import Chain, Member
from memspine.chain.journals import chain_journal
from memspine.closing import close_all
from memspine.config import BackendSettings, Config, redacted
from memspine.contracts import MemoryBackend
from memspine.errors import ConfigError
from memspine.model import Problem
from memspine.resources import SharedResources, open_provider

T = TypeVar("T")


class _Noted(SharedResources):
    """The resources of all places, with a note of those that one place holds."""

    def __init__(self, shared: SharedResources) -> None:
        self._shared = shared
        self.keys: set[str] = set()

    async def acquire(self, key: str, open: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """The resource of this key."""
        self.keys.add(key)
        return await self._shared.acquire(key, open)

    async def release(self, key: str) -> None:
        """Give one holding back."""
        await self._shared.release(key)


@asynccontextmanager
async def opened_backends(config: Config, *names: str) -> AsyncIterator[tuple[Chain, ...]]:
    """The backends of these names, each as a chain of its own. Raises ConfigError for a name that the configuration
    does not have, or has twice, and for two names of one store; and whatever opening them raises."""
    settings = [_settings(config, name) for name in names]
    if len(set(names)) < len(names):
        raise _refused(config, names[0], "is named as both places; name two")
    for one, other in itertools.combinations(settings, 2):
        if one.is_store_of(other, config.folders):
            raise _same(config, one, other)
    shared = SharedResources()
    resources = [_Noted(shared) for _ in settings]
    places = tuple(
        Chain(
            [_member(config, one, noted)],
            deadline_seconds=config.memory.deadline_seconds,
            left=chain_journal(config) if one.name == config.primary.name else None,
        )
        for one, noted in zip(settings, resources, strict=True)
    )
    try:
        for place in places:
            await place.call_primary("open", _nothing)
        for (one, mine), (other, others) in itertools.combinations(zip(settings, resources, strict=True), 2):
            if mine.keys & others.keys:
                raise _same(config, one, other)
        yield places
    finally:
        await close_all(place.close() for place in places)


def _same(config: Config, one: BackendSettings, other: BackendSettings) -> ConfigError:
    return _refused(config, other.name, f"is the same store as {one.name!r} under another name; name two")


async def _nothing(_: MemoryBackend) -> None:
    """Enough to have a backend opened."""


def _settings(config: Config, name: str) -> BackendSettings:
    try:
        return config.backend(name)
    except KeyError:
        known = ", ".join(backend.name for backend in config.backends) or "none"
        raise _refused(config, name, f"is no backend of the configuration; there are: {known}") from None


def _refused(config: Config, name: str, text: str) -> ConfigError:
    return ConfigError([Problem(source=config.source.name, line=None, key=f"backends.{name}", text=text)])


def _member(config: Config, settings: BackendSettings, resources: SharedResources) -> Member:
    lean = settings.provider.lean
    options = settings.options if lean is None else lean(settings.options)
    return Member(
        settings.name,
        open=lambda: open_provider(
            settings.provider,
            options,
            name=settings.name,
            config_folder=config.source.folder,
            data_folder=config.data_folder,
            resources=resources,
        ),
        redact=lambda text: redacted(text, settings.options),
    )
