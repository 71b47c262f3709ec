import asyncio
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memspine.errors import ClosedError, RerankError

from .tools import opened_reranker, reranked, run, write_cross_encoder, write_embedder, write_json

SETTINGS = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
QUERY = "walnut tree garden"
TEXTS = ["train lisbon", "walnut tree", "bee", "garden walnut tree cello", ""]
SHARED = [0, 2, 0, 3, 0]
RAW = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}
ANY_TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=100)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_cross_encoder(tmp_path_factory.mktemp("model"), config=RAW)


def logistic(value):
    return 1 / (1 + math.exp(-value))


@pytest.mark.parametrize(
    ("config", "score"),
    [
        (RAW, lambda logit: logit),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, lambda logit: logit),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}, logistic),
        ({}, logistic),
    ],
)
def test_scores_of_one_label(tmp_path, config, score):
    """The logit as it is where the model's settings say so, else its logistic; in the order of the texts."""
    write_cross_encoder(tmp_path, config=config)
    assert reranked(tmp_path, QUERY, TEXTS) == pytest.approx([score(shared - 1) for shared in SHARED])


@pytest.mark.parametrize(
    ("names", "label", "expected"),
    [
        (["no", "yes"], "", lambda shared: shared),
        (["no", "yes"], "no", lambda shared: -shared),
        (["contradiction", "neutral", "Entailment"], "", lambda shared: shared - math.log(2)),
        (["a", "b", "c"], "c", lambda shared: shared - math.log(2)),
    ],
)
def test_scores_of_several_labels(tmp_path, names, label, expected):
    """One label counts against all others: the second of two, entailment, or the one that is chosen."""
    config = {"id2label": {str(number): name for number, name in enumerate(names)}}
    write_cross_encoder(tmp_path, labels=len(names), config=config)
    assert reranked(tmp_path, QUERY, TEXTS, label=label) == pytest.approx([expected(shared) for shared in SHARED])


def test_two_labels_need_no_names(tmp_path):
    """Without names the second of two counts."""
    write_cross_encoder(tmp_path, labels=2)
    assert reranked(tmp_path, QUERY, TEXTS) == pytest.approx(SHARED)


@pytest.mark.parametrize(
    ("labels", "config", "label", "reason"),
    [
        (3, {"id2label": {"0": "a", "1": "b", "2": "c"}}, "", "has the labels a, b, c"),
        (3, {}, "", "3 labels without names"),
        (1, {"id2label": {"0": "LABEL_0"}}, "yes", "no label 'yes'"),
        (1, {"id2label": {"0": "a", "1": "b"}}, "", "gives 1 numbers a pair, but its settings say 2"),
    ],
)
def test_labels_that_say_nothing_are_refused(tmp_path, labels, config, label, reason):
    """Where nobody can know which label counts, the error names them."""
    write_cross_encoder(tmp_path, labels=labels, config=config)
    with pytest.raises(RerankError, match=reason) as caught:
        reranked(tmp_path, QUERY, TEXTS, label=label)
    assert caught.value.kind == "config"


def test_an_embedding_model_is_refused(tmp_path):
    """The weights of another kind of model are told from a cross-encoder's."""
    write_embedder(tmp_path)
    with pytest.raises(RerankError, match="last_hidden_state") as caught:
        reranked(tmp_path, QUERY, TEXTS)
    assert caught.value.kind == "config"


def test_a_missing_model_says_how_to_get_it(tmp_path):
    """The default model is fetched by a command, which the error names."""
    with pytest.raises(RerankError, match="memspine models fetch ms-marco-MiniLM-L6-v2") as caught:
        reranked(tmp_path, QUERY, TEXTS, model="ms-marco-MiniLM-L6-v2")
    assert caught.value.kind == "config"


def test_the_text_is_cut_and_not_the_question(model):
    """What is beyond the window is cut off the text; only a question of more than half the window is cut itself."""
    long = "bee " * 100
    assert reranked(model, QUERY, [long + QUERY, QUERY + " " + long]) == pytest.approx([-1, 2])
    assert reranked(model, QUERY + " " + long, [QUERY, "lisbon"]) == pytest.approx([2, -1])


@SETTINGS
@given(ANY_TEXT, st.lists(ANY_TEXT, max_size=40))
def test_a_score_depends_on_its_pair_alone(model, query, texts):
    """Whatever the texts are and however many: one finite score each, the same as alone."""

    async def go():
        async with opened_reranker(model) as reranker:
            scores = await reranker.rerank(query, texts)
            assert len(scores) == len(texts)
            assert all(map(math.isfinite, scores))
            for text, score in zip(texts[:5], scores, strict=False):
                assert await reranker.rerank(query, [text]) == pytest.approx([score], abs=1e-5)

    run(go())


def test_many_texts_long_texts_and_many_tasks(model):
    """A thousand texts, a hundred thousand characters, and twenty calls at once are answered whole."""

    async def go():
        async with opened_reranker(model) as reranker:
            texts = [TEXTS[number % 5] + " bee" * (number % 30) for number in range(1000)]
            scores = await reranker.rerank(QUERY, texts)
            assert scores == pytest.approx([SHARED[number % 5] - 1 for number in range(1000)])
            assert len(await reranker.rerank("äb𝄞 " * 25_000, ["äb𝄞 " * 25_000, "bee"])) == 2
            calls = [reranker.rerank(QUERY, texts[n : 3 * n]) for n in range(20)]
            for n, answer in enumerate(await asyncio.gather(*calls)):
                assert answer == pytest.approx(scores[n : 3 * n])
            assert await reranker.rerank(QUERY, []) == ()

    run(go())


def test_life_cycle(model):
    """A cancelled call does no harm, and after leaving every call raises ClosedError."""

    async def go():
        async with opened_reranker(model) as reranker:
            task = asyncio.create_task(reranker.rerank(QUERY, TEXTS * 500))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(await reranker.rerank(QUERY, TEXTS)) == 5
        for texts in (TEXTS, []):
            with pytest.raises(ClosedError):
                await reranker.rerank(QUERY, texts)

    run(go())


def test_a_manifest_is_believed(tmp_path):
    """A file with another checksum than the one it was fetched with is refused."""
    write_cross_encoder(tmp_path)
    size = (tmp_path / "model.onnx").stat().st_size
    entry = {"path": "model.onnx", "sha256": "0" * 64, "size_bytes": size}
    write_json(tmp_path, "manifest.json", {"files": [entry]})
    with pytest.raises(RerankError, match="SHA-256") as caught:
        reranked(tmp_path, QUERY, TEXTS)
    assert caught.value.kind == "config"
