import asyncio

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from memspine.errors import EmbeddingError

from .tools import (
    VOCABULARY,
    WIDTH,
    embed,
    embedded,
    numbers,
    opened,
    run,
    table,
    unit,
    write_embedder,
    write_graph,
    write_json,
    write_pooled,
    write_tokenizer,
)

SETTINGS = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
CLS, SEP = VOCABULARY.index("[CLS]"), VOCABULARY.index("[SEP]")
TEXT = "walnut tree garden"
ANY_TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=200)


def rows_of(text, vectors=None):
    """The vectors of a text's tokens, the special ones too."""
    return (table() if vectors is None else vectors)[[CLS, *numbers(text), SEP]]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_embedder(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean_tokens", lambda rows: rows.mean(axis=0)),
        ("cls_token", lambda rows: rows[0]),
        ("max_tokens", lambda rows: rows.max(axis=0)),
        ("lasttoken", lambda rows: rows[-1]),
        ("mean_sqrt_len_tokens", lambda rows: rows.sum(axis=0) / np.sqrt(len(rows))),
        ("weightedmean_tokens", lambda rows: np.average(rows, axis=0, weights=range(1, len(rows) + 1))),
        ("mean_tokens cls_token", lambda rows: np.concatenate([rows[0], rows.mean(axis=0)])),
    ],
)
def test_the_pooling_is_the_models_own(tmp_path, pooling, expected):
    """Every pooling of sentence-transformers is done as it does it, in a batch with longer texts too."""
    write_embedder(tmp_path, pooling=pooling)
    for batch in ([TEXT], [TEXT, TEXT + " train lisbon seven bee"]):
        assert embedded(tmp_path, *batch)[0] == pytest.approx(unit(expected(rows_of(TEXT))), abs=1e-6)


@pytest.mark.parametrize("mode", ["cls", ["cls"]])
def test_newer_files_name_the_pooling(tmp_path, mode):
    """The pooling may be a word, or a list of words."""
    write_embedder(tmp_path)
    write_json(tmp_path, "1_Pooling/config.json", {"embedding_dimension": WIDTH, "pooling_mode": mode})
    assert embedded(tmp_path, TEXT)[0] == pytest.approx(unit(rows_of(TEXT)[0]), abs=1e-6)


@pytest.mark.parametrize("document", [{"pooling_mode": "stars"}, {"pooling_mode_cls_token": False}])
def test_an_unknown_pooling_is_refused(tmp_path, document):
    """A pooling that is not known, or none, is an error and no guess."""
    write_embedder(tmp_path)
    write_json(tmp_path, "1_Pooling/config.json", document)
    with pytest.raises(EmbeddingError, match="pooling") as caught:
        embedded(tmp_path, TEXT)
    assert caught.value.kind == "config"


def test_without_settings_the_mean_is_taken(tmp_path):
    """A folder with nothing but the weights and the tokenizer works: mean, 512 tokens."""
    write_embedder(tmp_path)
    for name in ("config.json", "1_Pooling/config.json"):
        (tmp_path / name).unlink()
    assert embedded(tmp_path, TEXT)[0] == pytest.approx(unit(rows_of(TEXT).mean(axis=0)), abs=1e-6)


@pytest.mark.parametrize("output", ["last_hidden_state", "token_embeddings", "anything"])
def test_outputs_of_tokens(tmp_path, output):
    """The output is found by its name, else by its three axes."""
    write_embedder(tmp_path, output=output)
    assert embedded(tmp_path, TEXT)[0] == pytest.approx(unit(rows_of(TEXT).mean(axis=0)), abs=1e-6)


@pytest.mark.parametrize("output", ["sentence_embedding", "anything"])
def test_a_model_may_pool_by_itself(tmp_path, output):
    """What has two axes is taken as it is, and normalised."""
    write_pooled(tmp_path, output=output)
    assert embedded(tmp_path, "bee", TEXT)[1] == pytest.approx(unit(rows_of(TEXT).mean(axis=0)), abs=1e-6)


def test_inputs_are_those_of_the_model(tmp_path):
    """Types and positions are given to models that take them, in 32 bits where they take those."""
    given = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    write_embedder(tmp_path, inputs=given, kind=TensorProto.INT32)
    assert embedded(tmp_path, TEXT)[0] == pytest.approx(unit(rows_of(TEXT).mean(axis=0)), abs=1e-6)


