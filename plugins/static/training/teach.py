"""Asks the teacher for the vectors of texts, in chunks that are kept, so that it goes on where it was stopped.

    python teach.py WORK [SECONDS]

Writes WORK/teacher/chunks/00000.npy and so on: float16 (n, 384), unit rows, in the order of WORK/texts.jsonl.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 4096
CHUNKS = 23
"""How many chunks are embedded, and the model fitted on: 94,208 texts. The linear map gains nothing from more."""
WINDOW = 256
BATCH_TOKENS = 2048


class Teacher:
    """The sentence encoder all-MiniLM-L6-v2 with weights of 8 bits; `threads` is for the maths."""

    def __init__(self, folder: Path, threads: int = 2) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        if not (quantised := folder / "q8.onnx").exists():
            export(folder, quantised)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session: Any = onnxruntime.InferenceSession(str(quantised), options, providers=["CPUExecutionProvider"])
        self.tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(WINDOW)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors, float32 (n, 384)."""
        return self.of_ids([encoding.ids for encoding in self.tokenizer.encode_batch_fast(list(texts))])

    def of_ids(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        """The same of texts as token ids with their [CLS] and [SEP]."""
        order = sorted(range(len(ids)), key=lambda n: len(ids[n]))
        vectors = np.zeros((len(ids), 384), np.float32)
        at = 0
        while at < len(order):
            longest = len(ids[order[min(at + 32, len(order) - 1)]])
            batch = order[at : at + max(1, BATCH_TOKENS // longest)]
            at += len(batch)
            tokens = np.zeros((len(batch), max(len(ids[n]) for n in batch)), np.int64)
            mask = np.zeros_like(tokens)
            for row, n in enumerate(batch):
                tokens[row, : len(ids[n])] = ids[n]
                mask[row, : len(ids[n])] = 1
            vectors[batch] = self.session.run(None, {"ids": tokens, "mask": mask})[0]
        return vectors


def export(folder: Path, target: Path) -> None:
    """Write the encoder with its mean pooling and normalising as ONNX, weights in 8 bits."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            kept = mask.unsqueeze(-1).float()
            return torch.nn.functional.normalize((hidden * kept).sum(1) / kept.sum(1), dim=1)

    ids = torch.arange(1000, 1027).reshape(3, 9)
    plain = folder / "plain.onnx"
    axes = {"ids": {0: "b", 1: "l"}, "mask": {0: "b", 1: "l"}, "v": {0: "b"}}
    torch.onnx.export(
        Encoder(), (ids, torch.ones_like(ids)), str(plain), input_names=["ids", "mask"], output_names=["v"],
        dynamic_axes=axes, opset_version=17, dynamo=False,
    )  # fmt: skip
    quantize_dynamic(plain, target, per_channel=True, weight_type=QuantType.QInt8)
    plain.unlink()


def main() -> None:
    """Embed what is missing, until the time is over."""
    work = Path(sys.argv[1])
    end = time.monotonic() + float(sys.argv[2]) if len(sys.argv) > 2 else float("inf")
    chunks = work / "teacher" / "chunks"
    chunks.mkdir(exist_ok=True)
    texts = [json.loads(line)[1] for line in (work / "texts.jsonl").read_text(encoding="utf-8").splitlines()]
    teacher = Teacher(work / "teacher")
    for number in range(min(CHUNKS, -(-len(texts) // CHUNK))):
        target = chunks / f"{number:05}.npy"
        if target.exists():
            continue
        if time.monotonic() > end:
            return
        vectors = teacher(texts[number * CHUNK : (number + 1) * CHUNK])
        with target.with_suffix(".part").open("wb") as file:
            np.save(file, vectors.astype(np.float16))
        target.with_suffix(".part").rename(target)
        sys.stderr.write(f"{number} {time.strftime('%X')}\n")


if __name__ == "__main__":
    main()
