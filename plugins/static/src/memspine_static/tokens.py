"""Cuts texts into the tokens of a tokenizer.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from attrs.validators import instance_of, optional
from tokie import Tokenizer, TokieError

from memspine_static.failures import ModelFilesError

Ids = npt.NDArray[np.int64]


@attrs.frozen(kw_only=True)
class Compiled:
    """What the configuration of a model says of its tokenizer.tkz: which tokenizer.json it was made from, how large it
    is, how many tokens there are, and which of them stands for the unknown."""

    sha256: str = attrs.field(validator=instance_of(str))
    size_bytes: int = attrs.field(validator=instance_of(int))
    tokens: int = attrs.field(validator=instance_of(int))
    unknown: int | None = attrs.field(validator=optional(instance_of(int)))


class Tokens:
    """The tokens of a model: `count` of them, of which `unknown` (None: there is none) stands for what has no token.
    `is_compiled` says from which file they were read."""

    def __init__(self, path: Path, data: bytes, *, compiled: Compiled | None = None) -> None:
        self._tokenizer: Any = None if compiled is None else _read_compiled(path.with_suffix(".tkz"), data, compiled)
        self.is_compiled = self._tokenizer is not None
        if compiled is not None and self.is_compiled:
            self.count, self.unknown = compiled.tokens, compiled.unknown
        else:
            try:
                self.count, self.unknown = _vocabulary(json.loads(data)["model"])
                self._tokenizer = Tokenizer.from_json(str(path))
            except (OSError, ValueError, TypeError, LookupError, AttributeError, TokieError) as error:
                raise ModelFilesError(path, f"is no tokenizer that can be used ({error})") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def ids(self, texts: Sequence[str]) -> tuple[Ids, Ids]:
        """The ids of all texts in a row, and how many each text has; tokens of unknown words are among them."""
        ids, sizes = self._tokenizer.encode_batch_flat(list(texts), add_special_tokens=False)
        return ids.astype(np.int64), sizes.astype(np.int64)


def _read_compiled(path: Path, data: bytes, compiled: Compiled) -> Any:
    """The tokenizer as it was compiled, which is read in a tenth of the time; None where that is not the same one, or
    was written by another version of the library."""
    if hashlib.sha256(data).hexdigest() != compiled.sha256:
        return None
    try:
        # One that was cut off would stop the library in a way that cannot be caught.
        return Tokenizer.from_file(str(path)) if path.stat().st_size == compiled.size_bytes else None
    except (OSError, TokieError):
        return None


def _vocabulary(model: dict[str, Any]) -> tuple[int, int | None]:
    """One more than the highest id, and the id of the token for what is unknown."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):  # unigram: pairs of a token and its score
        return len(vocabulary), model.get("unk_id")
    return max(vocabulary.values()) + 1, vocabulary.get(model.get("unk_token"))
