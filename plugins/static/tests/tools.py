"""Makes model folders as model2vec saves them, without any of its libraries, and opens sources as the kernel does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from memspine.contracts import Role, Vectors
from memspine.resources import ProviderContext, SharedResources
from memspine_static.config import StaticConfig
from memspine_static.source import StaticSource, open_source

WORDS = "the a walnut tree train to leaves garden spring cello she plays every evening ##s ##ed hello world".split()
DTYPES = {"float32": "F32", "float16": "F16", "int8": "I8", "int64": "I64", "float64": "F64", "int32": "I32"}


def tensors(**arrays: np.ndarray) -> bytes:
    """The bytes of a safetensors file."""
    header, body = {}, b""
    for name, array in arrays.items():
        data = array.tobytes()
        header[name] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + body


def rules(words: list[str] | None = None, **changes: Any) -> dict[str, Any]:
    """A tokenizer.json that lower-cases, splits at blanks and punctuation, and cuts words greedily."""
    vocabulary = {word: number for number, word in enumerate(["[UNK]", *(WORDS if words is None else words)])}
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": vocabulary,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": model,
    } | changes


def matrix(rows: int = len(WORDS) + 1, columns: int = 8, dtype: str = "float32") -> np.ndarray:
    """Vectors of tokens, the same at every call."""
    numbers = np.random.default_rng(7).normal(size=(rows, columns))
    return (numbers * 40).round().astype(np.int8) if dtype == "int8" else numbers.astype(dtype)


def write(folder: Path, *, tokenizer: dict[str, Any] | None = None, floor: float = 0, **arrays: np.ndarray) -> Path:
    """A folder with a model; without arrays it has one vector a token."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(tensors(**(arrays or {"embeddings": matrix()})))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer or rules()), encoding="utf-8")
    config = {"model_type": "model2vec", "normalize": True} | ({"document_floor": floor} if floor else {})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@asynccontextmanager
async def opened(place: Path = Path(), **options: Any) -> AsyncIterator[StaticSource]:
    """A source with these options; relative folders begin at `place`."""
    async with AsyncExitStack() as stack:
        context = ProviderContext(
            "words", config_folder=place, data_folder=place, resources=SharedResources(), stack=stack
        )
        yield await stack.enter_async_context(open_source(StaticConfig(**options), context))


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives."""
    return asyncio.run(coroutine)


def rows(vectors: Vectors) -> np.ndarray:
    """The vectors of an answer as an array."""
    return np.frombuffer(vectors.data, "<f4").reshape(-1, vectors.dimension)


def embedded(texts: list[str], place: Path = Path(), *, role: Role = "document", **options: Any) -> np.ndarray:
    """The vectors of texts by a source with these options."""

    async def go() -> np.ndarray:
        async with opened(place, **options) as source:
            return rows(await source.embed(texts, role=role))

    return run(go())
