"""The embedding sources of a configuration: which one is used and why, each opened once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import attrs

from memspine.breaker import Breaker
from memspine.closing import close_all
from memspine.config import Config, SourceSettings, redacted, source_from_mapping
from memspine.config.schema import AUTO, NONE
from memspine.contracts import EmbeddingSource, Space
from memspine.embedding.cache import EmbeddingCache
from memspine.embedding.embedder import Embedder
from memspine.errors import ConfigError, EmbeddingError, PluginError, UnknownPluginError
from memspine.model import canonical_json
from memspine.ondemand import OnDemand
from memspine.plugins import Plugins

LOCAL: Final = ("static", "onnx")
"""The sources that `auto` falls back on, in order: they need no key and no network."""

Open = Callable[[SourceSettings], AbstractAsyncContextManager[EmbeddingSource]]


@attrs.frozen(kw_only=True)
class Chosen:
    """A source that was chosen, and why; no embedder when there is none. `document` is its configuration as a space
    keeps it."""

    name: str
    reason: str
    embedder: Embedder | None = None
    document: Mapping[str, Any] = attrs.field(factory=dict)


class Sources:
    """Resolves and opens sources. Those with the same configuration are one."""

    def __init__(self, config: Config, plugins: Plugins, *, open: Open) -> None:
        settings = config.embedding
        self.cache = EmbeddingCache(entries=settings.cache_entries, seconds=settings.cache_seconds)
        self._config = config
        self._plugins = plugins
        self._open = open
        self._embedders: dict[str, Embedder] = {}
        self._configured: Chosen | None = None
        self._fallback: Chosen | None = None

    def configured(self) -> Chosen:
        """The source that the configuration asks for, or the reason why there is none."""
        if self._configured is None:
            wanted = self._config.embedding.source
            self._configured = self._automatic() if wanted == AUTO else self._named(wanted, "the configuration says so")
        return self._configured

    def fallback(self) -> Chosen | None:
        """The source that stands in for the configured one; None when the configuration names none."""
        if self._fallback is None and (name := self._config.embedding.fallback):
            self._fallback = self._named(name, "the fallback of the configuration")
        return self._fallback

    def of_space(self, space: Space) -> Embedder:
        """The source that made a space, from the configuration that the space keeps. Raises EmbeddingError."""
        try:
            settings = source_from_mapping(space.source, config=self._config, plugins=self._plugins)
        except (ConfigError, PluginError) as error:
            name = str(space.source.get("name", "?"))
            reason = f"the active vectors are of {space.identity.model!r}, whose source cannot be opened: {error}"
            raise EmbeddingError(name, reason, expected="its plugin and its options", kind="config") from error
        return self._embedder(settings)

    async def close(self) -> None:
        """Close all that were opened. Raises the first error, after all were closed."""
        await close_all(embedder.close() for embedder in self._embedders.values())

    # ── inside ──

    def _automatic(self) -> Chosen:
        """Whatever is configured beyond the local sources, else the first of those that is installed."""
        for settings in self._config.sources:
            if settings.plugin not in LOCAL and settings.name != self._config.embedding.fallback:
                return self._chosen(settings, f"[embedding.{settings.name}] is configured")
        installed = {entry.name for entry in self._plugins.entries()}
        for name in LOCAL:
            if name in installed or any(settings.name == name for settings in self._config.sources):
                return self._named(name, f"no other source is configured, and memspine-{name} is installed")
        return Chosen(name=NONE, reason='no embedding source is installed; pip install "memspine[local]"')

    def _named(self, name: str, reason: str) -> Chosen:
        if name == NONE:
            return Chosen(name=NONE, reason='the configuration says source = "none"')
        try:
            settings = self._config.embedding_source(name)
        except KeyError:
            try:
                settings = source_from_mapping({"plugin": name}, config=self._config, plugins=self._plugins)
            except (ConfigError, PluginError, UnknownPluginError) as error:
                return Chosen(name=NONE, reason=str(error))
        return self._chosen(settings, reason)

    def _chosen(self, settings: SourceSettings, reason: str) -> Chosen:
        return Chosen(name=settings.name, reason=reason, embedder=self._embedder(settings), document=settings.stored)

    def _embedder(self, settings: SourceSettings) -> Embedder:
        key = canonical_json(settings.stored)
        if key not in self._embedders:
            member = OnDemand(
                settings.name,
                open=lambda: self._open(settings),
                redact=lambda text: redacted(text, settings.options),
            )
            self._embedders[key] = Embedder(member, cache=self.cache, breaker=Breaker())
        return self._embedders[key]
