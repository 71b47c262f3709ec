"""The chain that [memory] and [backends] describe: a primary, its fallbacks, and those of them that are replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from memspine.config.locate import KeyPath
from memspine.config.schema import DEFAULT_BACKEND, BackendSettings, MemorySettings
from memspine.config.structure import INVALID, Structurer, options_of, suggestion
from memspine.contracts import Capability, Folders


def check_chain(
    structurer: Structurer, document: Mapping[str, Any], backends: Sequence[BackendSettings], *, folders: Folders
) -> None:
    """Note what is wrong with the primary, the fallbacks and the replicas.

    It reads the document, as a table with one problem is no settings; `backends` are those that could be checked.
    """
    tables = document.get("backends") or {DEFAULT_BACKEND: {}}
    memory = document.get("memory", {})
    if isinstance(memory, MemorySettings):
        memory = attrs.asdict(memory)
    if not isinstance(tables, Mapping) or not isinstance(memory, Mapping):
        return
    names = [str(name) for name in tables]
    primary = _check_primary(structurer, memory.get("primary", ""), names)
    fallbacks = memory.get("fallbacks", ())
    if isinstance(fallbacks, (list, tuple)):
        _check_fallbacks(structurer, fallbacks, primary=primary, names=names)
        _check_stores(structurer, fallbacks, primary=primary, backends=backends, folders=folders)
        _check_replicas(structurer, fallbacks, primary=primary, backends=backends)


def _check_primary(structurer: Structurer, primary: object, names: list[str]) -> object:
    """The name of the primary as far as it can be told."""
    if primary == "":
        if len(names) > 1:
            structurer.refuse(("memory", "primary"), f"has to name one of several backends: {', '.join(names)}")
        return names[0] if len(names) == 1 else ""
    if isinstance(primary, str) and primary not in names:
        _no_backend(structurer, ("memory", "primary"), primary, names)
    return primary


def _check_fallbacks(structurer: Structurer, fallbacks: Sequence[object], *, primary: object, names: list[str]) -> None:
    for index, name in enumerate(fallbacks):
        path = ("memory", "fallbacks", index)
        if not isinstance(name, str):
            continue  # already a problem
        if name not in names:
            _no_backend(structurer, path, name, names)
        elif name == primary:
            structurer.refuse(path, f"{name!r} is the primary, so it is no fallback")
        elif name in fallbacks[:index]:
            structurer.refuse(path, f"{name!r} is there already")


def _check_stores(
    structurer: Structurer,
    fallbacks: Sequence[object],
    *,
    primary: object,
    backends: Iterable[BackendSettings],
    folders: Folders,
) -> None:
    """Two names of one store: what is deleted or fails in one is so in the other, and a copy of itself helps nobody."""
    known = {backend.name: backend for backend in backends}
    before = [known[primary]] if isinstance(primary, str) and primary in known else []
    for index, name in enumerate(fallbacks):
        if not isinstance(name, str) or name not in known or known[name] in before:
            continue
        twins = [other.name for other in before if _is_same_store(known[name], other, folders)]
        if twins:
            text = f"{name!r} is the same store as {twins[0]!r}: the same plugin with the same options"
            if known[name].options != known[twins[0]].options:
                text = f"{name!r} is the same store as {twins[0]!r}: the same plugin at the same place"
            structurer.refuse(("memory", "fallbacks", index), f"{text}; give one of them a place of its own")
        before.append(known[name])


def _is_same_store(one: BackendSettings, other: BackendSettings, folders: Folders) -> bool:
    # Stores of a plugin without options cannot share a place that nobody names: each is one of its own.
    can_differ = bool(options_of(one.provider.config_type))
    return can_differ and INVALID not in (one.options, other.options) and one.is_store_of(other, folders)


def _check_replicas(
    structurer: Structurer, fallbacks: Sequence[object], *, primary: object, backends: Iterable[BackendSettings]
) -> None:
    for backend in backends:
        path = ("backends", backend.name, "replicate")
        if not backend.replicate:
            continue
        if backend.name == primary:
            structurer.refuse(path, f"{backend.name!r} is the primary, so it is no replica; write it at a fallback")
        elif backend.name not in fallbacks:
            text = f"{backend.name!r} is not among the fallbacks, so it is no replica"
            structurer.refuse(path, f"{text}; add it to memory.fallbacks, or write false")
        if Capability.PUT not in backend.provider.capabilities:
            text = f"the plugin {backend.plugin!r} lacks the capability {str(Capability.PUT)!r}, which replicas need"
            structurer.refuse(path, f"{text}; write false, or choose a plugin that has it")


def _no_backend(structurer: Structurer, path: KeyPath, name: str, names: list[str]) -> None:
    structurer.refuse(path, f"no backend named {name!r}; backends: {', '.join(names)}{suggestion(name, names)}")
