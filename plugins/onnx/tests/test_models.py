import re

from memspine_onnx.config import DEFAULT_MODEL, DEFAULT_RERANKER
from memspine_onnx.models import MODELS
from memspine_onnx.plugin import memspine_models


def test_the_default_models_can_be_fetched():
    """What the options name without being set is on the list, and names are there once."""
    names = [model.name for model in memspine_models()]
    assert {DEFAULT_MODEL, DEFAULT_RERANKER} <= set(names)
    assert len(names) == len(set(names))


def test_every_file_is_pinned():
    """Each has a checksum, a size and an address with a revision, and stays inside of its folder."""
    for model in MODELS:
        assert {"tokenizer.json", "config.json"} < {file.path for file in model.files}
        assert sum(file.path.endswith(".onnx") for file in model.files) == 1
        assert model.plugin == "onnx"
        for file in model.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert re.fullmatch(r"https://[^/]+/[\w/.-]+/resolve/[0-9a-f]{40}/[\w/.-]+", file.url)
            assert file.size_bytes > 0
            assert not file.path.startswith("/")
            assert ".." not in file.path
