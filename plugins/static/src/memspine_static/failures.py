"""What is wrong with the files of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Final

WHOLE_FOLDER: Final = "a whole model2vec folder: model.safetensors and tokenizer.json; copy it again"


class ModelFilesError(Exception):
    """A file of a model is missing, incomplete or not what it should be; `expected` says what would do."""

    def __init__(self, path: Path, reason: str, *, expected: str = WHOLE_FOLDER) -> None:
        self.path, self.reason, self.expected = path, reason, expected
        super().__init__(f"{path}: {reason}")
