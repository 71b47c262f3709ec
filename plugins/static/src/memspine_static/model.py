"""A static model: the vector of a text is the sum of the weighted vectors of its tokens, brought to norm 1.

A model may have a floor. A document that says so little that its sum is shorter than the floor is not brought to norm 1
by its own: the rest of its length goes into a few further dimensions, in a direction of its own. Queries have zeros
there, so that the cosine of a query with "Oh, nice!" is small instead of being left to the accident of one word.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from memspine_static.failures import ModelFilesError
from memspine_static.tensors import Array, read_tensors
from memspine_static.tokens import Compiled, Ids, Tokens

MATRIX_NAMES: Final = ("embeddings", "embedding.weight")
"""What the matrix is called by model2vec and by sentence-transformers."""
REST_DIMENSIONS: Final = 8
"""Of a model with a floor. With one, short documents would all be near each other; with eight they are not."""
BATCH_TEXTS: Final = 1024
BATCH_TOKENS: Final = 4096
"""How many token vectors are in the processor's cache at once: 4 MB of 256 numbers."""

Floats = npt.NDArray[np.float32]


class WordlessText(Exception):
    """The text with this index says nothing: it is empty, or holds blanks only."""

    def __init__(self, index: int) -> None:
        self.index = index
        super().__init__(index)


class BrokenWeights(Exception):
    """A vector of the model holds what is no number."""


@attrs.frozen(kw_only=True)
class StaticModel:
    """A model in memory. `matrix` (rows, columns), `weights` (tokens,) or none, `mapping` (tokens,) of tokens to rows
    or none, `floor` in the unit of the weighted vectors; `revision` is a hash of all of it and of the tokenizer."""

    revision: str
    tokens: Tokens
    matrix: Array
    weights: Floats | None
    mapping: Ids | None
    floor: float

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return int(self.matrix.shape[1]) + (REST_DIMENSIONS if self.floor else 0)

    def count(self, texts: Sequence[str]) -> tuple[int, ...]:
        """How many tokens each text has."""
        starts = range(0, len(texts), BATCH_TEXTS)
        return tuple(size for n in starts for size in self.tokens.ids(texts[n : n + BATCH_TEXTS])[1].tolist())

    def embed(self, texts: Sequence[str], *, as_documents: bool = False) -> Floats:
        """Unit vectors (n, dimension). Raises WordlessText, BrokenWeights."""
        columns = self.matrix.shape[1]
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = texts[start : start + BATCH_TEXTS]
            self._pool(*self._known(*self.tokens.ids(batch)), vectors[start : start + len(batch), :columns])
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        if not np.isfinite(norms).all():
            raise BrokenWeights
        for index in np.flatnonzero(norms == 0).tolist():
            vectors[index, :columns] = by_characters(texts[index], columns, index=index)
            norms[index] = max(1.0, self.floor)
            vectors[index] *= np.float32(norms[index])
        if as_documents and self.floor:
            for index in np.flatnonzero(norms < self.floor).tolist():
                rest = math.sqrt(self.floor**2 - norms[index] ** 2)
                vectors[index, columns:] = rest * direction(vectors[index, :columns].tobytes(), REST_DIMENSIONS)
            norms = np.maximum(norms, self.floor)
        vectors /= norms[:, None].astype(np.float32)
        return vectors

    def _known(self, ids: Ids, sizes: Ids) -> tuple[Ids, Ids]:
        """The same without the tokens that stand for the unknown."""
        if self.tokens.unknown is None:
            return ids, sizes
        known = ids != self.tokens.unknown
        if known.all():
            return ids, sizes
        ends = np.concatenate([[0], np.cumsum(known)])[np.cumsum(sizes)]
        return ids[known], np.diff(ends, prepend=0)

    def _pool(self, ids: Ids, sizes: Ids, into: Floats) -> None:
        """The sum of the token vectors of each text; what has none stays as it is."""
        ends = np.cumsum(sizes)
        first = 0
        while first < len(sizes):
            start = int(ends[first] - sizes[first])
            last = max(first + 1, int(np.searchsorted(ends, start + BATCH_TOKENS, side="right")))
            part = ids[start : ends[last - 1]]
            rows = self.matrix[part if self.mapping is None else self.mapping[part]].astype(np.float32)
            weights = np.ones(len(part), np.float32) if self.weights is None else self.weights[part]
            begin = 0
            for text, end in enumerate((ends[first:last] - start).tolist(), first):
                if end > begin:
                    into[text] = weights[begin:end] @ rows[begin:end]
                begin = end
            first = last


