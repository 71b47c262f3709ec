import asyncio
import json
import subprocess
import sys
import threading

import numpy as np
import pytest

from memspine.errors import ClosedError, EmbeddingError
from memspine_static import model as models
from memspine_static.config import SHIPPED, StaticConfig, model_folder

from .tools import WORDS, embedded, matrix, opened, rows, rules, run, tensors, write


def refusal(texts=("tree",), **options):
    """The error that embedding raises."""
    with pytest.raises(EmbeddingError) as caught:
        embedded(list(texts), **options)
    assert "words" in str(caught.value)
    return caught.value


def test_registering_imports_nothing_heavy():
    """The plugin's module brings neither numpy nor the tokenizer, and opening does not either."""
    code = (
        "import sys, memspine_static.plugin as p; p.memspine_embedding_sources(); import memspine_static.source; "
        "print([n for n in ('numpy', 'tokie', 'memspine_static.model') if n in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_nothing_reaches_the_network():
    """A whole use with the shipped model imports no module that opens connections."""
    code = (
        "import asyncio, sys; from memspine_static.source import StaticSource; "
        "from memspine_static.config import StaticConfig, model_folder; "
        "folder, name = model_folder(StaticConfig(), None); "
        "source = StaticSource('s', folder=folder, model=name, window_tokens=0); "
        "asyncio.run(source.embed(['hello'], role='query')); "
        "print([n for n in ('huggingface_hub', 'requests', 'httpx', 'urllib3', 'http.client') if n in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_identity_names_the_model(tmp_path):
    """The shipped one by its name, another by its folder, with the window that is configured."""

    async def go(**options):
        async with opened(tmp_path, **options) as source:
            return await source.identity()

    shipped = run(go())
    assert (shipped.plugin, shipped.model, shipped.prompt_scheme) == ("static", SHIPPED, "document-floor")
    write(tmp_path / "mine")
    other = run(go(folder="mine", window_tokens=7))
    assert (other.model, other.dimension, other.window_tokens, other.prompt_scheme) == ("mine", 8, 7, "none")
    assert other.revision != shipped.revision


def test_a_folder_may_begin_at_home(tmp_path, monkeypatch):
    """`~` is the home folder of who runs the program."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write(tmp_path / "mine")
    assert embedded(["tree"], folder="~/mine").shape == (1, 8)


@pytest.mark.parametrize("options", [{"folder": ""}, {"folder": " "}, {"folder": "a\0b"}, {"window_tokens": -1}])
def test_options_are_checked(options):
    """What cannot be meant is refused before anything is opened."""
    with pytest.raises(ValueError, match=r"folder|window_tokens"):
        StaticConfig(**options)


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u2003"])
def test_a_text_without_words_voids_the_batch(text):
    """The error says which text it was, and that the text is the reason."""
    error = refusal(["walnut", "tree", text, "hello"])
    assert error.kind == "invalid"
    assert "text 2 of 4" in error.reason


def test_a_wordless_text_is_found_behind_portions(tmp_path):
    """Its index counts from the beginning of the batch."""
    write(tmp_path)
    error = refusal([*["tree"] * 3000, " "], folder=str(tmp_path))
    assert "text 3000 of 3001" in error.reason


def broken_folders():
    """Ways in which a folder is no model: a name, what makes it so, and words of the message."""
    few = json.dumps(rules(WORDS[:3])).encode()
    yield "nothing", lambda f: (f / "config.json").unlink() or [p.unlink() for p in f.iterdir()], "model.safetensors"
    yield "no weights", lambda f: (f / "model.safetensors").unlink(), "model.safetensors: is missing"
    yield "no tokenizer", lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json: is missing"
    yield "empty weights", lambda f: (f / "model.safetensors").write_bytes(b""), "model.safetensors"
    yield "half the weights", lambda f: half(f / "model.safetensors"), "cut off"
    yield "half the tokenizer", lambda f: half(f / "tokenizer.json"), "tokenizer.json"
    yield (
        "a pointer",
        lambda f: (f / "model.safetensors").write_text("version https://example\noid sha256:0"),
        "cut off",
    )
    yield "a tokenizer of nothing", lambda f: (f / "tokenizer.json").write_bytes(b"{}"), "tokenizer.json"
    yield "few vectors", lambda f: weigh(f, embeddings=matrix(rows=5)), "5 vectors"
    yield "a cube", lambda f: weigh(f, embeddings=matrix().reshape(-1, 2, 4)), "shape"
    yield "another name", lambda f: weigh(f, vectors=matrix()), "only vectors"
    yield "short weights", lambda f: weigh(f, embeddings=matrix(), weights=np.ones(3, np.float32)), "weights"
    yield "no numbers", lambda f: weigh(f, embeddings=matrix() * np.nan), "no numbers"
    yield "no weight", lambda f: weigh(f, embeddings=matrix(), weights=np.full(30, np.inf, np.float32)), "no numbers"
    yield "a mapping out of it", lambda f: weigh(f, embeddings=matrix(), mapping=np.full(30, 99)), "tokens up to 100"
    yield "a mapping below it", lambda f: weigh(f, embeddings=matrix(), mapping=np.full(30, -1)), "tokens up to"
    yield "no configuration", lambda f: (f / "config.json").write_text("{"), "config.json: cannot be read"
    yield "a floor of words", lambda f: (f / "config.json").write_text('{"document_floor": "high"}'), "document_floor"
    yield "a floor below zero", lambda f: (f / "config.json").write_text('{"document_floor": -1}'), "document_floor"
    yield "a folder as tokenizer", lambda f: (f / "tokenizer.json").unlink() or (f / "tokenizer.json").mkdir(), "read"
    assert few


def half(path):
    """Cut a file in the middle."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def weigh(folder, **arrays):
    """Replace the weights."""
    (folder / "model.safetensors").write_bytes(tensors(**arrays))


@pytest.mark.parametrize(("spoil", "words"), [pytest.param(s, w, id=n) for n, s, w in broken_folders()])
def test_a_spoiled_folder_is_a_matter_of_configuration(tmp_path, spoil, words):
    """The error is of that kind, names the file, what is wrong with it, and what would do."""
    spoil(write(tmp_path))
    error = refusal(folder=str(tmp_path))
    assert error.kind == "config"
    assert str(tmp_path) in error.reason
    assert words in error.reason
    assert error.expected


def test_a_folder_that_is_not_there_is_named(tmp_path):
    """So that a wrong path is seen at once."""
    error = refusal(tmp_path and ["tree"], place=tmp_path, folder="nowhere")
    assert error.kind == "config"
    assert str(tmp_path / "nowhere") in error.reason


def test_a_failed_load_is_tried_again(tmp_path):
    """Once the files are whole, the same open source answers."""

    async def go():
        async with opened(folder=str(tmp_path / "m")) as source:
            for _ in range(2):
                with pytest.raises(EmbeddingError):
                    await source.embed(["tree"], role="query")
            write(tmp_path / "m")
            return rows(await source.embed(["tree"], role="query"))

    assert run(go()).shape == (1, 8)


def test_the_model_is_loaded_once_in_a_thread(tmp_path, monkeypatch):
    """However many calls wait for it; the loop goes on meanwhile."""
    write(tmp_path)
    began, go_on, threads = threading.Event(), threading.Event(), []
    load = models.load_model

    def slow(folder):
        threads.append(threading.current_thread())
        began.set()
        assert go_on.wait(10)
        return load(folder)

    monkeypatch.setattr(models, "load_model", slow)

    async def go():
        async with opened(folder=str(tmp_path)) as source:
            calls = [asyncio.ensure_future(source.embed(["tree"], role="query")) for _ in range(5)]
            await asyncio.to_thread(began.wait, 10)
            calls[0].cancel()
            await asyncio.sleep(0)
            go_on.set()
            found = await asyncio.gather(*calls, source.count_tokens(["tree"]), return_exceptions=True)
            assert isinstance(found[0], asyncio.CancelledError)
            assert all(len(vectors) == 1 for vectors in found[1:5])
            assert found[5] == (1,)

    run(go())
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_closing_waits_for_a_load_that_nobody_wants(tmp_path):
    """A caller who gave up, a load that fails, and the end of the source: no error is left over."""

    async def go():
        async with opened(folder=str(tmp_path / "nowhere")) as source:
            call = asyncio.ensure_future(source.identity())
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
        with pytest.raises(ClosedError):
            await source.count_tokens([])

    run(go())


def test_tokens_are_counted_as_the_window_counts_them(tmp_path):
    """Pieces and unknown words each count as one; nothing has none."""
    write(tmp_path)

    async def go():
        async with opened(folder=str(tmp_path)) as source:
            return await source.count_tokens(["trains", "zzz tree", "", "hello world"]), await source.count_tokens([])

    assert run(go()) == ((2, 2, 0, 2), ())


def test_the_shipped_model_knows_what_words_mean():
    """A question without a word of its answer is nearest to it."""
    told = ["Her dog has to see the vet on Friday.", "We painted the kitchen yellow.", "The server's disk is full."]
    asked = ["When is the animal doctor's appointment?", "What color are the walls?", "Why does storage run out?"]
    similarities = embedded(asked, role="query") @ embedded(told).T
    assert similarities.argmax(axis=1).tolist() == [0, 1, 2]


def test_the_shipped_folder_is_complete():
    """Weights, tokenizer and configuration are beside the code."""
    folder, _ = model_folder(StaticConfig(), None)
    assert {path.name for path in folder.iterdir()} >= {"model.safetensors", "tokenizer.json", "config.json"}
