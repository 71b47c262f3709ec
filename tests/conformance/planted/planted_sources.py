"""Embedding sources with one defect each."""

import asyncio
import math
from array import array

import attrs
from planted_source_base import Answers, Clean, unit
from planted_windows import *  # noqa: F403 - one namespace for all defects

from memspine.contracts import Vectors
from memspine.errors import EmbeddingError


class IdentityDrifts(Clean):
    breaks = ("ES-1",)
    calls = 0

    async def identity(self):
        self.calls += 1
        return attrs.evolve(await super().identity(), revision=str(self.calls))


class IdentityOfTheFolder(Clean):
    breaks = ("ES-1",)

    async def identity(self):
        seen = self.folder / "seen"
        revision = "2" if seen.exists() else "1"
        return attrs.evolve(await super().identity(), revision=revision)

    def close(self):
        (self.folder / "seen").touch()
        super().close()


class NoRevision(Clean):
    breaks = ("ES-2",)

    async def identity(self):
        return attrs.evolve(await super().identity(), revision="")


class AnotherDimension(Clean):
    breaks = ("ES-3",)

    async def identity(self):
        return attrs.evolve(await super().identity(), dimension=63)


class DropsEqualTexts(Clean):
    breaks = ("ES-10",)

    async def embed(self, texts, *, role):
        return await super().embed(list(dict.fromkeys(texts)), role=role)


class BigEndian(Clean):
    breaks = ("ES-10",)

    async def embed(self, texts, *, role):
        vectors = await super().embed(texts, role=role)
        numbers = array("f", vectors.data)
        numbers.byteswap()
        return Vectors(vectors.dimension, numbers.tobytes())


class SortsByLength(Clean):
    breaks = ("ES-11",)

    async def embed(self, texts, *, role):
        return await super().embed(sorted(texts, key=len), role=role)


class MixesNeighbours(Answers):
    breaks = ("ES-11",)

    def change(self, rows, texts, role):
        return [unit([a + b / 2 for a, b in zip(row, rows[n - 1], strict=True)]) for n, row in enumerate(rows)]


class NotANumber(Answers):
    breaks = ("ES-12",)

    def change(self, rows, texts, role):
        return [[math.nan, *row[1:]] if len(text) > 1000 else row for row, text in zip(rows, texts, strict=True)]


class LongIsHeavy(Answers):
    breaks = ("ES-13",)

    def change(self, rows, texts, role):
        return [[n * (1 + len(text) / 1000) for n in row] for row, text in zip(rows, texts, strict=True)]


class Forgetful(Answers):
    breaks = ("ES-14",)
    calls = 0

    def change(self, rows, texts, role):
        self.calls += 1
        return [row[self.calls % 3 :] + row[: self.calls % 3] for row in rows]


class SeedOfTheProcess(Answers):
    breaks = ("ES-14",)

    def change(self, rows, texts, role):
        shift = sum(1 for _ in self.folder.iterdir())
        return [row[shift:] + row[:shift] for row in rows]

    def close(self):
        (self.folder / "closed").touch()
        super().close()


class NothingIsAnError(Clean):
    breaks = ("ES-15",)

    async def embed(self, texts, *, role):
        if not texts:
            raise EmbeddingError(self.name, "no texts", expected="some")
        return await super().embed(texts, role=role)


class TakesHundreds(Clean):
    breaks = ("ES-16",)

    async def embed(self, texts, *, role):
        return await super().embed(texts[:512], role=role)


class RefusesLongTexts(Clean):
    breaks = ("ES-17",)

    async def embed(self, texts, *, role):
        if any(len(text) > 32_000 for text in texts):
            raise EmbeddingError(self.name, "too long", expected="less")
        return await super().embed(texts, role=role)


class BlankIsZero(Answers):
    breaks = ("ES-18",)

    def change(self, rows, texts, role):
        return [row if text.strip() else [0.0] * len(row) for row, text in zip(rows, texts, strict=True)]


class SkipsBlanks(Clean):
    breaks = ("ES-18",)

    async def embed(self, texts, *, role):
        return await super().embed([text for text in texts if text.strip()], role=role)


class SecretPrompt(Answers):
    breaks = ("ES-19",)

    def change(self, rows, texts, role):
        return rows if role == "document" else [unit([n + 0.2 for n in row]) for row in rows]


class OtherSpaceForQueries(Answers):
    breaks = ("ES-19", "ES-20")

    def change(self, rows, texts, role):
        return rows if role == "document" else [row[1:] + row[:1] for row in rows]


class SortsItsInput(Clean):
    breaks = ("ES-21",)

    async def embed(self, texts, *, role):
        vectors = await super().embed(texts, role=role)
        if isinstance(texts, list):
            texts.sort()
        return vectors


class ClosesLate(Clean):
    breaks = ("ES-30",)

    def close(self):
        pass


class OpensEarly(Clean):
    breaks = ("ES-30",)

    @staticmethod
    def on_construction(context):
        (context.data_folder / "model.lock").touch()


class SharesABuffer(Clean):
    breaks = ("ES-31",)
    buffer = ()

    async def embed(self, texts, *, role):
        self.buffer = texts
        await asyncio.sleep(0)
        return await super().embed(self.buffer, role=role)


class BreaksWhenCancelled(Clean):
    breaks = ("ES-32",)
    busy = False

    async def embed(self, texts, *, role):
        if self.busy:
            raise EmbeddingError(self.name, "busy", expected="one call at a time")
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        return await super().embed(texts, role=role)
