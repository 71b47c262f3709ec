"""The configuration of a measurement: the stores and sources of a user's, but in a place of its own.

What keeps memories is told by options that only its plugin understands. So of [backends] and [vectors] those are taken
over that cannot name a place: switches, numbers but for ports, and choices between given words. All others are left
out, unless the measurement itself sets them.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from memspine.errors import ConfigError
from memspine.model import Problem
from memspine_bench.settings import Document, merged
from memspine_bench.sources import SharedSources

if TYPE_CHECKING:
    from memspine.config import Config, InstanceSettings

OWNER: Final = "bench"
# What of a person's configuration says nothing about how memories are found, or would keep some from being found.
_OWN_TABLES: Final = {
    "memory": {"owner": OWNER, "session": "", "fallbacks": []},
    "embedding": {"fallback": ""},
    "retrieval": {"scope": "owner"},
    "maintenance": {"enabled": False},
}
_IN_RETRIEVAL_WITHOUT_EFFECT: Final = frozenset({"deadline_seconds", "limit", "max_tokens", "scope"})
_IN_EMBEDDING: Final = ("source", "fallback", "chunk_tokens")
_IN_VECTORS: Final = ("enabled", "quantisation")


@attrs.frozen(kw_only=True)
class Base:
    """Where a measurement starts from. `document` names no place; `left_out` are the options that may have.

    `config` is what the document comes from: its folders are where sources look for their files.
    """

    document: Document
    config: Config
    left_out: tuple[str, ...] = ()
    has_own_place: bool = False
    """Whether the measurement itself says where its memories are to be kept, so that they have to be removed."""

    @property
    def config_source(self) -> str:
        """The embedding source that the configuration names, or a word that stands for one."""
        name: str = self.document.get("embedding", {}).get("source", "auto")
        return name

    def checked(self, *changes: Document) -> Config:
        """The configuration with these changes. Raises ConfigError with everything that is wrong with it."""
        try:
            return _keeping_sources(_read(merged(self.document, *changes)), self.config)
        except ConfigError as error:
            if not self.left_out:
                raise
            text = f"not taken over, as they may name a place: {', '.join(self.left_out)}; what is needed has to be "
            advice = "given for the measurement, such as --set 'backends.NAME.url=\"…\"'"
            problem = Problem(source=self.config.source.name, line=None, key="", text=text + advice)
            raise ConfigError([*error.problems, problem]) from error


def base(config: str | Path | Document | None, *, overrides: Sequence[Document] = ()) -> Base:
    """What a configuration gives a measurement; without one, the defaults of memspine and not the user's. Raises
    ConfigError."""
    read = _read({} if config is None else config)
    own = merged({}, *overrides)
    left_out: list[str] = []
    tables = {
        key: value for key, value in read.document.items() if key not in {"memory", "backends", "vectors", "injection"}
    }
    primary = read.primary
    backend = dict(_placeless(("backends", primary.name), primary, primary.document, left_out))
    vectors = _plain_vectors(read)
    if read.store is not None:
        vectors |= _placeless(("vectors",), read.store, read.store.document, left_out)
        vectors["plugin"] = read.store.plugin
    # Where the measurement names another backend, that one is measured.
    is_replaced = own.get("backends", {}).keys() - {primary.name}
    tables["backends"] = {} if is_replaced else {primary.name: {**backend, "plugin": primary.plugin}}
    tables["vectors"] = vectors
    places = set(own.get("backends", {})) | (set(own.get("vectors", {})) - set(_settings_of(read.vectors)))
    return Base(
        document=merged(tables, _OWN_TABLES, own),
        config=read,
        left_out=tuple(left_out),
        has_own_place=bool(places),
    )


def placed(config: Config, *, folder: Path, sources: SharedSources) -> Config:
    """The configuration with its stores in a folder, and its sources shared with others."""
    return attrs.evolve(
        config,
        data_folder=folder,
        source=attrs.evolve(config.source, folder=folder),
        sources=tuple(map(sources.shared, config.sources)),
    )


def constants(config: Config) -> dict[str, Any]:
    """What decides about the order of answers, by key."""
    tables = {
        "retrieval": [name for name in _settings_of(config.retrieval) if name not in _IN_RETRIEVAL_WITHOUT_EFFECT],
        "embedding": _IN_EMBEDDING if config.vectors.enabled else (),
        "vectors": _IN_VECTORS if config.vectors.enabled else ("enabled",),
        "rerank": ("source", "candidates") if config.rerank.source else ("source",),
    }
    return {
        f"{table}.{name}": getattr(getattr(config, table), name) for table, names in tables.items() for name in names
    }


def store_key(config: Config) -> str:
    """The same for configurations that can share one filled store: they differ only in how it is asked."""
    import json

    asking = {"retrieval", "rerank", "injection", "maintenance"}
    kept = {key: value for key, value in config.document.items() if key not in asking}
    return json.dumps(kept, sort_keys=True, default=str)


def _read(config: str | Path | Document) -> Config:
    # The blocking manager, as this is also needed while an event loop runs. Nothing is opened by reading.
    from memspine.blocking import MemoryManager

    with MemoryManager(config, background=False) as memory:
        return memory.config


def _keeping_sources(config: Config, first: Config) -> Config:
    """With the sources of the first configuration where nothing about them was changed: their references to secrets
    start at its folder."""
    known = {source.name: source for source in first.sources}
    sources = tuple(
        known[source.name] if source.name in known and known[source.name].document == source.document else source
        for source in config.sources
    )
    return attrs.evolve(config, sources=sources)


def _plain_vectors(config: Config) -> dict[str, Any]:
    written = config.document.get("vectors", {})
    names = _settings_of(config.vectors)
    table = written if isinstance(written, Mapping) else attrs.asdict(config.vectors)
    return {key: value for key, value in table.items() if key in names}


def _placeless(
    path: tuple[str, ...], instance: InstanceSettings[Any], table: Document, left_out: list[str]
) -> Iterator[tuple[str, Any]]:
    """The options that cannot name a place; the keys of the others are noted."""
    hints = typing.get_type_hints(instance.provider.config_type)
    kinds = {field.alias or field.name: hints.get(field.name) for field in attrs.fields(instance.provider.config_type)}
    for key, value in table.items():
        if key == "plugin":
            continue
        kind = kinds.get(key)
        is_word = typing.get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, enum.Enum))
        if is_word or (isinstance(value, bool | int | float) and "port" not in key):
            yield key, value
        else:
            left_out.append(".".join((*path, key)))


def _settings_of(table: Any) -> list[str]:
    return [field.name for field in attrs.fields(type(table))]