def by_characters(text: str, dimension: int, *, index: int) -> Floats:
    """A vector of norm 1 for a text of which the model knows no token (signs, emoji, a script it has not seen): the sum
    of one random direction a character. Near to what holds the same characters, and to nothing else.

    Raises WordlessText(index) for a text of blanks.
    """
    counts = Counter("".join(text.split()))
    if not counts:
        raise WordlessText(index)
    total = np.zeros(dimension, np.float32)
    for character, count in sorted(counts.items()):
        total += direction(character.encode("utf-8", "surrogatepass"), dimension) * np.float32(math.sqrt(count))
    vector: Floats = total / np.linalg.norm(total)
    return vector


def direction(seed: bytes, dimension: int) -> Floats:
    """A vector of norm 1 that looks random and is always the same for a seed."""
    numbers = np.frombuffer(hashlib.shake_128(seed).digest(2 * dimension), "<i2").astype(np.float32)
    vector: Floats = numbers / np.linalg.norm(numbers)
    return vector


def load_model(folder: Path) -> StaticModel:
    """The model in a folder. Reads its files once, to hash them. Raises ModelFilesError."""
    if not folder.is_dir():
        raise ModelFilesError(folder, "is no folder" if folder.exists() else "does not exist")
    weights_path, tokens_path = folder / "model.safetensors", folder / "tokenizer.json"
    tensors = read_tensors(weights_path)
    rules = _read(tokens_path)
    config_path = folder / "config.json"
    config = _config(config_path)
    tokens = Tokens(tokens_path, rules, compiled=_compiled(config, config_path))
    matrix = _matrix(tensors, weights_path)
    floor = _floor(config, config_path)
    mapping = _vector(tensors, "mapping", tokens, weights_path)
    rows = tokens.count if mapping is None else int(mapping.max()) + 1
    if rows > len(matrix) or (mapping is not None and mapping.min() < 0):
        expected = "a model and a tokenizer that belong together"
        raise ModelFilesError(weights_path, f"has {len(matrix)} vectors for tokens up to {rows}", expected=expected)
    weights = _vector(tensors, "weights", tokens, weights_path)
    if weights is not None and not np.isfinite(weights).all():
        raise ModelFilesError(weights_path, "holds weights that are no numbers")
    return StaticModel(
        revision=_hash(weights_path, rules, floor),
        tokens=tokens,
        matrix=matrix,
        weights=None if weights is None else weights.astype(np.float32),
        mapping=None if mapping is None else mapping.astype(np.int64),
        floor=floor,
    )


def _config(path: Path) -> dict[str, Any]:
    """The configuration of the model; models of others may have none."""
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelFilesError(path, f"cannot be read ({error})") from error
    if not isinstance(config, dict):
        raise ModelFilesError(path, "is no configuration", expected="a JSON object")
    return config


def _compiled(config: dict[str, Any], path: Path) -> Compiled | None:
    """What it says of a compiled tokenizer, if there is one."""
    table = config.get("compiled_tokenizer")
    if table is None:
        return None
    try:
        return Compiled(**table)
    except TypeError as error:
        raise ModelFilesError(path, f"has a compiled_tokenizer that cannot be used ({error})") from error


def _floor(config: dict[str, Any], path: Path) -> float:
    """What it says of a floor; models of others say nothing of it."""
    floor = config.get("document_floor", 0)
    if isinstance(floor, bool) or not isinstance(floor, int | float) or not 0 <= floor < math.inf:
        raise ModelFilesError(path, f"has the document_floor {floor!r}", expected="a number, 0 or more")
    return float(floor)


def _matrix(tensors: dict[str, Array], path: Path) -> Array:
    """The table of vectors."""
    name = next((name for name in MATRIX_NAMES if name in tensors), None)
    if name is None:
        held = ", ".join(tensors) or "nothing"
        raise ModelFilesError(path, f"holds no {' or '.join(MATRIX_NAMES)}, only {held}")
    matrix = tensors[name]
    if matrix.ndim != 2 or not matrix.size:
        raise ModelFilesError(path, f"holds {name!r} of shape {matrix.shape}", expected="rows and columns")
    return matrix


def _vector(tensors: dict[str, Array], name: str, tokens: Tokens, path: Path) -> Any:
    """A tensor with one number a token, if the file holds it."""
    found = tensors.get(name)
    if found is not None and (found.ndim != 1 or len(found) < tokens.count):
        expected = f"one number for each of {tokens.count} tokens"
        raise ModelFilesError(path, f"holds {name!r} of shape {found.shape}", expected=expected)
    return found


def _read(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelFilesError(path, "is missing") from None
    except OSError as error:
        raise ModelFilesError(path, f"cannot be read ({error})") from error


def _hash(weights: Path, rules: bytes, floor: float) -> str:
    """32 hexadecimal digits of the SHA-256 of the weights, the tokenizer and the floor."""
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return hashlib.sha256(digest.digest() + hashlib.sha256(rules).digest() + repr(floor).encode()).hexdigest()[:32]
