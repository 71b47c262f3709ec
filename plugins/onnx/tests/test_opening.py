import asyncio
import gc
import hashlib
import os
import shutil
import threading
import time
import weakref

import numpy as np
import pytest

from memspine.errors import ClosedError, EmbeddingError
from memspine_onnx import folder as folders
from memspine_onnx import source as sources
from memspine_onnx.config import OnnxConfig
from memspine_onnx.engine import Engine, EngineClosed
from memspine_onnx.folder import Checksums
from memspine_onnx.source import OnnxSource, open_source

from .tools import (
    WIDTH,
    FakeContext,
    child,
    embed,
    embedded,
    opened,
    run,
    table,
    write_cross_encoder,
    write_embedder,
    write_json,
)

TEXT = "walnut tree"


def refusal(folder, **options):
    """The error of the first call with a model, which is about the configuration."""
    with pytest.raises(EmbeddingError) as caught:
        embedded(folder, TEXT, **options)
    assert caught.value.kind == "config"
    assert caught.value.expected
    return caught.value


def identity_of(folder, **options):
    async def go():
        async with opened(folder, **options) as source:
            return await source.identity()

    return run(go())


def manifest(folder, *paths, **changes):
    """The manifest of some files as the fetching writes it, with mistakes."""
    entries = []
    for path in paths:
        data = (folder / path).read_bytes()
        entries.append({"path": path, "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)} | changes)
    write_json(folder, "manifest.json", {"files": entries})


def test_registering_imports_nothing_heavy():
    """The plugin's module imports neither the libraries nor what uses them."""
    code = (
        "import sys, memspine_onnx.plugin as p; p.memspine_embedding_sources(); p.memspine_rerankers(); "
        "p.memspine_models(); print([name for name in sys.modules if name.partition('.')[0] in "
        "('asyncio', 'huggingface_hub', 'numpy', 'onnxruntime', 'tokenizers')])"
    )
    assert child(code).strip() == "[]"


def test_embedding_asks_no_hub(tmp_path):
    """No client of a hub is imported, whatever is called."""
    write_embedder(tmp_path)
    code = (
        "import sys; from pathlib import Path; from memspine_onnx.embedding import load_embedding; "
        "from memspine_onnx.folder import Checksums, choose; "
        "load_embedding(choose(Path(sys.argv[1]), model='one', file='', quantised=None), Checksums()); "
        "print([name for name in sys.modules if name.startswith(('http', 'huggingface', 'requests', 'urllib3'))])"
    )
    assert child(code, tmp_path).strip() == "[]"


def test_constructing_touches_nothing(tmp_path):
    """Neither constructing nor entering reads a file; the first call does."""

    async def go():
        async with opened(tmp_path / "none") as source:
            with pytest.raises(EmbeddingError):
                await source.identity()

    run(go())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", ["mine", "nested/mine"])
def test_where_a_model_is(tmp_path, model):
    """A name is looked for among the fetched models, then beside the configuration, as a relative path is."""
    beside = write_embedder(tmp_path / "config" / model)
    first = identity_of(tmp_path, model=model)
    assert first.model == "mine"
    fetched = write_embedder(tmp_path / "data" / "models" / model, vectors=table(2))
    second = identity_of(tmp_path, model=model)
    assert (second.revision == first.revision) == ("/" in model)
    shutil.rmtree(beside)
    assert ("/" in model) or identity_of(tmp_path, model=model) == second
    assert identity_of(tmp_path, model=str(fetched)).revision == identity_of(fetched).revision


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    """A path may begin in the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    write_embedder(tmp_path / "models")
    assert identity_of(tmp_path / "elsewhere", model="~/models").dimension == WIDTH


@pytest.mark.parametrize("value", ["", " ", "a\0b"])
def test_a_model_without_a_name_is_refused(value):
    """The configuration says so before anything is opened."""
    with pytest.raises(ValueError, match="model"):
        OnnxConfig(model=value)


def test_a_missing_model_says_how_to_get_it(tmp_path):
    """The command that fetches it is named, where there is one; nothing is fetched unasked."""
    error = refusal(tmp_path, model="all-MiniLM-L6-v2")
    assert "`memspine models fetch all-MiniLM-L6-v2`" in str(error)
    assert str(tmp_path / "data" / "models" / "all-MiniLM-L6-v2") in str(error)
    assert "`memspine models list`" in str(refusal(tmp_path, model="unheard-of"))
    assert "fetch all-MiniLM-L6-v2`" in str(refusal(tmp_path, model="sentence-transformers/all-MiniLM-L6-v2"))


@pytest.mark.parametrize(
    ("present", "options", "chosen"),
    [
        (["model.onnx", "model_quantized.onnx"], {}, "model.onnx"),
        (["onnx/model.onnx", "onnx/model_quantized.onnx"], {}, "onnx/model.onnx"),
        (["model.onnx", "model_quantized.onnx"], {"quantised": True}, "model_quantized.onnx"),
        (["model.onnx", "onnx/model_int8.onnx"], {"quantised": True}, "onnx/model_int8.onnx"),
        (["model_quantized.onnx"], {}, "model_quantized.onnx"),
        (["encoder.onnx"], {}, "encoder.onnx"),
        (["model.onnx", "encoder.onnx"], {"file": "encoder.onnx"}, "encoder.onnx"),
        (["model.onnx"], {"quantised": True}, None),
        (["model_quantized.onnx"], {"quantised": False}, None),
        (["a.onnx", "b.onnx"], {}, None),
        (["model.onnx"], {"file": "encoder.onnx"}, None),
        ([], {}, None),
    ],
)
def test_which_file_is_used(tmp_path, present, options, chosen):
    """The full weights unless 8-bit ones are asked for or alone; a lone file of another name; the one that is named."""
    write_embedder(tmp_path, vectors=table(2)).joinpath("model.onnx").unlink()
    for file in present:
        vectors = table(1 if file == chosen else 2)
        write_embedder(tmp_path, file=file, vectors=vectors)
    if chosen is None:
        refusal(tmp_path, **options)
    else:
        expected = write_embedder(tmp_path.with_name("expected"))
        assert embedded(tmp_path, TEXT, **options) == pytest.approx(embedded(expected, TEXT))


def test_a_missing_tokenizer_is_told(tmp_path):
    """A folder with vocab.txt alone does not do."""
    write_embedder(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert "has no tokenizer.json" in str(refusal(tmp_path))


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json", "config.json", "1_Pooling/config.json"])
@pytest.mark.parametrize("kept", [0, 0.5])
def test_half_a_file_is_told(tmp_path, file, kept):
    """A file that ends too early is named in the error, with its folder and what to do."""
    write_embedder(tmp_path)
    data = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(data[: int(len(data) * kept)])
    error = refusal(tmp_path)
    assert str(tmp_path / file) in str(error)
    assert "memspine models list" in str(error)


def test_modules_that_are_no_list_are_told(tmp_path):
    """The list of steps is read, or the error names its file."""
    write_embedder(tmp_path)
    write_json(tmp_path, "modules.json", {"0": "Transformer"})
    assert "modules.json" in str(refusal(tmp_path))


def test_steps_that_are_not_done_here_are_refused(tmp_path):
    """A model with a layer behind the pooling gives wrong vectors without it, so it is refused."""
    write_embedder(tmp_path)
    steps = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Normalize", "3_Normalize")]
    types = [{"type": f"sentence_transformers.models.{name}", "path": path} for name, path in steps]
    write_json(tmp_path, "modules.json", types)
    assert "Dense" in str(refusal(tmp_path))


def test_an_interrupted_fetch_is_told(tmp_path):
    """A part of a file that was not fetched to its end is recognised."""
    write_embedder(tmp_path)
    (tmp_path / "model.onnx").rename(tmp_path / "model.onnx.part")
    assert "was not fetched to its end" in str(refusal(tmp_path))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"size_bytes": 7}, "bytes and not 7"),
        ({"sha256": "0" * 64}, "it is not the file that was fetched"),
        ({"path": "other.json"}, "there is no file"),
        ({"size_bytes": "7"}, "is not understood"),
    ],
)
def test_a_manifest_is_believed(tmp_path, changes, reason):
    """What the fetching wrote about the files is compared with them."""
    write_embedder(tmp_path)
    manifest(tmp_path, "model.onnx", "tokenizer.json", **changes)
    if reason is None:
        assert len(embedded(tmp_path, TEXT)) == 1
    else:
        assert reason in str(refusal(tmp_path))


def test_settings_of_another_model_are_told(tmp_path):
    """The dimension of the weights has to be that of the settings."""
    write_embedder(tmp_path)
    write_json(tmp_path, "1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "word_embedding_dimension": 8})
    assert f"have {WIDTH} numbers, but its settings say 8" in str(refusal(tmp_path))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 0.0])
def test_numbers_that_are_none_are_told(tmp_path, number):
    """Weights that give NaN, infinity or nothing but zeros are an error and never a vector."""
    write_embedder(tmp_path, vectors=np.full_like(table(), number))
    assert "not finite, or nothing but zeros" in str(refusal(tmp_path))


def test_a_cross_encoder_is_refused(tmp_path):
    """A model that gives logits is no embedding model."""
    write_cross_encoder(tmp_path)
    assert "gives logits" in str(refusal(tmp_path))


def test_unknown_inputs_are_refused(tmp_path):
    """A model that takes anything but tokens is named with what it takes."""
    write_embedder(tmp_path, inputs=("input_ids", "pixels"))
    assert "takes input_ids, pixels" in str(refusal(tmp_path))


def test_a_failed_load_is_tried_again(tmp_path):
    """Once the folder is in order, the same source works."""

    async def go():
        async with opened(tmp_path / "model") as source:
            for _ in range(2):
                with pytest.raises(EmbeddingError, match="there is no folder"):
                    await source.count_tokens([TEXT])
            write_embedder(tmp_path / "model")
            assert len(await embed(source, TEXT)) == 1

    run(go())


def test_a_model_is_loaded_once(tmp_path, monkeypatch):
    """Calls that come while it is loaded wait for the same load, and so do other sources of the same model."""
    write_embedder(tmp_path)
    loads, load = [], sources.load_embedding
    monkeypatch.setattr(sources, "load_embedding", lambda *given: loads.append(1) or load(*given))

    async def go():
        from contextlib import AsyncExitStack

        async with AsyncExitStack() as stack:
            context = FakeContext(tmp_path, stack)
            options = [{}, {"query_prompt": "bee "}]
            both = [
                await stack.enter_async_context(open_source(OnnxConfig(model=str(tmp_path), **given), context))
                for given in options
            ]
            await asyncio.gather(*(source.embed([TEXT], role="query") for source in both * 5))
            prompted = [await embed(source, TEXT, role="query") for source in both]
            assert prompted[0] != pytest.approx(prompted[1])

    run(go())
    assert len(loads) == 1


def test_other_weights_are_another_identity(tmp_path):
    """Same dimension, other weights or tokenizer or pooling: another revision; the same files: the same."""
    first = identity_of(write_embedder(tmp_path / "one"))
    assert identity_of(write_embedder(tmp_path / "copy" / "one")) == first
    others = [
        write_embedder(tmp_path / "weights" / "one", vectors=table(2)),
        write_embedder(tmp_path / "pooling" / "one", pooling="cls_token"),
        write_embedder(tmp_path / "tokenizer" / "one"),
        write_embedder(tmp_path / "parts" / "one"),
    ]
    tokenizer = others[2] / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    (others[3] / "model.onnx_data").write_bytes(b"weights in a file of their own")
    revisions = {identity_of(folder).revision for folder in others}
    assert len(revisions | {first.revision}) == 5


def test_checksums_are_kept_while_a_file_looks_the_same(tmp_path, monkeypatch):
    """A file is read again only when its size or its time has changed."""
    reads, digest = [], hashlib.file_digest
    monkeypatch.setattr(folders.hashlib, "file_digest", lambda *given: reads.append(1) or digest(*given))
    file, checksums = tmp_path / "file", Checksums()
    file.write_bytes(b"one")
    assert checksums.of(file) == checksums.of(file) == hashlib.sha256(b"one").hexdigest()
    assert len(reads) == 1
    file.write_bytes(b"other")
    assert checksums.of(file) == hashlib.sha256(b"other").hexdigest()


def test_after_leaving_every_call_is_refused(tmp_path):
    """Also the calls that would have nothing to do."""
    write_embedder(tmp_path)

    async def go():
        async with opened(tmp_path) as source:
            await embed(source, TEXT)
        for call in (source.identity(), source.embed([], role="query"), source.count_tokens([TEXT])):
            with pytest.raises(ClosedError):
                await call

    run(go())


def test_leaving_ends_what_is_running(tmp_path):
    """A large call is given up with ClosedError, soon, and nothing is left behind."""
    write_embedder(tmp_path)

    async def go():
        async with opened(tmp_path) as source:
            await source.identity()
            task = asyncio.create_task(source.embed([TEXT * 10] * 200_000, role="document"))
            await asyncio.sleep(0.05)
            began = time.monotonic()
        assert time.monotonic() - began < 20
        with pytest.raises(ClosedError):
            await task

    run(go())
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("memspine-onnx")]


def test_leaving_frees_the_model(tmp_path, monkeypatch):
    """Nothing holds the weights any more."""
    write_embedder(tmp_path)
    held, load = [], sources.load_embedding

    def watched(*given):
        model = load(*given)
        held.append(weakref.ref(model.session))
        return model

    monkeypatch.setattr(sources, "load_embedding", watched)

    async def go():
        async with opened(tmp_path) as source:
            await source.identity()
        return source

    source = run(go())
    gc.collect()
    assert source
    assert held[0]() is None


def test_a_fork_has_to_open_it_anew(tmp_path, monkeypatch):
    """The threads of the parent are not there in a child, so it is told and does not wait for them."""
    write_embedder(tmp_path)

    async def go():
        async with opened(tmp_path) as source:
            await source.identity()
            monkeypatch.setattr(os, "getpid", lambda: 1)
            with pytest.raises(EmbeddingError, match="a fork of it"):
                await source.identity()
            monkeypatch.undo()

    run(go())


def test_an_engine_that_was_not_entered_is_closed():
    """It has no threads before."""
    with pytest.raises(EngineClosed):
        run(Engine(lambda: None, threads=1).loaded())
    with pytest.raises(ClosedError):
        run(OnnxSource(Engine(lambda: None, threads=1), OnnxConfig()).identity())
