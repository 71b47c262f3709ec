"""Any backend of a configuration by its name, opened alone: as a chain of one, so that its errors are ours."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from memspine.chain import Chain, Member
from memspine.config import BackendSettings, Config, redacted
from memspine.errors import ConfigError
from memspine.journal import Journal
from memspine.model import Problem, canonical_json
from memspine.resources import SharedResources, open_provider


@asynccontextmanager
async def opened_backends(config: Config, *names: str) -> AsyncIterator[tuple[Chain, ...]]:
    """The backends of these names, each as a chain of its own. Raises ConfigError for a name that the configuration
    does not have, or has twice; whatever opening them raises comes with their first call."""
    settings = [_settings(config, name) for name in names]
    if len(set(names)) < len(names):
        raise _refused(config, names[0], "is named as both places; name two")
    resources = SharedResources()
    places = tuple(
        Chain([_member(config, one, resources)], deadline_seconds=config.memory.deadline_seconds) for one in settings
    )
    try:
        yield places
    finally:
        for place in places:
            await place.close()


def _settings(config: Config, name: str) -> BackendSettings:
    try:
        return config.backend(name)
    except KeyError:
        known = ", ".join(backend.name for backend in config.backends) or "none"
        raise _refused(config, name, f"is no backend of the configuration; there are: {known}") from None


def _refused(config: Config, name: str, text: str) -> ConfigError:
    return ConfigError([Problem(source=config.source.name, line=None, key=f"backends.{name}", text=text)])


def _member(config: Config, settings: BackendSettings, resources: SharedResources) -> Member:
    return Member(
        settings.name,
        open=lambda: open_provider(
            settings.provider,
            settings.options,
            name=settings.name,
            config_folder=config.source.folder,
            data_folder=config.data_folder,
            resources=resources,
        ),
        redact=lambda text: redacted(text, settings.options),
    )


def open_journal(config: Config) -> Journal:
    """The journal of a configuration's chain, not opened yet.

    Where no path is configured, its name has that of the primary and a mark of where the configuration stands, or of
    what it says of the primary where it stands nowhere: two chains never share one.
    """
    primary, source = config.primary, config.source
    if config.journal.path:
        path = source.folder / Path(config.journal.path).expanduser()
    else:
        place = str(source.path.resolve()) if source.path is not None else canonical_json(primary.document)
        mark = hashlib.sha256(place.encode()).hexdigest()[:12]
        path = config.data_folder / "journals" / f"{primary.name}-{mark}.db"
    return Journal(path, primary=primary.name, plugin=primary.plugin)
