"""The embedding source: batches of texts in, checked vectors out."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from memspine.contracts import Context, EmbeddingIdentity, Role, Vectors
from memspine.errors import EmbeddingError
from memspine_remote.batches import batches, together
from memspine_remote.config import RemoteEmbeddingConfig
from memspine_remote.failures import RequestError, translated
from memspine_remote.shapes import EmbeddingShape, embedding_shape
from memspine_remote.tokens import beginning_of, estimated_tokens, window_of
from memspine_remote.vectors import packed_rows
from memspine_remote.wire import Wire

_PROBE: Final = "dimension"
_ANSWER_BYTES: Final = 1024 * 1024
_BYTES_PER_NUMBER: Final = 32
_DIMENSION_MAX_UNKNOWN: Final = 16_384
_THREAD_CHARACTERS_MIN: Final = 20_000


@asynccontextmanager
async def open_source(config: RemoteEmbeddingConfig, context: Context) -> AsyncIterator[RemoteEmbeddings]:
    """The source that a configuration describes, open until the context is left. Nothing is connected to yet."""
    shape = embedding_shape(config)
    wire = Wire(config, shape, name=context.name, config_folder=context.config_folder)
    try:
        yield RemoteEmbeddings(context.name, config, shape, wire)
    finally:
        await wire.close()


class RemoteEmbeddings:
    """Embeddings over HTTP (`memspine.contracts.EmbeddingSource`)."""

    def __init__(self, name: str, config: RemoteEmbeddingConfig, shape: EmbeddingShape, wire: Wire) -> None:
        self.name = name
        self._config, self._shape, self._wire = config, shape, wire
        self._dimension = config.dimension
        self._window_tokens = config.window_tokens or window_of(config.model)
        self._texts_max = shape.batch_texts
        self._probing = asyncio.Lock()

    async def identity(self) -> EmbeddingIdentity:
        """What makes these vectors comparable. Asks the model for the dimension, once, unless it is configured."""
        self._wire.require_open()
        dimension = await self._known_dimension()
        return EmbeddingIdentity(
            plugin="remote",
            model=self._config.model,
            revision=self._config.revision or self._revision(dimension),
            dimension=dimension,
            prompt_scheme=self._prompt_scheme(),
            window_tokens=self._window_tokens,
        )

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """One vector a text, in their order. Raises EmbeddingError for the whole batch when any is unusable."""
        self._wire.require_open()
        if not texts:
            return Vectors(await self._known_dimension(), b"")
        prefix = self._config.document_prefix if role == "document" else self._config.query_prefix
        prompts = [prefix + text for text in texts]
        data = await translated(self._embed_all(prompts, role), EmbeddingError, self.name)
        return Vectors(await self._known_dimension(), data)

    async def count_tokens(self, texts: Sequence[str]) -> tuple[int, ...]:
        """An estimate, too high rather than too low, of what each text takes with the longer prefix before it."""
        self._wire.require_open()
        prefixes = (self._config.document_prefix, self._config.query_prefix)
        prefix = max(prefixes, key=estimated_tokens)
        return tuple(await _counted([prefix + text for text in texts]))

    # ── identity ──

    async def _known_dimension(self) -> int:
        return self._dimension or await self._asked_dimension()

    async def _asked_dimension(self) -> int:
        async with self._probing:
            if self._dimension is not None:  # another call asked while this one waited
                return self._dimension
            probe = self._request([self._config.document_prefix + _PROBE], "document")
            dimension, _ = await translated(probe, EmbeddingError, self.name)
            return dimension

    def _revision(self, dimension: int) -> str:
        # Neither API names a version of the weights: what they call `model` is an echo or a file's name.
        parts = [self._config.api, self._wire.endpoint.host, self._config.model, dimension]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def _prompt_scheme(self) -> str:
        prefixes = [self._config.document_prefix, self._config.query_prefix]
        if not any(prefixes):
            return self._shape.prompt_scheme
        written = "prefix:" + hashlib.sha256(json.dumps(prefixes).encode()).hexdigest()[:12]
        return written if self._shape.prompt_scheme == "none" else f"{self._shape.prompt_scheme}+{written}"

    # ── requests ──

    async def _embed_all(self, prompts: Sequence[str], role: Role) -> bytes:
        if "" in prompts:
            # Some providers refuse it, some answer with the zero vector or with nothing; either costs a request.
            raise RequestError("invalid", f"text {prompts.index('')} is empty", expected="texts with something in them")
        tokens = await _counted(prompts)
        parts = batches(tokens, texts_max=self._texts_max, tokens_max=self._shape.batch_tokens)
        return b"".join(await together([partial(self._embed_part, prompts, part, role) for part in parts]))

    async def _embed_part(self, prompts: Sequence[str], part: range, role: Role) -> bytes:
        """The vectors of some of the texts; what is refused as too long is divided until it fits or is one text."""
        if len(part) == 1:
            return await self._embed_one(prompts, part[0], role)
        try:
            _, data = await self._request([prompts[place] for place in part], role)
        except RequestError as failure:
            if failure.kind != "too_long":
                raise
            is_batch = failure.is_batch
        else:
            return data
        if not is_batch:
            # Mostly it is one text, and then the longest. Where it is refused, the others need not be paid for.
            await self._embed_one(prompts, max(part, key=lambda place: len(prompts[place])), role)
        middle = len(part) // 2
        first = await self._embed_part(prompts, part[:middle], role)
        second = await self._embed_part(prompts, part[middle:], role)
        if is_batch:
            # Kept, or every later batch would be refused first.
            self._texts_max = max(1, min(self._texts_max, middle))
        return first + second

    async def _embed_one(self, prompts: Sequence[str], place: int, role: Role) -> bytes:
        """The vector of one text. A text that is known to be longer than the window is cut to it when it is refused;
        one that should fit is told of, for then the estimate was wrong, and who asked can divide it."""
        text = prompts[place]
        try:
            _, data = await self._request([text], role)
        except RequestError as failure:
            if failure.kind != "too_long":
                raise
            reason = failure.reason
        else:
            return data
        beginning = beginning_of(text, self._window_tokens)
        if len(beginning) == len(text):
            raise RequestError("too_long", f"text {place} of 0..{len(prompts) - 1} is too long: {reason}")
        return await self._embed_one([*prompts[:place], beginning, *prompts[place + 1 :]], place, role)

    async def _request(self, texts: Sequence[str], role: Role) -> tuple[int, bytes]:
        numbers = len(texts) * (self._dimension or _DIMENSION_MAX_UNKNOWN)
        dimension, data = await self._wire.post(
            self._shape.body(texts, role=role),
            partial(self._read, count=len(texts)),
            bytes_max=_ANSWER_BYTES + numbers * _BYTES_PER_NUMBER,
        )
        if self._dimension is None:
            self._dimension = dimension
        elif dimension != self._dimension:  # of two first answers at once, one came second
            raise RequestError("invalid", f"vectors of dimension {dimension} after those of {self._dimension}")
        return dimension, data

    def _read(self, answer: object, *, count: int) -> tuple[int, bytes]:
        return packed_rows(self._shape.vectors(answer, count), dimension=self._dimension)


async def _counted(texts: Sequence[str]) -> list[int]:
    """The estimate for each text. Counting a megabyte takes a third of a second, which must not hold up the loop."""
    if sum(map(len, texts)) < _THREAD_CHARACTERS_MIN:
        return list(map(estimated_tokens, texts))
    return await asyncio.to_thread(lambda: list(map(estimated_tokens, texts)))
