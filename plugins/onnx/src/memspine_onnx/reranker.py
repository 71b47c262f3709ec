"""The reranker: a cross-encoder, which reads the question and a text together."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from memspine.contracts import Context
from memspine.errors import ClosedError, RerankError
from memspine_onnx.config import OnnxRerankerConfig
from memspine_onnx.crossencoder import CrossEncoder, load_cross_encoder
from memspine_onnx.engine import Engine, EngineClosed
from memspine_onnx.folder import choose, locate
from memspine_onnx.session import batches
from memspine_onnx.trouble import ModelTrouble


@asynccontextmanager
async def open_reranker(config: OnnxRerankerConfig, context: Context) -> AsyncIterator[OnnxReranker]:
    """The reranker that a configuration describes. Its model is loaded by the first call that needs it."""
    folders = (os.fspath(context.config_folder), os.fspath(context.data_folder))
    engine = await context.shared(
        f"onnx reranker:{config}:{folders}", lambda: Engine(partial(_load, config, context), threads=config.threads)
    )
    reranker = OnnxReranker(engine, name=context.name)
    try:
        yield reranker
    finally:
        reranker.close()


def _load(config: OnnxRerankerConfig, context: Context) -> CrossEncoder:
    folder = locate(config.model, config_folder=context.config_folder, data_folder=context.data_folder)
    files = choose(folder, model=config.model, file=config.file, quantised=config.quantised)
    return load_cross_encoder(files, label=config.label)


class OnnxReranker:
    """Scores of a local cross-encoder (`memspine.contracts.Reranker`)."""

    def __init__(self, engine: Engine[CrossEncoder], *, name: str = "onnx") -> None:
        self.name = name
        self._engine = engine
        self._is_closed = False

    def close(self) -> None:
        """Refuse every further call; the model is freed with the last of those who share it."""
        self._is_closed = True

    async def rerank(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """The score of each text, in their order. Raises RerankError for the whole call, ClosedError."""
        with self._told():
            model = await self._engine.loaded()
            pairs = await self._engine.call(partial(model.texts.encode_pairs, query, tuple(texts)))
            planned = list(batches(pairs))
            works = [partial(model.scores, [pairs[place] for place in places]) for places in planned]
            answers = await self._engine.call_all(works)
        scores = [0.0] * len(texts)
        for places, answer in zip(planned, answers, strict=True):
            for place, score in zip(places, answer, strict=True):
                scores[place] = score
        return tuple(scores)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Troubles become the errors of the contract, with the name of this reranker."""
        if self._is_closed:
            raise ClosedError(self.name)
        try:
            yield
        except EngineClosed as error:
            raise ClosedError(self.name) from error
        except ModelTrouble as error:
            raise RerankError(self.name, error.reason, expected=error.expected, kind=error.kind) from error
