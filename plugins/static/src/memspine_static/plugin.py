"""Registers the source. Imports nothing that is needed only when a model is loaded."""

from __future__ import annotations

from typing import Any

from memspine.contracts import EmbeddingSource, Provider
from memspine.hookspecs import hookimpl
from memspine_static.config import StaticConfig


@hookimpl
def memspine_embedding_sources() -> list[Provider[EmbeddingSource, Any]]:
    """The one source of this distribution."""
    return [
        Provider(
            name="static",
            config_type=StaticConfig,
            open="memspine_static.source:open_source",
            summary="token vectors of a model inside the package, or of a model2vec folder",
        )
    ]
