"""The tokens of the model: those of the teacher without its placeholders, and frequent words that it cuts to pieces.

    python vocabulary.py WORK

Writes WORK/tokenizer.json, WORK/words.json (the added words) and WORK/tokens-{texts,pairs}.npz (`ids` and `ends`).
"""

from __future__ import annotations

import collections
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ADDED_WORDS = 6000
LEAST_TEXTS = 40


def lines(path: Path) -> list[Any]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def frequent_words(texts: Iterable[str], known: set[str], count: int) -> list[str]:
    """The words of letters in most texts that are not known, at least LEAST_TEXTS of them, most frequent first."""
    seen: collections.Counter[str] = collections.Counter()
    for text in texts:
        seen.update(set(re.findall(r"(?<!\w)[a-z]{4,20}(?!\w)", text.lower())))
    ranked = sorted(seen, key=lambda word: (-seen[word], word))  # not as they were counted: sets have no order
    return [word for word in ranked if seen[word] >= LEAST_TEXTS and word not in known][:count]


def build(teacher: Path, words: Sequence[str]) -> str:
    """A tokenizer.json with the teacher's rules over the new vocabulary."""
    old = json.loads((teacher / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = sorted(old["model"]["vocab"], key=old["model"]["vocab"].get)
    kept = [token for token in vocabulary if not re.fullmatch(r"\[(unused\d+|CLS|SEP|MASK|PAD|UNK)\]", token)]
    tokens = ["[UNK]", *kept, *words]
    old["model"]["vocab"] = {token: number for number, token in enumerate(tokens)}
    old["added_tokens"] = [token | {"id": 0} for token in old["added_tokens"] if token["content"] == "[UNK]"]
    old["post_processor"] = old["truncation"] = old["padding"] = None
    return json.dumps(old, ensure_ascii=False)


def encode(tokenizer: Any, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all texts in a row without those of unknown words, and where each text ends."""
    ids: list[np.ndarray] = []
    for start in range(0, len(texts), 10_000):
        found = tokenizer.encode_batch_fast(list(texts[start : start + 10_000]), add_special_tokens=False)
        ids += [np.array([n for n in encoding.ids if n], np.int32) for encoding in found]
    return np.concatenate(ids), np.cumsum([len(row) for row in ids])


def main() -> None:
    """Write the tokenizer and the texts as tokens."""
    from tokenizers import Tokenizer

    work = Path(sys.argv[1])
    texts = [text for _, text in lines(work / "texts.jsonl")]
    pairs = lines(work / "pairs.jsonl")
    old = json.loads((work / "teacher" / "tokenizer.json").read_text(encoding="utf-8"))
    words = frequent_words(
        (*texts, *(text for pair in pairs for text in pair[1:])), set(old["model"]["vocab"]), ADDED_WORDS
    )
    (work / "words.json").write_text(json.dumps(words), encoding="utf-8")
    (work / "tokenizer.json").write_text(build(work / "teacher", words), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    for name, rows in (("texts", texts), ("pairs", [text for pair in pairs for text in pair[1:]])):
        ids, ends = encode(tokenizer, rows)
        np.savez(work / f"tokens-{name}.npz", ids=ids, ends=ends)
        sys.stderr.write(f"{name}: {len(ids)} tokens, {len(words)} added words\n")


if __name__ == "__main__":
    main()
