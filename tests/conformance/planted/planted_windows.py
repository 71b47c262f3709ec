"""Defects in what a source says of its window, of tokens and of what it refuses."""

import asyncio

import attrs
from planted_source_base import Answers, Clean

from memspine.contracts import Vectors
from memspine.errors import EmbeddingError


class NegativeWindow(Clean):
    breaks = ("ES-4",)

    async def identity(self):
        return attrs.evolve(await super().identity(), window_tokens=-1)


class RefusesWhatIsTooLong(Clean):
    breaks = ("ES-22",)

    async def embed(self, texts, *, role):
        if max(await self.count_tokens(texts), default=0) > self._window_tokens:
            raise EmbeddingError(self.name, "too long", expected="less", kind="too_long")
        return await super().embed(texts, role=role)


class CutsTheBatch(Clean):
    """What is beyond the window of one text goes to the next."""

    breaks = ("ES-22",)

    async def embed(self, texts, *, role):
        texts = [*texts]
        for place, count in enumerate(await self.count_tokens(texts)):
            if count > self._window_tokens and place + 1 < len(texts):
                texts[place + 1] = texts[place][-300:] + texts[place + 1]
        return await super().embed(texts, role=role)


class RefusesBlanks(Clean):
    """No defect, as long as it says what is wrong."""

    breaks = ()
    kind = "invalid"

    async def embed(self, texts, *, role):
        if not all(map(str.strip, texts)):
            raise EmbeddingError(self.name, "blank text", expected="words", kind=self.kind)
        return await super().embed(texts, role=role)


class SaysItMayPass(RefusesBlanks):
    breaks = ("ES-23",)
    kind = "transient"


class SaysSomethingElse(RefusesBlanks):
    breaks = ("ES-23",)
    kind = "http-400"


class ShiftsBehindBlanks(Answers):
    """The vectors of a batch with a blank text are those of other texts."""

    breaks = ("ES-18",)

    def change(self, rows, texts, role):
        return rows if all(map(str.strip, texts)) or len(rows) == 1 else [*rows[1:], rows[0]]


class CountsTheBatch(Clean):
    breaks = ("ES-24",)

    async def count_tokens(self, texts):
        return (sum(await super().count_tokens(texts)),)


class CountsPadding(Clean):
    """Every text is as long as the longest of its batch."""

    breaks = ("ES-24",)

    async def count_tokens(self, texts):
        counts = await super().count_tokens(texts)
        return (max(counts, default=0),) * len(counts)


class CountsByLength(Clean):
    breaks = ("ES-24",)

    async def count_tokens(self, texts):
        return await super().count_tokens(sorted(texts, key=len))


class CountsHalves(Clean):
    breaks = ("ES-24",)

    async def count_tokens(self, texts):
        return tuple(1.5 * count for count in await super().count_tokens(texts))


class CountsTheWindowAtMost(Clean):
    breaks = ("ES-25",)

    async def count_tokens(self, texts):
        return tuple(min(count, self._window_tokens) for count in await super().count_tokens(texts))


class CannotCountLongTexts(Clean):
    breaks = ("ES-25",)

    async def count_tokens(self, texts):
        if max(map(len, texts), default=0) > 90_000:
            raise EmbeddingError(self.name, "too long", expected="less", kind="too_long")
        return await super().count_tokens(texts)


class CountsWords(Clean):
    """Too few for whatever is more than one token a word."""

    breaks = ("ES-26",)

    async def count_tokens(self, texts):
        return tuple(len(text.split()) for text in texts)


class SaysItReadsEverything(Clean):
    breaks = ("ES-26",)

    async def identity(self):
        return attrs.evolve(await super().identity(), window_tokens=0)


class PromptsAreNotCounted(Clean):
    """Before a query stands a prompt that takes a part of the window, and nobody says so."""

    breaks = ("ES-26",)

    async def embed(self, texts, *, role):
        prompted = texts if role == "document" else ["represent this question: " + text for text in texts]
        return await super().embed(prompted, role=role)


class CountsAfterClosing(Clean):
    breaks = ("ES-30",)

    async def count_tokens(self, texts):
        closed, self._closed = self._closed, False
        try:
            return await super().count_tokens(texts)
        finally:
            self._closed = closed


class CountsIntoABuffer(Clean):
    breaks = ("ES-31",)
    counted = ()

    async def count_tokens(self, texts):
        self.counted = await super().count_tokens(texts)
        await asyncio.sleep(0)
        return self.counted


class WindowGrows(Clean):
    """Says after the first text that its window is larger."""

    breaks = ("ES-1",)

    async def embed(self, texts, *, role):
        self._window_tokens += 1
        return Vectors(self._dimension, (await super().embed(texts, role=role)).data)
