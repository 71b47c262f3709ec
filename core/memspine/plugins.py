"""Finds plugins through entry points and loads each inside its own guard: one that fails takes nothing else down."""

from __future__ import annotations

import difflib
import importlib
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

import attrs
import pluggy

from memspine import hookspecs
from memspine.contracts import (
    CONTRACT,
    Context,
    EmbeddingSource,
    Importer,
    ImportSource,
    Injector,
    MemoryBackend,
    Model,
    Provider,
    Reranker,
    SourceItem,
    VectorStore,
)
from memspine.errors import ContractMismatchError, PluginError, PluginLoadError, UnknownPluginError, describe

if TYPE_CHECKING:
    from importlib import metadata

P = ParamSpec("P")
T = TypeVar("T")

HOOKS: Final = {
    "memory backend": "memspine_memory_backends",
    "embedding source": "memspine_embedding_sources",
    "vector store": "memspine_vector_stores",
    "injector": "memspine_injectors",
    "reranker": "memspine_rerankers",
}
"""The hook that registers each kind of provider."""

MODELS_HOOK: Final = "memspine_models"
IMPORTERS_HOOK: Final = "memspine_importers"


@attrs.frozen(kw_only=True)
class PluginEntry:
    """An entry point of the group `memspine`, not loaded yet."""

    name: str
    module: str
    distribution: str = "unknown distribution"
    version: str = "?"

    @classmethod
    def of(cls, entry: metadata.EntryPoint) -> PluginEntry:
        """From what importlib.metadata found."""
        if entry.dist is None:
            return cls(name=entry.name, module=entry.value)
        return cls(name=entry.name, module=entry.value, distribution=entry.dist.name, version=entry.dist.version)


@attrs.frozen(kw_only=True)
class Plugin:
    """A loaded plugin: its entry, what it offers by kind, the models that can be fetched for it, and its importers."""

    entry: PluginEntry
    providers: dict[str, tuple[Provider[Any, Any], ...]]
    models: tuple[Model, ...] = ()
    importers: tuple[Importer, ...] = ()


def installed_entries() -> tuple[PluginEntry, ...]:
    """Every plugin installed for this Python, by name; none is imported."""
    from importlib import metadata

    found = metadata.entry_points(group=hookspecs.PROJECT)
    return tuple(sorted((PluginEntry.of(entry) for entry in found), key=lambda e: (e.name, e.distribution)))


