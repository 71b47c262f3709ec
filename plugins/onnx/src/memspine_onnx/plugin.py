"""Registers the embedding source, the reranker and the models that can be fetched. Imports nothing heavy."""

from __future__ import annotations

from typing import Any

from memspine.contracts import EmbeddingSource, Model, Provider, Reranker
from memspine.hookspecs import hookimpl
from memspine_onnx.config import OnnxConfig, OnnxRerankerConfig
from memspine_onnx.models import MODELS


@hookimpl
def memspine_embedding_sources() -> list[Provider[EmbeddingSource, Any]]:
    """The one embedding source of this distribution."""
    return [
        Provider(
            name="onnx",
            config_type=OnnxConfig,
            open="memspine_onnx.source:open_source",
            summary="sentence-transformers models on this computer, run by onnxruntime",
        )
    ]


@hookimpl
def memspine_rerankers() -> list[Provider[Reranker, Any]]:
    """The one reranker of this distribution."""
    return [
        Provider(
            name="onnx",
            config_type=OnnxRerankerConfig,
            open="memspine_onnx.reranker:open_reranker",
            summary="a cross-encoder on this computer, run by onnxruntime",
        )
    ]


@hookimpl
def memspine_models() -> tuple[Model, ...]:
    """The models that `memspine models fetch` can fetch for them."""
    return MODELS
