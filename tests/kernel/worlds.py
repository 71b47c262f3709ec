"""A primary, a vector store and any number of indexes over them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import attrs

from memspine import times
from memspine.chain import Chain, Member
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.conformance.reference.vectors import ReferenceVectorStore
from memspine.embedding import Chosen, EmbeddingCache
from memspine.errors import EmbeddingError
from memspine.indexing import IndexSettings, VectorIndex
from memspine.model import MemoryFilter, MemoryRef, NewMemory, Scope
from memspine.ondemand import OnDemand

from .sources import embedder

ME = Scope.of_owner("me")
EVERYONE = Scope.everyone()


class Chosens:
    """Stands for the sources of a configuration: the first is the configured one, the second its fallback; the `known`
    ones can be opened for the spaces that they made."""

    def __init__(self, *sources, known=()):
        self.cache = EmbeddingCache(entries=10, seconds=10)
        self.used = {source.revision: embedder(source) for source in (*sources, *known)}
        self.order = [source.revision for source in sources]

    def configured(self):
        return self._chosen(0)

    def fallback(self):
        return self._chosen(1) if len(self.order) > 1 else None

    def of_space(self, space):
        if space.source["revision"] not in self.used:
            raise EmbeddingError("letters", "its plugin is gone", expected="it", kind="config")
        return self.used[space.source["revision"]]

    async def close(self):
        for use in self.used.values():
            await use.close()

    def _chosen(self, place):
        revision = self.order[place]
        return Chosen(name=revision, reason="test", embedder=self.used[revision], document={"revision": revision})


@attrs.define
class World:
    """A primary and a vector store that any number of managers share."""

    backend: ReferenceBackend
    store: ReferenceVectorStore
    number: int = 0

    def index(self, *sources, known=(), **options):
        chain = Chain([Member("primary", open=opener(self.backend))], deadline_seconds=5)
        chosen = Chosens(*sources, known=known)
        options = {"batch_texts": 4, **options}
        store = OnDemand("vectors", open=opener(self.store))
        return VectorIndex(chain, store=store, sources=chosen, settings=IndexSettings(**options))

    async def add(self, *texts, owner="me"):
        scope = Scope.of_owner(owner)
        ids = [f"m{self.number + n:05}" for n in range(len(texts))]
        self.number += len(texts)
        memories = [NewMemory(content=text) for text in texts]
        await self.backend.create_many(memories, scope=scope, ids=ids, now=times.now())
        return ids

    async def held(self):
        """The revision of each memory in the active space."""
        (space,) = [space for space in await self.store.spaces() if space.active]
        shelf = self.store.shelves[space.id]
        return {ref: shelf.revision(ref) for ref in shelf.chunks}

    async def alive(self):
        page = await self.backend.list(MemoryFilter(), scope=EVERYONE, now=times.now(), limit=10_000)
        return {MemoryRef(memory.owner, memory.id): memory.revision for memory in page.memories}


def opener(value):
    @asynccontextmanager
    async def open():
        yield value

    return open


async def answers(index):
    """The spaces that may answer, best first."""
    return [answering async for answering in index.answering()]


def world(*, without=()):
    backend = ReferenceBackend("primary")
    backend.capabilities = frozenset(backend.capabilities - set(without))
    return World(backend, ReferenceVectorStore("vectors"))
