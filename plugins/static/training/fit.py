"""Finds the token vectors, in closed form: no step depends on chance.

    python fit.py WORK

Reads what vocabulary.py and teach.py wrote; writes WORK/fitted.npz with `tokens` float32 (V, 256), of mean norm 1.

1. A token starts as what the teacher says of it alone, in the 256 directions in which the teacher's sentences differ
   most, times a weight that falls with its frequency.
2. What all tokens share is taken out.
3. One linear map for all tokens turns the sums of tokens to where the teacher's sentences are (ridge regression).
4. The result is half turned and half not: turned, long texts are compared as the teacher does; not turned, words stay
   more apart than the teacher keeps them, which short texts need.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import scipy.sparse
from teach import CHUNKS, Teacher

DIMENSION = 256
LONGEST = 220


def sums(path: Path, count: int, tokens: int) -> scipy.sparse.csr_array:
    """How often each of the tokens occurs in each of the first `count` texts, float64 (count, tokens)."""
    data = np.load(path)
    all_ids, ends = data["ids"], data["ends"][:count]
    starts = np.concatenate([[0], ends[:-1]])
    pieces = [all_ids[start : min(end, start + LONGEST)] for start, end in zip(starts, ends, strict=True)]
    rows = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    ids = np.concatenate(pieces)
    return scipy.sparse.csr_array((np.ones(len(ids)), ids, rows), shape=(count, tokens))


def frequencies(work: Path, tokens: int) -> np.ndarray:
    """The share that each token has in all texts and pairs, float64 (V,)."""
    counts = sum(
        np.bincount(np.load(work / f"tokens-{name}.npz")["ids"], minlength=tokens) for name in ("texts", "pairs")
    )
    shares: np.ndarray = (counts + 1) / counts.sum()
    return shares


def token_vectors(work: Path) -> np.ndarray:
    """What the teacher says of each token alone, float32 (V, 384); kept in WORK/teacher."""
    words = json.loads((work / "words.json").read_text(encoding="utf-8"))
    target = work / "teacher" / f"alone-{len(words)}.npy"
    if not target.exists():
        teacher = Teacher(work / "teacher")
        vocabulary = json.loads((work / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
        old = json.loads((work / "teacher" / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
        tokens = sorted(vocabulary, key=vocabulary.get)
        known = [[old["[CLS]"], old[token], old["[SEP]"]] for token in tokens[: len(tokens) - len(words)]]
        spelled = [encoding.ids for encoding in teacher.tokenizer.encode_batch_fast(words)]
        np.save(target, teacher.of_ids([*known, *spelled]))
    found: np.ndarray = np.load(target)
    return found


def normal(rows: np.ndarray) -> np.ndarray:
    """The rows with norm 1; zeros stay."""
    scaled: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return scaled


def scaled(table: np.ndarray) -> np.ndarray:
    """The table with numbers of mean square 1."""
    result: np.ndarray = table / np.sqrt((table**2).mean())
    return result


def fit(work: Path, *, rarity: float, ridge: float, unturned: float) -> np.ndarray:
    """The token vectors. `rarity` is the share of all words at which a token has half its weight."""
    chunks = [np.load(path) for path in sorted((work / "teacher/chunks").glob("*.npy"))[:CHUNKS]]
    taught = np.concatenate(chunks).astype(np.float64)
    basis = np.linalg.eigh(taught.T @ taught)[1][:, ::-1][:, :DIMENSION]
    alone = token_vectors(work).astype(np.float64) @ basis
    weights = rarity / (rarity + frequencies(work, len(alone)))[:, None]
    start = alone * weights
    spread = np.linalg.norm(start, axis=1, keepdims=True)
    start -= spread * (start.mean(0) / spread.mean())
    counts = sums(work / "tokens-texts.npz", len(taught), len(alone))
    said = np.flatnonzero(np.diff(counts.indptr) >= 2)
    found, wanted = normal(counts[said] @ start), normal(taught[said] @ basis)
    turned = start @ np.linalg.solve(found.T @ found + ridge * np.eye(DIMENSION), found.T @ wanted)
    mixed = scaled(turned) + unturned * scaled(start)
    return (mixed / np.linalg.norm(mixed, axis=1).mean()).astype(np.float32)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The options of a run; the defaults are those of the shipped model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--rarity", type=float, default=2e-3)
    parser.add_argument("--ridge", type=float, default=3.0)
    parser.add_argument("--unturned", type=float, default=1.0)
    return parser.parse_args(given)


def main() -> None:
    """Fit and write."""
    options = arguments()
    tokens = fit(options.work, rarity=options.rarity, ridge=options.ridge, unturned=options.unturned)
    np.savez(options.work / "fitted.npz", tokens=tokens)
    sys.stderr.write(f"{tokens.shape[0]} tokens of {tokens.shape[1]} numbers\n")


if __name__ == "__main__":
    main()
