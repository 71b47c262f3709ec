"""all-MiniLM-L6-v2 with nothing but a tokenizer and onnxruntime. As a script it answers one question and prints how
much memory that took, in MB; run by test_start.py."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

BATCH_TEXTS = 16
WINDOW = 256


class BareMiniLM:
    """Tokenizer and onnxruntime, and nothing else."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(WINDOW)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def run(self, batch: Sequence[str]) -> Any:
        """The answer of the model to a few texts."""
        encoded = self._tokenizer.encode_batch(batch)
        ids = np.zeros((len(encoded), max(len(one.ids) for one in encoded)), np.int64)
        mask = np.zeros_like(ids)
        for place, one in enumerate(encoded):
            ids[place, : len(one.ids)] = one.ids
            mask[place, : len(one.ids)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return self._session.run(None, given)[0]

    def run_all(self, batch: Sequence[str]) -> None:
        """Many texts, those of about one length together."""
        ordered = sorted(batch, key=len)
        for start in range(0, len(ordered), BATCH_TEXTS):
            self.run(ordered[start : start + BATCH_TEXTS])


def main():
    """Load the model in the folder that the first argument names, and embed the second one."""
    BareMiniLM(Path(sys.argv[1]), threads=1).run([sys.argv[2]])
    from timing import peak_megabytes  # beside this file, which runs as a script

    print(peak_megabytes())


if __name__ == "__main__":
    main()
