"""Writes a model folder from fitted token vectors: 8 bits a number, one scale a token.

    python pack.py WORK FOLDER

The folder is one that model2vec reads as well: `embeddings` int8 (V, 256), `weights` float32 (V,), tokenizer.json.
Beside them it has tokenizer.tkz, the same tokenizer as tokie keeps it, which loads in a tenth of the time.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

DOCUMENT_FLOOR = 3.5
"""A document whose token vectors (of mean norm 1) add up to less than this is near to nothing; see the model card."""


def quantise(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 rows, and the float32 by which each is multiplied to be what it was (to half a step)."""
    scales = np.maximum(np.abs(tokens).max(axis=1), 1e-12) / 127
    return np.rint(tokens / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def compile_tokenizer(path: Path) -> dict[str, Any]:
    """Write tokenizer.tkz beside a tokenizer.json; returns what the configuration has to say of it. Needs tokie."""
    from tokie import Tokenizer

    compiled = path.with_suffix(".tkz")
    tokenizer = Tokenizer.from_json(str(path))
    tokenizer.save(str(compiled))
    data = path.read_bytes()
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "size_bytes": compiled.stat().st_size,
        "tokens": tokenizer.vocab_size,
        "unknown": tokenizer.token_to_id(json.loads(data)["model"]["unk_token"]),
    }


def main() -> None:
    """Write the four files."""
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
    config["compiled_tokenizer"] = compile_tokenizer(folder / "tokenizer.json")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
