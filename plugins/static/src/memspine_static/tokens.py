"""Cuts texts into the tokens of a tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokie import Tokenizer, TokieError

from memspine_static.failures import ModelFilesError

Ids = npt.NDArray[np.int64]


class Tokens:
    """The tokens of a model: `count` of them, of which `unknown` (None: there is none) stands for what has no token."""

    def __init__(self, path: Path, data: bytes) -> None:
        try:
            self.count, self.unknown = _vocabulary(json.loads(data)["model"])
            self._tokenizer: Any = Tokenizer.from_json(str(path))
        except (OSError, ValueError, TypeError, LookupError, AttributeError, TokieError) as error:
            raise ModelFilesError(path, f"is no tokenizer that can be used ({error})") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def ids(self, texts: Sequence[str]) -> tuple[Ids, Ids]:
        """The ids of all texts in a row, and how many each text has; tokens of unknown words are among them."""
        ids, sizes = self._tokenizer.encode_batch_flat(list(texts), add_special_tokens=False)
        return ids.astype(np.int64), sizes.astype(np.int64)


def _vocabulary(model: dict[str, Any]) -> tuple[int, int | None]:
    """One more than the highest id, and the id of the token for what is unknown."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):  # unigram: pairs of a token and its score
        return len(vocabulary), model.get("unk_id")
    return max(vocabulary.values()) + 1, vocabulary.get(model.get("unk_token"))
