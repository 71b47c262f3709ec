"""The hooks a plugin may implement. They only register: no I/O, nothing heavy imported.

from memspine.hookspecs import hookimpl

@hookimpl
def memspine_memory_backends():
    return [Provider(name="mine", config_type=Config, open="my_package.backend:open_backend")]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pluggy

from memspine.contracts import (
    EmbeddingSource,
    Importer,
    Injector,
    MemoryBackend,
    Model,
    Provider,
    Reranker,
    VectorStore,
)

PROJECT = "memspine"
"""The entry-point group that plugins register in."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def memspine_memory_backends() -> Iterable[Provider[MemoryBackend, Any]]:  # type: ignore[empty-body]
    """The stores of memories that this plugin offers."""


@hookspec
def memspine_embedding_sources() -> Iterable[Provider[EmbeddingSource, Any]]:  # type: ignore[empty-body]
    """The embedding sources that this plugin offers."""


@hookspec
def memspine_vector_stores() -> Iterable[Provider[VectorStore, Any]]:  # type: ignore[empty-body]
    """The vector stores that this plugin offers."""


@hookspec
def memspine_injectors() -> Iterable[Provider[Injector, Any]]:  # type: ignore[empty-body]
    """The request shapes that this plugin can place memories into."""


@hookspec
def memspine_rerankers() -> Iterable[Provider[Reranker, Any]]:  # type: ignore[empty-body]
    """The rerankers that this plugin offers."""


@hookspec
def memspine_models() -> Iterable[Model]:  # type: ignore[empty-body]
    """The models that `memspine models fetch` can fetch for this plugin."""


@hookspec
def memspine_importers() -> Iterable[Importer]:  # type: ignore[empty-body]
    """The readers of other products' exports that `memspine import` can use."""
