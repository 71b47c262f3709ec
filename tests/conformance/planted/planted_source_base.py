"""The embedding source without a defect: the reference, with a window."""

import math

from memspine.conformance.reference.embeddings import ReferenceEmbeddings, packed
from memspine.contracts import Vectors


class Clean(ReferenceEmbeddings):
    """No defect. Subclasses say in `breaks` which clauses have to notice them."""

    breaks = ()

    def __init__(self, context):
        super().__init__(context.name, dimension=64, window_tokens=200)
        self.folder = context.data_folder


class Answers(Clean):
    """Changes the vectors of an answer."""

    def change(self, rows, texts, role):
        raise NotImplementedError

    async def embed(self, texts, *, role):
        vectors = await super().embed(texts, role=role)
        rows = [list(vectors.row(n)) for n in range(len(vectors))]
        return Vectors(vectors.dimension, b"".join(packed(row) for row in self.change(rows, texts, role)))


def unit(row):
    norm = math.sqrt(math.fsum(n * n for n in row))
    return [n / norm for n in row]
