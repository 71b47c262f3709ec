"""The embedding source."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from memspine.contracts import Context, EmbeddingIdentity, Role, Vectors
from memspine.errors import ClosedError, EmbeddingError
from memspine_onnx.config import OnnxConfig
from memspine_onnx.embedding import EmbeddingModel, load_embedding
from memspine_onnx.engine import Engine, EngineClosed
from memspine_onnx.folder import Checksums, choose, locate
from memspine_onnx.session import BATCH_TEXTS, batches
from memspine_onnx.settings import prompt_scheme
from memspine_onnx.tokens import Tokens
from memspine_onnx.trouble import ModelTrouble

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PART_TEXTS: Final = 256
"""How many texts become tokens in one go, so that closing need not wait until all have."""


@asynccontextmanager
async def open_source(config: OnnxConfig, context: Context) -> AsyncIterator[OnnxSource]:
    """The embedding source that a configuration describes. Its model is loaded by the first call that needs it."""
    load = partial(_load, config, context, Checksums())
    # Two configurations of one model share it in memory; the prompts are the source's own.
    shared = attrs.evolve(config, query_prompt=None, document_prompt=None)
    folders = (os.fspath(context.config_folder), os.fspath(context.data_folder))
    engine = await context.shared(f"onnx embedding:{shared}:{folders}", lambda: Engine(load, threads=config.threads))
    source = OnnxSource(engine, config, name=context.name)
    try:
        yield source
    finally:
        source.close()


def _load(config: OnnxConfig, context: Context, checksums: Checksums) -> EmbeddingModel:
    folder = locate(config.model, config_folder=context.config_folder, data_folder=context.data_folder)
    files = choose(folder, model=config.model, file=config.file, quantised=config.quantised)
    return load_embedding(files, checksums)


class OnnxSource:
    """Vectors of a local model (`memspine.contracts.EmbeddingSource`)."""

    def __init__(self, engine: Engine[EmbeddingModel], config: OnnxConfig, *, name: str = "onnx") -> None:
        self.name = name
        self._engine = engine
        self._config = config
        self._is_closed = False

    def close(self) -> None:
        """Refuse every further call; the model is freed with the last of those who share it."""
        self._is_closed = True

    async def identity(self) -> EmbeddingIdentity:
        """Which vectors these are. Raises EmbeddingError when the model cannot be loaded, ClosedError."""
        with self._told():
            model = await self._engine.loaded()
            query, document = self._prompts(model)
            taken = max(map(model.texts.count, {query, document}))
        return EmbeddingIdentity(
            plugin="onnx",
            model=model.files.model,
            revision=model.revision,
            dimension=model.dimension,
            prompt_scheme=prompt_scheme(query, document),
            window_tokens=max(1, model.texts.room - taken),
        )

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """One vector of norm 1 a text, in their order; what is beyond the window counts for nothing.

        Raises EmbeddingError for the whole batch, ClosedError.
        """
        with self._told():
            model = await self._engine.loaded()
            query, document = self._prompts(model)
            prompt = query if role == "query" else document
            if len(texts) <= BATCH_TEXTS:
                data = await self._engine.call(partial(_embed_few, model, tuple(texts), prompt))
                if data is not None:
                    return Vectors(model.dimension, data)
            return Vectors(model.dimension, await self._embed_many(model, tuple(texts), prompt))

    async def count_tokens(self, texts: Sequence[str]) -> tuple[int, ...]:
        """How many tokens each text has, without the prompt and the special tokens, for which the identity's window
        leaves room. Raises EmbeddingError, ClosedError."""
        with self._told():
            model = await self._engine.loaded()
            if len(texts) <= BATCH_TEXTS:
                return await self._engine.call(partial(_counts, model, tuple(texts)))
            counted = await self._engine.call_all([partial(_counts, model, part) for part in _parts(texts)])
        return tuple(count for part in counted for count in part)

    async def _embed_many(self, model: EmbeddingModel, texts: tuple[str, ...], prompt: str) -> bytes:
        import numpy as np

        encoded = await self._engine.call_all([partial(_encode, model, part, prompt) for part in _parts(texts)])
        tokens = [text for part in encoded for text in part]
        rows = np.empty((len(texts), model.dimension), "<f4")
        works = [partial(_fill, model, tokens, places, rows) for places in batches(tokens)]
        await self._engine.call_all(works)
        return rows.tobytes()

    def _prompts(self, model: EmbeddingModel) -> tuple[str, str]:
        query, document = self._config.query_prompt, self._config.document_prompt
        query = model.settings.query_prompt if query is None else query
        document = model.settings.document_prompt if document is None else document
        if (query or document) and not model.settings.include_prompt:
            reason = f"{model.files.model} leaves its prompts out of the pooling, which is not done here"
            raise ModelTrouble(reason, expected="another model")
        return query, document

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Troubles become the errors of the contract, with the name of this source."""
        if self._is_closed:
            raise ClosedError(self.name)
        try:
            yield
        except EngineClosed as error:
            raise ClosedError(self.name) from error
        except ModelTrouble as error:
            raise EmbeddingError(self.name, error.reason, expected=error.expected, kind=error.kind) from error


def _parts(texts: Sequence[str]) -> list[Sequence[str]]:
    return [texts[start : start + _PART_TEXTS] for start in range(0, len(texts), _PART_TEXTS)]


def _encode(model: EmbeddingModel, texts: Sequence[str], prompt: str) -> list[Tokens]:
    return [model.texts.encode(text, prompt=prompt) for text in texts]


def _counts(model: EmbeddingModel, texts: Sequence[str]) -> tuple[int, ...]:
    return tuple(map(model.texts.count, texts))


def _embed_few(model: EmbeddingModel, texts: Sequence[str], prompt: str) -> bytes | None:
    """The vectors, in one go and one thread; None when it takes more than one batch."""
    if not texts:
        return b""
    tokens = _encode(model, texts, prompt)
    first, *others = batches(tokens)
    if others:
        return None
    rows = model.vectors([tokens[place] for place in first])
    return rows[sorted(range(len(first)), key=first.__getitem__)].tobytes()


def _fill(model: EmbeddingModel, tokens: Sequence[Tokens], places: Sequence[int], rows: NDArray[np.float32]) -> None:
    rows[places] = model.vectors([tokens[place] for place in places])