def test_prompts_are_the_models_own(tmp_path):
    """A query and a document have the prompts of the model's file, and the identity says so."""
    write_embedder(tmp_path)
    prompts = {"query": "bee ", "passage": "cello "}
    write_json(tmp_path, "config_sentence_transformers.json", {"prompts": prompts, "default_prompt_name": None})

    async def go():
        async with opened(tmp_path) as source, opened(tmp_path, query_prompt="", document_prompt="") as plain:
            assert await embed(source, TEXT, role="query") == pytest.approx(await embed(plain, "bee " + TEXT))
            assert await embed(source, TEXT) == pytest.approx(await embed(plain, "cello " + TEXT))
            assert await source.count_tokens([TEXT]) == (3,)
            with_prompts, without = await source.identity(), await plain.identity()
            assert without.prompt_scheme == "none" != with_prompts.prompt_scheme
            assert without.window_tokens == with_prompts.window_tokens + 1 == 30
            assert without.revision == with_prompts.revision

    run(go())


def test_the_default_prompt_is_for_both(tmp_path):
    """Without prompts for the roles, the default one stands before both."""
    write_embedder(tmp_path)
    document = {"prompts": {"retrieval": "bee "}, "default_prompt_name": "retrieval"}
    write_json(tmp_path, "config_sentence_transformers.json", document)
    for role in ("query", "document"):
        plain = embedded(tmp_path, "bee " + TEXT, query_prompt="", document_prompt="")
        assert embedded(tmp_path, TEXT, role=role) == pytest.approx(plain)


def test_prompts_that_are_left_out_of_the_pooling_are_refused(tmp_path):
    """A model that wants that is an error as long as it has prompts."""
    write_embedder(tmp_path)
    write_json(tmp_path, "1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "include_prompt": False})
    assert len(embedded(tmp_path, TEXT)) == 1
    with pytest.raises(EmbeddingError, match="prompts out of the pooling"):
        embedded(tmp_path, TEXT, document_prompt="bee ")


@pytest.mark.parametrize(
    ("files", "window"),
    [
        ({"sentence_bert_config.json": {"max_seq_length": 10}}, 8),
        ({"sentence_bert_config.json": {"max_seq_length": 900}}, 30),
        ({"tokenizer_config.json": {"model_max_length": 12}}, 10),
        ({"tokenizer_config.json": {"model_max_length": 1e30}}, 30),
        ({"config.json": {"max_position_embeddings": 20, "model_type": "roberta"}}, 16),
        ({"config.json": {}}, 510),
    ],
)
def test_the_window_is_the_models_own(tmp_path, files, window):
    """It comes from the first of three files that says it, and is never longer than the model has positions."""
    write_embedder(tmp_path)
    for path, document in files.items():
        write_json(tmp_path, path, document)

    async def go():
        async with opened(tmp_path) as source:
            assert (await source.identity()).window_tokens == window
            text = " ".join(["bee"] * (window - 1))
            fitting, longer, longest = await embed(source, text + " tree", text + " tree cello", text + " cello")
            assert fitting == pytest.approx(longer)
            assert fitting != pytest.approx(longest)
            assert await source.count_tokens([text + " tree", ""]) == (window, 0)

    run(go())


def test_texts_may_be_lowered(tmp_path):
    """Upper case is taken away before the tokenizer where the model says so."""
    write_embedder(tmp_path)
    write_json(tmp_path, "sentence_bert_config.json", {"do_lower_case": True})
    lower, upper = embedded(tmp_path, TEXT, TEXT.upper())
    assert lower == pytest.approx(upper)


@pytest.mark.parametrize("text", ["", " ", "\n\t", "…", "!?", "-"])
def test_a_text_without_words_has_a_vector(model, text):
    """The special tokens alone give one, and the neighbours keep theirs."""
    alone, (before, blank, after) = embedded(model, TEXT), embedded(model, TEXT, text, TEXT)
    assert np.linalg.norm(blank) == pytest.approx(1, abs=1e-4)
    assert before == pytest.approx(alone[0], abs=1e-6)
    assert after == pytest.approx(alone[0], abs=1e-6)


def test_a_text_without_tokens_is_refused(tmp_path):
    """Where a tokenizer adds nothing, a blank text is nothing; the error says that the text is at fault."""
    write_embedder(tmp_path)
    write_tokenizer(tmp_path, special=False)
    with pytest.raises(EmbeddingError) as caught:
        embedded(tmp_path, TEXT, "")
    assert caught.value.kind == "invalid"


@SETTINGS
@given(st.lists(ANY_TEXT, max_size=70), st.sampled_from(["query", "document"]))
def test_vectors_are_in_order_and_independent(model, texts, role):
    """Whatever the texts are and however many: each vector is that of its text alone, of norm 1."""

    async def go():
        async with opened(model) as source:
            together = await embed(source, *texts, role=role)
            assert together.shape == (len(texts), WIDTH)
            for text, vector in zip(texts[:5], together, strict=False):
                assert (await embed(source, text, role=role))[0] @ vector >= 0.999
            assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-4)
            counts = await source.count_tokens(texts)
            assert len(counts) == len(texts)
            assert all(count >= 0 for count in counts)

    run(go())


