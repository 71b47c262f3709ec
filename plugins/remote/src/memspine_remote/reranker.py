"""The reranker: a question and texts in, a score a text out.

Each text is judged by itself, so the scores of several requests about one question can be compared. A model that judges
lists as a whole needs `batch_texts` as large as the list.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import Final

from memspine.contracts import Context
from memspine.errors import RerankError
from memspine_remote.batches import batches, together
from memspine_remote.config import RemoteRerankerConfig
from memspine_remote.failures import RequestError, translated
from memspine_remote.shapes import RerankShape, rerank_shape
from memspine_remote.wire import Wire

_ANSWER_BYTES: Final = 1024 * 1024
_BYTES_PER_RESULT: Final = 1024
# Some providers send the texts back, and JSON may write each character of theirs with six.
_BYTES_PER_CHARACTER: Final = 12
# Shorter than this, it is the question that is too long.
_TEXT_LENGTH_MIN: Final = 200


@asynccontextmanager
async def open_reranker(config: RemoteRerankerConfig, context: Context) -> AsyncIterator[RemoteReranker]:
    """The reranker that a configuration describes, open until the context is left. Nothing is connected to yet."""
    shape = rerank_shape(config)
    wire = Wire(config, shape, name=context.name, config_folder=context.config_folder)
    try:
        yield RemoteReranker(context.name, shape, wire, texts_max=config.batch_texts)
    finally:
        await wire.close()


class RemoteReranker:
    """Reranking over HTTP (`memspine.contracts.Reranker`)."""

    def __init__(self, name: str, shape: RerankShape, wire: Wire, *, texts_max: int) -> None:
        self.name = name
        self._shape, self._wire = shape, wire
        self._texts_max = texts_max

    async def rerank(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """The relevance of each text, in the order of the texts. Raises RerankError when any of them was not judged."""
        self._wire.require_open()
        parts = list(batches([0] * len(texts), texts_max=self._texts_max, tokens_max=0))
        calls = [partial(self._score, query, [texts[place] for place in part]) for part in parts]
        scores = await translated(together(calls), RerankError, self.name)
        return tuple(chain.from_iterable(scores))

    async def _score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """The scores of some of the texts; what is refused as too long is divided until it fits or is one text."""
        try:
            return await self._request(query, texts)
        except RequestError as failure:
            if failure.kind != "too_long":
                raise
            if len(texts) == 1:
                return await self._score_beginning(query, texts[0], failure)
            is_batch = failure.is_batch
        middle = len(texts) // 2
        scores = [*await self._score(query, texts[:middle]), *await self._score(query, texts[middle:])]
        if is_batch:
            # Kept, or every later batch would be refused first.
            self._texts_max = max(1, min(self._texts_max, middle))
        return scores

    async def _score_beginning(self, query: str, text: str, failure: RequestError) -> Sequence[float]:
        """The score of the first half of a text that is too long as a whole, or of the first half of that, and so on:
        most providers cut by themselves. The length alone decides, so that a text has one score."""
        if len(text) <= _TEXT_LENGTH_MIN:
            raise failure
        return await self._score(query, [text[: len(text) // 2]])

    async def _request(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        characters = sum(map(len, texts))
        return await self._wire.post(
            self._shape.body(query, texts),
            partial(self._shape.scores, count=len(texts)),
            bytes_max=_ANSWER_BYTES + len(texts) * _BYTES_PER_RESULT + characters * _BYTES_PER_CHARACTER,
        )
