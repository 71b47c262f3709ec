"""Embedding sources and rerankers: the tables below [embedding] and [rerank], and what names them."""

import datetime as dt
import json

import attrs
import pytest

from memspine.config import (
    EmbeddingSettings,
    RerankSettings,
    SecretRef,
    check_secrets,
    config_from_mapping,
    load_config,
    source_from_mapping,
)
from memspine.config.schema import VECTOR_WEIGHT
from memspine.errors import ConfigError

DOCUMENT = """\
[embedding]
source = "fast"
fallback = "onnx"
chunk_tokens = 0
[embedding.fast]
plugin = "onnx"
model = "tiny"
folder = "models"
api_key = { env = "KEY" }
[embedding.onnx]
threads = 2
[rerank]
source = "judge"
candidates = 5
[rerank.judge]
model = "large"
[retrieval]
fusion = "rrf"
vector_weight = 1
"""


def load(tmp_path, text, plugins, **more):
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    return load_config("c.toml", plugins=plugins, working_folder=tmp_path, **more)


def test_tables_of_sources(tmp_path, plugins):
    """A table is an instance of the plugin that it names, or else of the plugin of its name, with checked options."""
    config = load(tmp_path, DOCUMENT, plugins)
    assert config.embedding == EmbeddingSettings(source="fast", fallback="onnx", chunk_tokens=0)
    assert [(source.name, source.plugin) for source in config.sources] == [("fast", "onnx"), ("onnx", "onnx")]
    fast = config.embedding_source("fast")
    assert fast.provider is plugins.embedding_source("onnx")
    assert (fast.options.model, fast.options.threads) == ("tiny", 1)
    assert fast.options.api_key == SecretRef(env="KEY", folder=tmp_path)
    assert config.rerank == RerankSettings(source="judge", candidates=5)
    assert [(reranker.name, reranker.options.model) for reranker in config.rerankers] == [("judge", "large")]
    assert config.reranker("judge").provider is plugins.reranker("judge")
    assert (config.retrieval.fusion, config.retrieval.vector_weight) == ("rrf", 1.0)
    with pytest.raises(KeyError):
        config.embedding_source("other")


def test_defaults_load_nothing(tmp_path, plugins):
    """Without tables and names there is `auto`, no reranker, and no plugin is loaded for it."""
    config = load(tmp_path, "", plugins)
    assert (config.embedding, config.sources) == (EmbeddingSettings(), ())
    assert (config.rerank, config.rerankers) == (RerankSettings(), ())
    assert (config.embedding.source, config.rerank.source) == ("auto", "")
    assert config.retrieval.vector_weight == VECTOR_WEIGHT
    assert plugins.failures() == ()  # the broken plugin fails whenever all are loaded


@pytest.mark.parametrize("text", [DOCUMENT, '[embedding]\nsource = "onnx"\n', '[rerank]\nsource = "onnx"\n'])
def test_only_what_is_named_is_loaded(text, tmp_path, plugins):
    """A plugin that the configuration names is loaded, and no other for it."""
    load(tmp_path, text.replace("judge", "onnx"), plugins)
    assert plugins.failures() == ()


def test_plugins_without_a_table(tmp_path, plugins):
    """An installed plugin that is named needs no table: it comes last, with its defaults."""
    text = '[embedding]\nsource = "onnx"\nfallback = "named2"\n[embedding.named2]\nplugin = "onnx"\n'
    config = load(tmp_path, text + '[rerank]\nsource = "judge"\n', plugins)
    assert [source.name for source in config.sources] == ["named2", "onnx"]
    assert config.embedding_source("onnx").document == {"plugin": "onnx"}
    assert config.embedding_source("onnx").options.threads == 1
    assert [reranker.name for reranker in config.rerankers] == ["judge"]


@pytest.mark.parametrize(("written", "kept"), [("none", "none"), ("", "none"), ("auto", "auto")])
def test_no_source(written, kept, tmp_path, plugins):
    """`none` and an empty text are the same, for a fallback and a reranker too."""
    text = f'[embedding]\nsource = "{written}"\nfallback = "none"\n[rerank]\nsource = "none"\n'
    config = load(tmp_path, text, plugins)
    assert (config.embedding.source, config.embedding.fallback, config.rerank.source) == (kept, "", "")


def test_all_problems_at_once(tmp_path, plugins):
    """The problems of settings, tables and names come together with those of the backends, each with its line."""
    text = (
        "[embedding]\nsource = 'fats'\nfallbck = 'x'\nbatch_texts = 0\n[embedding.fast]\nplugin = 'onnx'\nthread = 1\n"
        "[embedding.onnx]\nthreads = 0\napi_key = 'sk-1'\n[rerank]\nsource = 'judg'\n[rerank.judge]\nmodel = 1\n"
        "[backends.sqlite]\nplugin = 'sqlite'\nurll = 1\n"
    )
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text, plugins)
    assert [(problem.line, problem.key) for problem in error.value.problems] == [
        (2, "embedding.source"),
        (3, "embedding.fallbck"),
        (4, "embedding.batch_texts"),
        (7, "embedding.fast.thread"),
        (9, "embedding.onnx.threads"),
        (10, "embedding.onnx.api_key"),
        (12, "rerank.source"),
        (14, "rerank.judge.model"),
        (17, "backends.sqlite.urll"),
    ]
    assert "sk-1" not in str(error.value)


