"""What the tests share: small models that are real ONNX files with real tokenizers, opened sources, child processes."""

from __future__ import annotations

import asyncio
import json
import string
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from memspine_onnx.config import OnnxConfig, OnnxRerankerConfig
from memspine_onnx.reranker import open_reranker
from memspine_onnx.source import open_source

WORDS = "walnut tree garden train lisbon seven bee sting allergic penicillin printer invoice paid cello evening".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
PIECES = [*string.ascii_lowercase, *string.digits, *"?!.,-'…"]
VOCABULARY = [*SPECIAL, *WORDS, *PIECES, *(f"##{piece}" for piece in PIECES)]
WIDTH = 16


def write_tokenizer(folder, *, special=True):
    """A WordPiece tokenizer.json; its own cutting and padding are wrong on purpose, as those of real models are."""
    tokenizer = Tokenizer(models.WordPiece({word: number for number, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    if special:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", VOCABULARY.index("[CLS]")), ("[SEP]", VOCABULARY.index("[SEP]"))],
        )
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(folder / "tokenizer.json"))


def table(seed=1, width=WIDTH):
    """A vector for each token."""
    return np.random.default_rng(seed).normal(size=(len(VOCABULARY), width)).astype(np.float32)


def write_graph(path, nodes, constants, *, inputs=("input_ids", "attention_mask"), outputs, kind=TensorProto.INT64):
    """An ONNX file; `outputs` are name and shape."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, kind, ["batch", "sequence"]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_json(folder, path, document):
    """A JSON file of a model."""
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(json.dumps(document), encoding="utf-8")


def write_embedder(
    folder, *, file="model.onnx", output="last_hidden_state", vectors=None, pooling="mean_tokens", **graph
):
    """An embedding model: the vector of a token is its row of a table, whatever stands beside it."""
    vectors = table() if vectors is None else vectors
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    write_json(folder, "config.json", {"hidden_size": vectors.shape[1], "max_position_embeddings": 32})
    write_json(folder, "1_Pooling/config.json", {f"pooling_mode_{mode}": True for mode in pooling.split()} | {
        "word_embedding_dimension": vectors.shape[1]
    })  # fmt: skip
    write_graph(
        folder / file,
        [helper.make_node("Gather", ["table", "input_ids"], [output])],
        {"table": vectors},
        outputs=[(output, ["batch", "sequence", vectors.shape[1]])],
        **graph,
    )
    return folder


def write_pooled(folder, *, output="sentence_embedding"):
    """An embedding model that takes the mean over its tokens by itself, padding left out."""
    write_embedder(folder)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["floats", "last"], ["mask"]),
        helper.make_node("Mul", ["rows", "mask"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "middle"], ["sums"], keepdims=0),
        helper.make_node("ReduceSum", ["mask", "middle"], ["counts"], keepdims=0),
        helper.make_node("Div", ["sums", "counts"], [output]),
    ]
    constants = {"table": table(), "last": np.array([2]), "middle": np.array([1])}
    write_graph(folder / "model.onnx", nodes, constants, outputs=[(output, ["batch", WIDTH])])
    return folder


def write_cross_encoder(folder, *, labels=1, config=None, outputs=None, file="model.onnx"):
    """A cross-encoder: the logit of the last label is how many words the two texts share, the others are constants."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    write_json(folder, "config.json", {"max_position_embeddings": 64} | (config or {}))
    rows = np.zeros((len(VOCABULARY), len(VOCABULARY)), np.float32)
    rows[len(SPECIAL) :, len(SPECIAL) :] = np.eye(len(VOCABULARY) - len(SPECIAL))
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["mask", "second"], ["theirs"]),
        helper.make_node("Sub", ["mask", "theirs"], ["ours"]),
    ]
    for side in ("ours", "theirs"):
        nodes += [
            helper.make_node("Unsqueeze", [side, "last"], [side + "_mask"]),
            helper.make_node("Mul", ["rows", side + "_mask"], [side + "_rows"]),
            helper.make_node("ReduceMax", [side + "_rows"], [side + "_words"], axes=[1], keepdims=0),
        ]
    nodes += [
        helper.make_node("Mul", ["ours_words", "theirs_words"], ["common"]),
        helper.make_node("ReduceSum", ["common", "middle"], ["score"], keepdims=1),
        helper.make_node("MatMul", ["score", "spread"], ["spread_score"]),
        helper.make_node("Add", ["spread_score", "shift"], ["logits"]),
    ]
    spread = np.zeros((1, labels), np.float32)
    spread[0, -1] = 1
    constants = {
        "table": rows,
        "last": np.array([2]),
        "middle": np.array([1]),
        "spread": spread,
        "shift": np.full(labels, -1, np.float32),
    }
    outputs = outputs or [("logits", ["batch", labels])]
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    write_graph(folder / file, nodes, constants, inputs=inputs, outputs=outputs)
    return folder


class FakeContext:
    """What the kernel gives a provider."""

    def __init__(self, folder, stack, *, name="onnx"):
        self.name = name
        self.config_folder = folder / "config"
        self.data_folder = folder / "data"
        self._stack = stack
        self.resources = {}

    async def shared(self, key, open):
        if key not in self.resources:
            self.resources[key] = await self._stack.enter_async_context(open())
        return self.resources[key]


@asynccontextmanager
async def opened(folder, **options):
    """An embedding source of the model in a folder."""
    async with AsyncExitStack() as stack:
        config = OnnxConfig(**{"model": str(folder)} | options)
        yield await stack.enter_async_context(open_source(config, FakeContext(folder, stack)))


@asynccontextmanager
async def opened_reranker(folder, **options):
    """A reranker of the model in a folder."""
    async with AsyncExitStack() as stack:
        config = OnnxRerankerConfig(**{"model": str(folder)} | options)
        yield await stack.enter_async_context(open_reranker(config, FakeContext(folder, stack)))


def run(coroutine):
    """Run one coroutine to its end."""
    return asyncio.run(coroutine)


def matrix(vectors):
    """The vectors of an answer as rows."""
    return np.frombuffer(vectors.data, "<f4").reshape(-1, vectors.dimension)


async def embed(source, *texts, role="document"):
    """The vectors of these texts as rows."""
    return matrix(await source.embed(texts, role=role))


def embedded(folder, *texts, role="document", **options):
    """The same of a model in a folder."""

    async def go():
        async with opened(folder, **options) as source:
            return await embed(source, *texts, role=role)

    return run(go())


def reranked(folder, query, texts, **options):
    """The scores of a model in a folder."""

    async def go():
        async with opened_reranker(folder, **options) as reranker:
            return await reranker.rerank(query, texts)

    return run(go())


def numbers(text):
    """The token numbers of words of the vocabulary, without the special ones."""
    return [VOCABULARY.index(word) for word in text.split()]


def unit(vector):
    """The vector of norm 1 in its direction."""
    return vector / np.linalg.norm(vector)


def child(code, *arguments):
    """Run Python code in a process of its own, which has to succeed; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
