"""The models that `memspine models fetch` can fetch: pinned revisions of public repositories, with checksums."""

from __future__ import annotations

from typing import Final

from memspine.contracts import Model, ModelFile

_HUB: Final = "https://huggingface.co/{repository}/resolve/{revision}/{path}"


def _files(repository: str, revision: str, *files: tuple[str, str, str, int]) -> tuple[ModelFile, ...]:
    """Each file is its path here, its path there, its SHA-256 and its size in bytes."""
    return tuple(
        ModelFile(
            path=path,
            url=_HUB.format(repository=repository, revision=revision, path=source),
            sha256=sha256,
            size_bytes=size_bytes,
        )
        for path, source, sha256, size_bytes in files
    )


def _same(path: str, sha256: str, size_bytes: int) -> tuple[str, str, str, int]:
    return path, path, sha256, size_bytes


_MINILM: Final = ("sentence-transformers/all-MiniLM-L6-v2", "1110a243fdf4706b3f48f1d95db1a4f5529b4d41")
_MINILM_SETTINGS: Final = (
    _same("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037", 466_247),
    _same("tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b", 350),
    _same("special_tokens_map.json", "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3", 112),
    _same("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41", 612),
    _same("modules.json", "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf", 349),
    _same("1_Pooling/config.json", "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23", 190),
    _same("sentence_bert_config.json", "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7", 53),
    _same("config_sentence_transformers.json", "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3", 116),
)
_MARCO: Final = ("cross-encoder/ms-marco-MiniLM-L6-v2", "c5ee24cb16019beea0893ab7796b1df96625c6b8")
_MARCO_SETTINGS: Final = (
    _same("tokenizer.json", "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66", 711_396),
    _same("tokenizer_config.json", "a5c2e5a7b1a29a0702cd28c08a399b5ecc110c263009d17f7e3b415f25905fd8", 1_330),
    _same("special_tokens_map.json", "3c3507f36dff57bce437223db3b3081d1e2b52ec3e56ee55438193ecb2c94dd6", 132),
    _same("config.json", "380e02c93f431831be65d99a4e7e5f67c133985bf2e77d9d4eba46847190bacc", 794),
)
_FULL: Final = ("model.onnx", "onnx/model.onnx")
_INT8: Final = ("model_quantized.onnx", "onnx/model_quint8_avx2.onnx")

MODELS: Final = (
    Model(
        name="all-MiniLM-L6-v2",
        plugin="onnx",
        summary="embeddings of English sentences, 384 numbers",
        licence="Apache-2.0",
        files=_files(
            *_MINILM,
            (*_FULL, "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452", 90_405_214),
            *_MINILM_SETTINGS,
        ),
    ),
    Model(
        name="all-MiniLM-L6-v2-int8",
        plugin="onnx",
        summary="the same with 8-bit weights: a quarter of the size, about twice as fast, slightly other vectors",
        licence="Apache-2.0",
        files=_files(
            *_MINILM,
            (*_INT8, "b941bf19f1f1283680f449fa6a7336bb5600bdcd5f84d10ddc5cd72218a0fd21", 23_046_789),
            *_MINILM_SETTINGS,
        ),
    ),
    Model(
        name="ms-marco-MiniLM-L6-v2",
        plugin="onnx",
        summary="a cross-encoder that judges English passages against a question",
        licence="Apache-2.0",
        files=_files(
            *_MARCO,
            (*_FULL, "5d3e70fd0c9ff14b9b5169a51e957b7a9c74897afd0a35ce4bd318150c1d4d4a", 91_011_230),
            *_MARCO_SETTINGS,
        ),
    ),
    Model(
        name="ms-marco-MiniLM-L6-v2-int8",
        plugin="onnx",
        summary="the same with 8-bit weights: a quarter of the size, about twice as fast",
        licence="Apache-2.0",
        files=_files(
            *_MARCO,
            (*_INT8, "c80a8b34256ea453093d612e3ac48d3d965a0c0a48c7906709af8b8e28461bf9", 23_200_716),
            *_MARCO_SETTINGS,
        ),
    ),
)
"""Sizes and checksums are those that the hub publishes for these revisions."""