class Plugins:
    """The plugins of one manager or command. Nothing is loaded before it is asked for; failures are kept."""

    def __init__(self, find: Callable[[], Sequence[PluginEntry]] = installed_entries) -> None:
        self._find = find
        self._entries: tuple[PluginEntry, ...] | None = None
        self._loaded: dict[PluginEntry, Plugin | PluginError] = {}

    def entries(self) -> tuple[PluginEntry, ...]:
        """What is installed."""
        if self._entries is None:
            self._entries = tuple(self._find())
        return self._entries

    def load_all(self) -> tuple[Plugin | PluginError, ...]:
        """Every installed plugin, loaded, or the error that keeps it from being used."""
        return tuple(self._load(entry) for entry in self.entries())

    def failures(self) -> tuple[PluginError, ...]:
        """The errors of those loaded so far."""
        return tuple(plugin for plugin in self._loaded.values() if isinstance(plugin, PluginError))

    def memory_backend(self, name: str) -> Provider[MemoryBackend, Any]:
        """The backend of this name. Raises UnknownPluginError, PluginLoadError, ContractMismatchError."""
        return cast("Provider[MemoryBackend, Any]", self._provider("memory backend", name))

    def embedding_source(self, name: str) -> Provider[EmbeddingSource, Any]:
        """The embedding source of this name; raises as `memory_backend` does."""
        return cast("Provider[EmbeddingSource, Any]", self._provider("embedding source", name))

    def vector_store(self, name: str) -> Provider[VectorStore, Any]:
        """The vector store of this name; raises as `memory_backend` does."""
        return cast("Provider[VectorStore, Any]", self._provider("vector store", name))

    def injector(self, name: str) -> Provider[Injector, Any]:
        """The injector of this name; raises as `memory_backend` does."""
        return cast("Provider[Injector, Any]", self._provider("injector", name))

    def reranker(self, name: str) -> Provider[Reranker, Any]:
        """The reranker of this name; raises as `memory_backend` does."""
        return cast("Provider[Reranker, Any]", self._provider("reranker", name))

    def models(self) -> tuple[Model, ...]:
        """The models that can be fetched, of every plugin that loads, by name."""
        plugins = (plugin for plugin in self.load_all() if isinstance(plugin, Plugin))
        return tuple(sorted((model for plugin in plugins for model in plugin.models), key=lambda model: model.name))

    def importers(self) -> tuple[Importer, ...]:
        """The importers of every plugin that loads, by name. Raises PluginError when two have the same name."""
        plugins = (plugin for plugin in self.load_all() if isinstance(plugin, Plugin))
        found = sorted((importer for plugin in plugins for importer in plugin.importers), key=lambda i: i.name)
        for one, other in itertools.pairwise(found):
            if one.name == other.name:
                listed = f"{one.distribution} and {other.distribution}"
                raise PluginError(one.name, f"importer {one.name!r} is offered by {listed}; uninstall all but one")
        return tuple(found)

    def importer(self, name: str) -> Importer:
        """The importer of this name. Raises UnknownPluginError, and PluginError when two have the same name."""
        found = {importer.name: importer for importer in self.importers()}
        if name not in found:
            raise self._unknown("importer", name)
        return found[name]

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of all providers of one kind, or of all importers, of every plugin that loads."""
        if kind == "importer":
            return tuple(importer.name for importer in self.importers())
        plugins = (plugin for plugin in self.load_all() if isinstance(plugin, Plugin))
        return tuple(sorted({provider.name for plugin in plugins for provider in plugin.providers[kind]}))

    def _provider(self, kind: str, name: str) -> Provider[Any, Any]:
        # The plugin of the same name first, so that the hot path loads only what the configuration names.
        named = [entry for entry in self.entries() if entry.name == name]
        others = [entry for entry in self.entries() if entry.name != name]
        for entries in (named, others):
            found = [(entry, provider) for entry in entries for provider in self._offered(entry, kind, name)]
            if len(found) > 1:
                raise _ambiguous(kind, name, [entry for entry, _ in found])
            if found:
                return found[0][1]
            for entry in named:
                plugin = self._load(entry)
                if isinstance(plugin, PluginError):
                    raise plugin
        raise self._unknown(kind, name)

    def _offered(self, entry: PluginEntry, kind: str, name: str) -> list[Provider[Any, Any]]:
        plugin = self._load(entry)
        if isinstance(plugin, PluginError):
            return []
        return [provider for provider in plugin.providers[kind] if provider.name == name]

    def _unknown(self, kind: str, name: str) -> UnknownPluginError:
        installed = self.names(kind)
        close = difflib.get_close_matches(name, installed, n=1)
        advice = f'if a distribution memspine-{name} exists, install it: pip install "memspine-{name}"'
        if failures := self.failures():
            advice += "; plugins that failed to load: " + ", ".join(failure.plugin for failure in failures)
        return UnknownPluginError(
            kind, name, installed=installed, suggestion=close[0] if close else None, advice=advice
        )

    def _load(self, entry: PluginEntry) -> Plugin | PluginError:
        if entry not in self._loaded:
            self._loaded[entry] = _load(entry)
        return self._loaded[entry]


def resolve(provider: Provider[Any, Any]) -> Callable[[Any, Context], AbstractAsyncContextManager[Any]]:
    """The callable that opens a provider, imported now if it was given by address. Raises PluginLoadError."""
    return _resolved(provider, provider.open)


def recogniser(importer: Importer) -> Callable[[ImportSource], bool]:
    """What recognises a source for the importer, imported now if it was given by address. Raises PluginLoadError."""
    return _resolved(importer, importer.recognise)


def reader(importer: Importer) -> Callable[[ImportSource], Iterator[SourceItem]]:
    """What reads a source for the importer, imported now if it was given by address. Raises PluginLoadError."""
    return _resolved(importer, importer.read)


def _resolved(offer: Provider[Any, Any] | Importer, named: str | Callable[P, T]) -> Callable[P, T]:
    if not isinstance(named, str):
        return named
    module, _, attribute = named.partition(":")
    try:
        found: object = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        raise _resolve_error(offer, named, error) from error
    if not callable(found):
        raise _resolve_error(offer, named, TypeError(f"{named!r} is {type(found).__name__}, not a callable"))
    return cast("Callable[P, T]", found)


def _load(entry: PluginEntry) -> Plugin | PluginError:
    step = f"importing {entry.module!r}"
    try:
        module = importlib.import_module(entry.module.partition(":")[0])
        step = "registering its hooks"
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        manager.register(module, name=entry.name)
        manager.check_pending()
        _refuse_misspelt(module)
        providers = {}
        for kind, hook in HOOKS.items():
            step = f"its hook {hook}"
            providers[kind] = tuple(_checked(entry, provider) for provider in _flat(getattr(manager.hook, hook)()))
        step = f"its hook {MODELS_HOOK}"
        models = tuple(_checked_model(model) for model in _flat(manager.hook.memspine_models()))
        step = f"its hook {IMPORTERS_HOOK}"
        importers = tuple(_checked_importer(entry, importer) for importer in _flat(manager.hook.memspine_importers()))
    except PluginError as error:
        return error
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        return _load_error(entry, step, error)
    return Plugin(entry=entry, providers=providers, models=models, importers=importers)


def _flat(results: Iterable[Iterable[Any] | None]) -> Iterable[Any]:
    for result in results:
        yield from result or ()


def _checked(entry: PluginEntry, provider: object) -> Provider[Any, Any]:
    if not isinstance(provider, Provider):
        raise TypeError(f"expected memspine.contracts.Provider, got {type(provider).__name__}")
    if provider.contract != CONTRACT:
        raise ContractMismatchError(entry.name, contract=provider.contract, expected=CONTRACT)
    if not attrs.has(provider.config_type):
        raise TypeError(f"provider {provider.name!r}: config_type has to be an attrs class")
    return attrs.evolve(provider, distribution=f"{entry.distribution} {entry.version}")


def _checked_model(model: object) -> Model:
    if not isinstance(model, Model):
        raise TypeError(f"expected memspine.contracts.Model, got {type(model).__name__}")
    return model


def _checked_importer(entry: PluginEntry, importer: object) -> Importer:
    if not isinstance(importer, Importer):
        raise TypeError(f"expected memspine.contracts.Importer, got {type(importer).__name__}")
    if importer.contract != CONTRACT:
        raise ContractMismatchError(entry.name, contract=importer.contract, expected=CONTRACT)
    return attrs.evolve(importer, distribution=f"{entry.distribution} {entry.version}")


def _refuse_misspelt(module: types.ModuleType) -> None:
    """pluggy knows a hook by its mark alone, so a function that is named like a hook but lacks it would be ignored."""
    for name in vars(module):
        if name.startswith("memspine_") and callable(getattr(module, name)):
            if name not in (known := (*HOOKS.values(), MODELS_HOOK, IMPORTERS_HOOK)):
                raise TypeError(f"unknown hook {name!r}; known: {', '.join(known)}")
            if not hasattr(getattr(module, name), f"{hookspecs.PROJECT}_impl"):
                raise TypeError(f"hook {name!r} lacks the decorator memspine.hookspecs.hookimpl")


def _load_error(entry: PluginEntry, step: str, error: BaseException) -> PluginLoadError:
    return _failure(entry.name, f"{entry.distribution} {entry.version}", step, error)


def _resolve_error(offer: Provider[Any, Any] | Importer, named: str, error: BaseException) -> PluginLoadError:
    return _failure(offer.name, offer.distribution or "unknown distribution", f"opening {named!r}", error)


def _failure(plugin: str, distribution: str, step: str, error: BaseException) -> PluginLoadError:
    cause = describe(error)
    missing = error.name if isinstance(error, ModuleNotFoundError) and error.name else None
    advice = f"install the module {missing!r}" if missing else f"reinstall or remove {distribution}"
    return PluginLoadError(plugin, distribution=distribution, step=step, cause=cause, advice=advice)


def _ambiguous(kind: str, name: str, entries: Sequence[PluginEntry]) -> PluginError:
    listed = " and ".join(f"{entry.distribution} {entry.version}" for entry in entries)
    return PluginError(name, f"{kind} {name!r} is offered by {listed}; uninstall all but one")