def test_long_texts_and_large_batches(model):
    """A hundred thousand characters, and two thousand texts, are answered whole and in order."""
    texts = [f"{'bee ' * (number % 40)}walnut {number}" for number in range(2001)]
    texts[7] = "äb𝄞 " * 25_000
    together = embedded(model, *texts)
    for place in (0, 7, 40, 2000):
        assert embedded(model, texts[place])[0] == pytest.approx(together[place], abs=1e-5)


def test_a_model_that_mixes_a_batch_gets_one_text_at_a_time(tmp_path):
    """Where a text's vector depends on its neighbours, as with 8-bit arithmetic, texts go through alone."""
    from onnx import helper

    write_embedder(tmp_path)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("ReduceMax", ["rows"], ["largest"], keepdims=1),
        helper.make_node("Add", ["rows", "largest"], ["last_hidden_state"]),
    ]
    outputs = [("last_hidden_state", ["batch", "sequence", WIDTH])]
    write_graph(tmp_path / "model.onnx", nodes, {"table": table()}, outputs=outputs)
    texts = ["walnut", "cello evening", "bee " * 20]
    alone = [embedded(tmp_path, text)[0] for text in texts]
    assert embedded(tmp_path, *texts) == pytest.approx(np.stack(alone), abs=1e-6)


def test_many_tasks_have_their_own_answers(model):
    """Small and large batches that run at once are not mixed up."""
    texts = [" ".join(VOCABULARY[4 + (n % 15)] for n in range(k % 9 + 1)) + f" {k}" for k in range(120)]

    async def go():
        async with opened(model) as source:
            alone = await embed(source, *texts)
            answers = await asyncio.gather(*(embed(source, *texts[n : n * 3 + 1]) for n in range(40)))
            for number, answer in enumerate(answers):
                assert answer == pytest.approx(alone[number : number * 3 + 1], abs=1e-5)

    run(go())


def test_a_cancelled_call_does_no_harm(model):
    """Cancelled while loading or while computing: others and later calls are answered."""

    async def go():
        async with opened(model) as source:
            for pause in (0, 0.001, 0.01):
                other = asyncio.create_task(source.embed([TEXT], role="document"))
                task = asyncio.create_task(source.embed([TEXT * 5] * 3000, role="document"))
                await asyncio.sleep(pause)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert len(await other) == 1
            assert len(await embed(source, TEXT)) == 1

    run(go())


def test_the_event_loop_stays_free(model):
    """While a large batch is computed, other tasks run."""

    async def go():
        turns = 0
        async with opened(model) as source:
            await source.identity()
            task = asyncio.create_task(source.embed([TEXT] * 5000, role="document"))
            while not task.done():
                await asyncio.sleep(0)
                turns += 1
            await task
        assert turns > 20

    run(go())


def test_nothing_gives_nothing(model):
    """No texts give no vectors and no counts, of the right dimension."""

    async def go():
        async with opened(model) as source:
            vectors = await source.embed([], role="query")
            assert (vectors.dimension, vectors.data, len(vectors)) == (WIDTH, b"", 0)
            assert await source.count_tokens([]) == ()

    run(go())
