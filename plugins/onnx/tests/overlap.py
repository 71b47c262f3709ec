"""Builds a cross-encoder that knows nothing but whether words are the same, for the conformance kit.

`python overlap.py CACHE [WHEEL]` prints the folder. It has the tokenizer of all-MiniLM-L6-v2 (see minilm.py), and a
random vector for each of its words: each word of the question counts as much as the nearest word of the text is near.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import minilm
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NAME = "overlap"
WIDTH = 96


def build(cache, source=None):
    """The folder `CACHE/overlap`, made unless it is there."""
    folder = Path(cache) / NAME
    if (folder / "model.onnx").is_file():
        return folder
    origin = minilm.build(cache, source)
    folder.mkdir(exist_ok=True)
    shutil.copy(origin / "tokenizer.json", folder)
    identity = {"activation_fn": "torch.nn.modules.linear.Identity"}
    settings = {"max_position_embeddings": 512, "sentence_transformers": identity}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    words = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    onnx.save(model(words), folder / "model.onnx")
    return folder


def model(words):
    """Pairs of texts to one logit."""
    table = np.random.default_rng(1).normal(size=(len(words), WIDTH)).astype(np.float32)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    table[[number for word, number in words.items() if word.startswith("[")]] = 0
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["mask", "second"], ["theirs"]),
        helper.make_node("Sub", ["mask", "theirs"], ["ours"]),
        helper.make_node("Unsqueeze", ["theirs", "last"], ["their_mask"]),
        helper.make_node("Mul", ["rows", "their_mask"], ["their_rows"]),
        helper.make_node("Transpose", ["their_rows"], ["their_columns"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["rows", "their_columns"], ["near"]),
        helper.make_node("ReduceMax", ["near"], ["nearest"], axes=[2], keepdims=0),
        helper.make_node("Mul", ["nearest", "ours"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "middle"], ["logits"], keepdims=1),
    ]
    shape = ["batch", "sequence"]
    constants = {"table": table, "last": np.array([2]), "middle": np.array([1])}
    graph = helper.make_graph(
        nodes,
        NAME,
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape)
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    print(build(*sys.argv[1:]))
