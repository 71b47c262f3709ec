"""One embedding source in use: opened on demand, its answers checked, its failures remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from memspine.breaker import Breaker
from memspine.chunking import halves, packed, segments
from memspine.contracts import EmbeddingIdentity, EmbeddingSource, Role, Vectors
from memspine.embedding.cache import CacheKey, EmbeddingCache
from memspine.embedding.checking import checked, checked_counts, checked_identity
from memspine.errors import EmbeddingError, MemspineError, Trouble
from memspine.ondemand import CallFailed, OnDemand

T = TypeVar("T")

OF_THE_TEXT: Final[frozenset[Trouble]] = frozenset({"too_long", "invalid"})
"""Troubles that one text may cause and another not; all others are the source's."""
CHUNK_TOKENS_MIN: Final = 16
PROBE: Final = "This is a short text about a dog and a house."
"""What every source takes that works."""
_TOKENS_BEYOND_BYTES = 8
"""A text of n bytes is at most n tokens and a few that mark its ends."""


class Embedder:
    """Turns texts into checked vectors by one source. Query vectors are cached, and equal questions that come while
    one is being answered share its answer."""

    def __init__(self, member: OnDemand[EmbeddingSource], *, cache: EmbeddingCache, breaker: Breaker) -> None:
        self._member = member
        self._cache = cache
        self._breaker = breaker
        self._identity: EmbeddingIdentity | None = None
        self._flying: dict[CacheKey, asyncio.Task[bytes]] = {}

    @property
    def name(self) -> str:
        """The name that the configuration gives the source."""
        return self._member.name

    @property
    def breaker(self) -> Breaker:
        """Whether the source is being left alone, and why."""
        return self._breaker

    @property
    def is_loaded(self) -> bool:
        """Whether the source has been used: the first use may have to load a model."""
        return self._identity is not None

    async def identity(self) -> EmbeddingIdentity:
        """The identity of the vectors. Raises EmbeddingError."""
        if self._identity is None:

            async def identify(source: EmbeddingSource) -> EmbeddingIdentity:
                return checked_identity(await source.identity(), source=self.name)

            self._identity = await self._asked("its identity", identify)
        return self._identity

    async def query_vector(self, text: str) -> bytes:
        """The vector of a question as little-endian float32. Raises EmbeddingError.

        A caller that gives up waiting does not stop the call: the next one finds its answer in the cache.
        """
        key = CacheKey.of(await self.identity(), text, "query")
        if (known := self._cache.get(key)) is not None:
            return known
        task = self._flying.get(key)
        if task is None:
            task = self._flying[key] = asyncio.create_task(self._query(key, text))
            task.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(task)

    async def document_vectors(
        self, texts: Sequence[str], *, chunk_tokens: int
    ) -> list[tuple[bytes, ...] | EmbeddingError]:
        """For each text the vectors of its chunks in order, or why this text has none. Chunk 0 begins the text.

        A chunk has at most `chunk_tokens` tokens and at most the source's window; 0 means no limit. Raises
        EmbeddingError when the source does not work.
        """
        if not texts:
            return []
        limits = [limit for limit in (chunk_tokens, (await self.identity()).window_tokens) if limit]
        tokens_max = min(limits, default=0)
        chunks = await self._chunked(texts, tokens_max=tokens_max)
        try:
            return await self._chunk_vectors(chunks)
        except EmbeddingError as error:
            if error.kind not in OF_THE_TEXT:
                raise
        found = [await self._alone(text, tokens_max=tokens_max) for text in texts]
        if all(isinstance(one, EmbeddingError) for one in found):
            await self._probe()
        return found

    async def close(self) -> None:
        """Give up what is being asked and close the source."""
        flying = list(self._flying.values())
        for task in flying:
            task.cancel()
        if flying:
            await asyncio.wait(flying)
        await self._member.close(patience_seconds=1.0)

    # ── inside ──

    async def _probe(self) -> None:
        """Raise EmbeddingError if the source is out of order and not the texts that it refused: a source that does not
        take a plain one takes none, whatever it says of each."""
        pauses = self._breaker.pauses
        try:
            await self._vectors([PROBE], "document")
        except EmbeddingError as error:
            if error.kind not in OF_THE_TEXT:
                raise
            failure = EmbeddingError(
                self.name, f"takes no text: {error.reason}", expected="vectors of some", kind="config"
            )
            self._breaker.fail(str(failure), pauses=pauses, retry_after_seconds=failure.retry_after_seconds)
            raise failure from error

    async def _query(self, key: CacheKey, text: str) -> bytes:
        (vector,) = await self._vectors([text], "query")
        self._cache.put(key, vector)
        return vector

    def _landed(self, key: CacheKey, task: asyncio.Task[bytes]) -> None:
        self._flying.pop(key, None)
        if not task.cancelled():
            task.exception()  # looked at: whoever asked may have given up waiting

    async def _alone(self, text: str, *, tokens_max: int) -> tuple[bytes, ...] | EmbeddingError:
        """The vectors of one text; where the source finds its chunks too long, of ever smaller ones."""
        limit = tokens_max
        while True:
            try:
                return (await self._chunk_vectors(await self._chunked([text], tokens_max=limit)))[0]
            except EmbeddingError as error:
                if error.kind not in OF_THE_TEXT:
                    raise
                if error.kind != "too_long" or 0 < limit <= CHUNK_TOKENS_MIN:
                    return error
                if not limit:
                    (limit,) = await self._tokens([text])
                limit = max(limit // 2, CHUNK_TOKENS_MIN)

    async def _chunked(self, texts: Sequence[str], *, tokens_max: int) -> list[tuple[str, ...]]:
        """Each text in chunks of at most `tokens_max` tokens."""
        chunks = [(text,) for text in texts]
        if not tokens_max:
            return [*chunks]
        long = [n for n, text in enumerate(texts) if len(text.encode()) + _TOKENS_BEYOND_BYTES > tokens_max]
        if not long:
            return [*chunks]
        counts = await self._tokens([texts[n] for n in long])
        found: list[tuple[str, ...]] = [*chunks]
        for n, count in zip(long, counts, strict=True):
            if count > tokens_max:
                found[n] = await self._cut(texts[n], tokens_max=tokens_max)
        return found

    async def _cut(self, text: str, *, tokens_max: int) -> tuple[str, ...]:
        pieces: Sequence[str] = segments(text)
        counts: dict[str, int] = {}
        while new := [piece for piece in dict.fromkeys(pieces) if piece not in counts]:
            counts.update(zip(new, await self._tokens(new), strict=True))
            while long := {piece for piece in pieces if counts.get(piece, 0) > tokens_max and len(piece) > 1}:
                pieces = [part for piece in pieces for part in (halves(piece) if piece in long else (piece,))]
        return packed(pieces, [counts[piece] for piece in pieces], tokens_max=tokens_max)

    async def _tokens(self, texts: Sequence[str]) -> tuple[int, ...]:
        async def count(source: EmbeddingSource) -> tuple[int, ...]:
            return checked_counts(await source.count_tokens(texts), source=self.name, count=len(texts))

        return await self._asked("counting tokens", count)

    async def _chunk_vectors(self, chunks: Sequence[tuple[str, ...]]) -> list[tuple[bytes, ...] | EmbeddingError]:
        flat = [chunk for text in chunks for chunk in text]
        vectors = iter(await self._vectors(flat, "document"))
        return [tuple(next(vectors) for _ in text) for text in chunks]

    async def _vectors(self, texts: Sequence[str], role: Role) -> list[bytes]:
        identity = await self.identity()

        async def embed(source: EmbeddingSource) -> list[bytes]:
            vectors: Vectors = await source.embed(texts, role=role)
            return checked(vectors, source=self.name, identity=identity, count=len(texts))

        vectors = await self._asked("embedding", embed)
        self._breaker.succeed()  # here alone: what else a source does may work while it cannot embed
        return vectors

    async def _asked(self, what: str, call: Callable[[EmbeddingSource], Awaitable[T]]) -> T:
        """One call of the source; whatever it raises becomes EmbeddingError."""
        pauses = self._breaker.pauses
        if self._breaker.pause_seconds:
            wait = f"left alone for another {self._breaker.pause_seconds:.0f} s after: {self._breaker.reason}"
            raise EmbeddingError(self.name, wait, expected="a source that works", kind="transient")
        try:
            return await self._member.ask(call)
        except EmbeddingError as error:
            if error.kind not in OF_THE_TEXT:
                self._breaker.fail(str(error), pauses=pauses, retry_after_seconds=error.retry_after_seconds)
            raise
        except (MemspineError, CallFailed) as error:
            reason = f"{what} {error.reason if isinstance(error, CallFailed) else f'failed: {error}'}"
            failure = EmbeddingError(self.name, reason, expected="a source that works", kind="transient")
            self._breaker.fail(str(failure), pauses=pauses, retry_after_seconds=failure.retry_after_seconds)
            raise failure from error