def test_secrets_are_looked_up(tmp_path, plugins):
    """The references of sources, stores and rerankers are checked as those of backends are."""
    text = DOCUMENT + '[vectors]\napi_key = { env = "OTHER" }\n'
    problems = check_secrets(load(tmp_path, text, plugins, environ={}))
    assert [(problem.line, problem.key) for problem in problems] == [
        (9, "embedding.fast.api_key"),
        (21, "vectors.api_key"),
    ]


def test_mappings(plugins, tmp_path):
    """A program may pass settings, tables and its own secrets; what cannot be kept of them is not."""

    class Known:
        def reveal(self):
            return "s3cret"

    table = {"folder": tmp_path, "api_key": Known(), "since": [dt.date(2020, 1, 2), object()]}
    config = config_from_mapping({"embedding": {"source": "onnx", "onnx": table}}, plugins=plugins)
    document = config.sources[0].document
    assert document == {
        "plugin": "onnx", "folder": str(tmp_path), "api_key": "(secret)", "since": ["2020-01-02", "(object)"]
    }  # fmt: skip
    assert json.loads(json.dumps(document)) == document
    assert source_from_mapping(config.sources[0].stored, config=config, plugins=plugins) is config.sources[0]
    with pytest.raises(ConfigError, match="a secret is never written down here"):
        source_from_mapping({**config.sources[0].stored, "threads": 2}, config=config, plugins=plugins)
    config = config_from_mapping({"embedding": EmbeddingSettings(source="onnx")}, plugins=plugins)
    assert [source.name for source in config.sources] == ["onnx"]
    with pytest.raises(ConfigError, match=r"embedding\.source: 'x' is neither"):
        config_from_mapping({"embedding": EmbeddingSettings(source="x")}, plugins=plugins)


def test_a_source_is_opened_again_from_what_was_kept(tmp_path, plugins):
    """What a vector space keeps of a source, through JSON, makes the same source: as written, without its defaults."""
    config = load(tmp_path, DOCUMENT, plugins, environ={"KEY": "s3cret"})
    source = config.embedding_source("fast")
    kept = json.loads(json.dumps(source.stored))
    assert kept == {
        "name": "fast", "plugin": "onnx", "model": "tiny", "folder": "models", "api_key": {"env": "KEY"}
    }  # fmt: skip
    later = load(tmp_path, "", plugins)
    again = source_from_mapping(kept, config=later, plugins=plugins, environ={"KEY": "s3cret"})
    assert again == source
    assert again.stored == kept
    assert again.options.api_key.reveal() == "s3cret"
    assert source_from_mapping({"plugin": "onnx"}, config=later, plugins=plugins).name == "onnx"


def test_what_was_kept_may_no_longer_fit(tmp_path, plugins):
    """A kept source whose plugin is gone or has changed is an error with every reason."""
    config = load(tmp_path, "", plugins)
    for kept, text in [
        ({"name": "a", "plugin": "onnx", "modl": 1, "threads": 0}, "vector space: embedding.a.modl: unknown key; did"),
        ({"name": "a", "plugin": "gone"}, "vector space: embedding.a.plugin: no embedding source named 'gone'; "),
        ({}, 'vector space: embedding."": the name of a source is '),
        ({"plugin": 5}, "vector space: embedding.5.plugin: expected str, got int 5"),
    ]:
        with pytest.raises(ConfigError) as error:
            source_from_mapping(kept, config=config, plugins=plugins)
        assert str(error.value).startswith(text)
    with pytest.raises(ConfigError) as error:
        source_from_mapping({"plugin": "onnx", "modl": 1, "threads": 0}, config=config, plugins=plugins)
    assert [problem.key for problem in error.value.problems] == ["embedding.onnx.modl", "embedding.onnx.threads"]


def test_a_kept_source_gets_no_secrets_that_its_configuration_may_not_have(tmp_path, plugins):
    """A file found in the working folder may name a database of its own, whose spaces get at no secret either."""
    config = load(tmp_path, "", plugins)
    config = attrs.evolve(config, source=attrs.evolve(config.source, origin="folder"))
    with pytest.raises(ConfigError, match="may not refer to secrets"):
        source_from_mapping({"plugin": "onnx", "api_key": {"env": "KEY"}}, config=config, plugins=plugins)
