"""What a space holds of a memory: its vectors, or its terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from memspine.contracts import Space, TermRecord, VectorRecord, VectorStore
from memspine.embedding import Embedder
from memspine.embedding.documents import document_text
from memspine.errors import EmbeddingError
from memspine.model import Memory, MemoryRef
from memspine.text import asks, memory_terms, speaker_terms


@attrs.frozen
class Written:
    """How many memories were stored, and those that could not be, with the reason."""

    stored: int
    refused: Mapping[MemoryRef, EmbeddingError] = attrs.field(factory=dict)


class Writer(Protocol):
    """Makes what a space holds of memories, and stores it."""

    @property
    def trouble(self) -> str:
        """Why it can do nothing at the moment; empty when it can."""
        ...

    async def write(self, store: VectorStore, space: Space, memories: Sequence[Memory], *, holder: str) -> Written:
        """Store what the space holds of these memories, as far as they are leased to `holder` still. Raises
        EmbeddingError when it is not one memory's fault that it cannot."""
        ...


class VectorWriter:
    """Embeds memories."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def trouble(self) -> str:
        """Why the source is left alone."""
        breaker = self._embedder.breaker
        return f"left alone for {pause:.0f} s after: {breaker.reason}" if (pause := breaker.pause_seconds) else ""

    async def write(self, store: VectorStore, space: Space, memories: Sequence[Memory], *, holder: str) -> Written:
        """Embed and store. A text without a visible character has no meaning and gets no vector."""
        if blank := {MemoryRef(m.owner, m.id): m.revision for m in memories if not m.content.strip()}:
            await store.settle(space.id, revisions=blank, holder=holder)
        memories = [memory for memory in memories if memory.content.strip()]
        texts = [document_text(memory) for memory in memories]
        vectors = await self._embedder.document_vectors(texts, chunk_tokens=space.chunk_tokens)
        records: list[VectorRecord] = []
        refused: dict[MemoryRef, EmbeddingError] = {}
        for memory, found in zip(memories, vectors, strict=True):
            if isinstance(found, EmbeddingError):
                refused[MemoryRef(memory.owner, memory.id)] = found
            else:
                records += _vector_records(memory, found)
        if records:
            await store.upsert(space.id, records=records, holder=holder)
        return Written(len(memories) - len(refused), refused)


class TermWriter:
    """Analyses memories for the keyword index that a vector store keeps."""

    trouble = ""

    async def write(self, store: VectorStore, space: Space, memories: Sequence[Memory], *, holder: str) -> Written:
        """Analyse and store."""
        await store.index_terms(space.id, records=[_term_record(memory) for memory in memories], holder=holder)
        return Written(len(memories))


def _vector_records(memory: Memory, vectors: Sequence[bytes]) -> list[VectorRecord]:
    return [
        VectorRecord(
            id=memory.id,
            owner=memory.owner,
            chunk=chunk,
            revision=memory.revision,
            session=memory.session,
            type=memory.type.value,
            created_at=memory.created_at,
            expires_at=memory.expires_at,
            vector=vector,
        )
        for chunk, vector in enumerate(vectors)
    ]


def _term_record(memory: Memory) -> TermRecord:
    terms = memory_terms(memory.content, key=memory.key, metadata=memory.metadata, created_at=memory.created_at)
    return TermRecord(
        id=memory.id,
        owner=memory.owner,
        revision=memory.revision,
        session=memory.session,
        type=memory.type.value,
        created_at=memory.created_at,
        expires_at=memory.expires_at,
        terms=Counter(terms),
        speaker=speaker_terms(memory.metadata),
        asks=asks(memory.content),
    )
