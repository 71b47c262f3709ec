"""[vectors]: one table for the settings of memspine and the options of the store's plugin."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import attrs

from memspine.config.instances import BACKENDS, Family, check_options
from memspine.config.schema import DEFAULT_BACKEND, BackendSettings, Config, StoreSettings, VectorSettings
from memspine.config.structure import Structurer, options_of, suggestion
from memspine.contracts import Provider, VectorStore
from memspine.errors import PluginError, UnknownPluginError
from memspine.plugins import PluginEntry, Plugins

_TABLE: Final = "vectors"
_STORE: Final = Family(
    table=_TABLE,
    noun="store",
    kind="vector store",
    find=Plugins.vector_store,
    settings=StoreSettings,
    beside=tuple(options_of(VectorSettings)),
)


def vector_store(config: Config, *, plugins: Plugins, environ: Mapping[str, str] | None = None) -> StoreSettings | None:
    """Where vectors are kept: what [vectors] names, else the primary's own store, else sqlite in the data folder.

    None where vectors are switched off or no such plugin is installed. Raises ConfigError if the store's options lack
    what it needs. This is not done by `load_config`, because it may have to load a plugin that nothing names.
    """
    if not config.vectors.enabled or config.store:
        return config.store if config.vectors.enabled else None
    provider = _default(config.primary, plugins)
    if provider is None:
        return None
    structurer = Structurer(source=config.source, environ=os.environ if environ is None else environ)
    store = _checked(structurer, provider, {}, primary=config.primary, document=config.document)
    structurer.raise_problems()
    return store


def check_vectors(
    structurer: Structurer, document: Mapping[str, Any], *, primary: BackendSettings | None, plugins: Plugins
) -> tuple[Any, StoreSettings | None]:
    """The settings in [vectors], and the store if the table names one or holds options of one."""
    written = document.get(_TABLE, {})
    known = options_of(VectorSettings)
    options: dict[str, Any] = {}
    if isinstance(written, Mapping):
        options = {key: value for key, value in written.items() if key not in known}
        written = {key: value for key, value in written.items() if key in known}
    settings = structurer.table((_TABLE,), written, VectorSettings)
    plugin = written.get("plugin", "") if isinstance(written, Mapping) else getattr(written, "plugin", "")
    provider: Provider[VectorStore, Any] | None = None
    if plugin and isinstance(plugin, str):
        try:
            provider = plugins.vector_store(plugin)
        except (UnknownPluginError, PluginError) as error:
            structurer.refuse((_TABLE, "plugin"), str(error))
    elif options and primary and plugin == "":
        provider = _default(primary, plugins)
        if provider is None:
            _refuse_options(structurer, options, known)
    if provider is None:
        return settings, None
    return settings, _checked(structurer, provider, options, primary=primary, document=document)


def _refuse_options(structurer: Structurer, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for key in options:
        text = f"unknown key{suggestion(str(key), known)}; no vector store is installed that could know it"
        structurer.refuse((_TABLE, str(key)), text)


def _default(primary: BackendSettings, plugins: Plugins) -> Provider[VectorStore, Any] | None:
    """The store of the primary's own plugin, else sqlite. No other plugin is loaded to find out that it has none."""

    def is_primarys(entry: PluginEntry) -> bool:
        return f"{entry.distribution} {entry.version}" == primary.provider.distribution

    own = Plugins(lambda: [entry for entry in plugins.entries() if is_primarys(entry)])
    sqlite = Plugins(lambda: [entry for entry in plugins.entries() if entry.name == DEFAULT_BACKEND])
    for some, name in ((own, primary.plugin), (sqlite, DEFAULT_BACKEND)):
        try:
            return some.vector_store(name)
        except (UnknownPluginError, PluginError):
            continue  # a default is for those who have it; `memspine doctor` tells what does not load
    return None


def _checked(
    structurer: Structurer,
    provider: Provider[VectorStore, Any],
    options: Mapping[str, Any],
    *,
    primary: BackendSettings | None,
    document: Mapping[str, Any],
) -> StoreSettings:
    """The store with these options and those that it shares with the primary, so that both use the same file."""
    inherited = _inherited(provider, options, primary=primary, document=document)
    attempt = Structurer(source=structurer.source, environ=structurer.environ)
    store = check_options(
        attempt, _STORE, (_TABLE,), {**inherited, **options}, provider=provider, plugin=provider.name, name=_TABLE
    )
    for path, text in attempt.problems:
        # What is inherited is wrong where it is written, which may have been noted.
        place = ("backends", primary.name, *path[1:]) if primary and path[1:2] and path[1] in inherited else path
        if (place, text) not in structurer.problems:
            structurer.refuse(place, text)
    return attrs.evolve(store, inherited=tuple(inherited))


def _inherited(
    provider: Provider[Any, Any],
    options: Mapping[str, Any],
    *,
    primary: BackendSettings | None,
    document: Mapping[str, Any],
) -> dict[str, Any]:
    """What is written for the primary and has the name of an option of the store.

    As it was written, not as it was checked: what a converter has made is not for a second one.
    """
    if primary is None or primary.plugin != provider.name:
        return {}
    shared = options_of(provider.config_type).keys() - options.keys() - {*_STORE.beside, *BACKENDS.beside}
    table = document.get("backends", {}).get(primary.name, {})
    return {key: value for key, value in table.items() if key in shared}
