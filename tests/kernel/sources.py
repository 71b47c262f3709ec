"""An embedding source that does what a test wants."""

from __future__ import annotations

import asyncio
import math
from array import array
from contextlib import asynccontextmanager

from memspine.breaker import Breaker
from memspine.contracts import EmbeddingIdentity, Vectors
from memspine.embedding import Embedder, EmbeddingCache
from memspine.ondemand import OnDemand


def unit(*values):
    """A vector of norm 1 in the direction of the values, as float32."""
    norm = math.sqrt(sum(value * value for value in values))
    return array("f", [value / norm for value in values]).tobytes()


class Source:
    """Counts letters: a vector says how often a text holds each of a, b, c, and a constant. It keeps what it was asked.

    `answer` may be set to a function of the texts that gives what `embed` answers, or an error to raise.
    """

    name = "letters"
    letters = "abc"

    def __init__(self, *, revision="1", window_tokens=0):
        self.revision = revision
        self.window_tokens = window_tokens
        self.asked = []
        self.openings = 0
        self.answer = None
        self.seconds = 0.0

    async def identity(self):
        """Dimension 4."""
        return EmbeddingIdentity(
            plugin="test",
            model="letters",
            revision=self.revision,
            dimension=len(self.letters) + 1,
            window_tokens=self.window_tokens,
        )

    async def embed(self, texts, *, role):
        """One vector a text, unless told otherwise."""
        self.asked.append((role, tuple(texts)))
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if isinstance(self.answer, BaseException):
            raise self.answer
        if self.answer is not None:
            return self.answer(texts)
        return Vectors(4, b"".join(self.vector(text) for text in texts))

    async def count_tokens(self, texts):
        """A token a word."""
        return tuple(len(text.split()) for text in texts)

    def vector(self, text):
        """The vector of a text."""
        return unit(*(text.count(letter) for letter in self.letters), 1)

    def embedded(self):
        """All documents it was asked to embed, in order."""
        return [text for role, texts in self.asked if role == "document" for text in texts]

    @asynccontextmanager
    async def open(self):
        """The source, opened."""
        self.openings += 1
        yield self


def embedder(source, *, entries=1000, seconds=300.0, clock=None):
    """The kernel's way of using a source; `clock` is the time of its cache and of its breaker."""
    clocks = {} if clock is None else {"clock": clock}
    return Embedder(
        OnDemand(source.name, open=source.open),
        cache=EmbeddingCache(entries=entries, seconds=seconds, **clocks),
        breaker=Breaker(**clocks),
    )
