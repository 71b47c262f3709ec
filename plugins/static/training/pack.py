"""Writes a model folder from fitted token vectors: 8 bits a number, one scale a token.

    python pack.py WORK FOLDER

The folder is one that model2vec reads as well: `embeddings` int8 (V, 256), `weights` float32 (V,), tokenizer.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

DOCUMENT_FLOOR = 3.5
"""A document whose token vectors (of mean norm 1) add up to less than this is near to nothing; see the model card."""


def quantise(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 rows, and the float32 by which each is multiplied to be what it was (to half a step)."""
    scales = np.maximum(np.abs(tokens).max(axis=1), 1e-12) / 127
    return np.rint(tokens / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def main() -> None:
    """Write the three files."""
    work, folder = map(Path, sys.argv[1:3])
    folder.mkdir(parents=True, exist_ok=True)
    tokens = np.load(work / "fitted.npz")["tokens"]
    rows, scales = quantise(tokens / np.linalg.norm(tokens, axis=1).mean())
    rows[0] = 0  # the unknown token says nothing
    save_file({"embeddings": rows, "weights": scales}, folder / "model.safetensors", metadata={"format": "np"})
    rules = json.loads((work / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_text(
        json.dumps(rules, ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
    )
    config = {"model_type": "model2vec", "hidden_dim": tokens.shape[1], "normalize": True, "embedding_dtype": "int8"}
    config["document_floor"] = DOCUMENT_FLOOR
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
