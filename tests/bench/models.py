"""The embedding models that are measured: the one that is shipped, and all-MiniLM-L6-v2 where it can be had."""

import functools
import importlib.util
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from memspine.contracts import Vectors
from memspine.embedding.documents import document_text
from memspine_static.model import StaticModel, load_model

from .corpus import new_memories
from .goals import MINILM
from .table import ROOT

PLACE = "MEMSPINE_TEST_MODELS"
"""The variable that names the folder for models, as for the tests of the plugin."""
SHIPPED: Mapping[str, Any] = {"source": "static"}


def minilm_folder(cache: Path | None) -> tuple[Path | None, str]:
    """The folder of the model, made from a package unless it is there; or none, and why."""
    place = Path(os.environ[PLACE]) if os.environ.get(PLACE) else cache
    if place is None:
        return None, f"${PLACE} names no folder"
    file = ROOT / "plugins" / "onnx" / "tests" / "minilm.py"
    try:
        spec = importlib.util.spec_from_file_location("minilm", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.build(place), ""
    except (ImportError, subprocess.CalledProcessError):
        return None, "all-MiniLM-L6-v2 cannot be made, for want of packages"


def minilm(folder: Path) -> dict[str, Any]:
    """The table [embedding] that uses it."""
    return {"source": MINILM, MINILM: {"plugin": "onnx", "model": str(folder), "threads": 2}}


def texts(count: int) -> list[str]:
    """What is embedded of the memories that stores are filled with."""
    return [document_text(memory) for memory in new_memories(count)]


@functools.cache
def bare_static() -> StaticModel:
    """The shipped model without its source and without the kernel."""
    package = Path(importlib.util.find_spec("memspine_static").origin).parent
    return load_model(package / "model")


@contextmanager
def drawn_vectors() -> Iterator[None]:
    """Let onnx sources answer documents with vectors by lot: how long it takes to search them is the same."""
    from memspine_onnx.source import OnnxSource

    chance = np.random.default_rng(7)
    real = OnnxSource.embed

    async def embed(self, texts, *, role):
        if role == "query":
            return await real(self, texts, role=role)
        dimension = (await self.identity()).dimension
        return Vectors(dimension, unit_vectors(chance, len(texts), dimension).tobytes())

    with mock.patch.object(OnnxSource, "embed", embed):
        yield


def unit_vectors(chance: np.random.Generator, count: int, dimension: int) -> Any:
    """Vectors of norm 1 in directions by lot."""
    vectors = chance.standard_normal((count, dimension), np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
