"""What `memspine config show` prints."""

import tomllib

import attrs
import pytest

from memspine.config import config_from_mapping, effective_settings, load_config
from memspine.config.schema import TABLES
from memspine.config.show import toml_text


def test_settings_and_their_origin(tmp_path, plugins):
    """Every setting is listed with its value, its file and line or "default", and its line of help."""
    document = (
        '[backends.a]\nplugin = "full"\napi_key = { env = "KEY" }\nretry = { attempts = 4 }\n'
        'tags = ["x"]\n[retrieval]\nstrategy = "recent"\n'
    )
    (tmp_path / "c.toml").write_text(document, encoding="utf-8")
    settings = effective_settings(load_config("c.toml", plugins=plugins, working_folder=tmp_path))
    shown = {setting.key: (setting.text, setting.origin, setting.help) for setting in settings}
    assert shown["memory.owner"] == ('"me"', "default", "whose memories these are")
    assert shown["retrieval.strategy"][:2] == ('"exact"', "c.toml:7")
    assert shown["backends.a.plugin"] == ('"full"', "c.toml:2", "the full")
    assert shown["backends.a.api_key"][:2] == ('{ env = "KEY" }', "c.toml:3")
    assert shown["backends.a.retry.attempts"] == ("4", "c.toml:4", "how often")
    assert shown["backends.a.retry.pause"] == ("0.5", "default", "")
    assert shown["backends.a.tags"][:2] == ('["x"]', "c.toml:5")
    assert shown["backends.a.mode"][0] == '"safe"'
    assert shown["backends.a.note"][0] == "unset"
    assert shown["backends.a.url"][2] == "where it is"


def test_settings_of_a_mapping(plugins):
    """What a program passes is shown with the name that it gave, and its own secrets not at all."""

    class Known:
        def reveal(self):
            return "s3cret"

    backends = {"a": {"plugin": "full", "api_key": Known(), "keys": [{"env": "A"}], "steps": [{"attempts": 2}]}}
    config = config_from_mapping({"backends": backends}, plugins=plugins, name="mine")
    shown = {setting.key: (setting.text, setting.origin) for setting in effective_settings(config)}
    assert shown["backends.a.api_key"] == ('"(secret)"', "mine")
    assert shown["backends.a.keys"] == ('[{ env = "A" }]', "mine")
    assert shown["backends.a.steps"] == ("[{ attempts = 2, pause = 0.5 }]", "mine")


def test_settings_of_a_chain(tmp_path, plugins):
    """Of each backend it is shown whether it is a replica, and where that was written."""
    document = (
        '[memory]\nprimary = "a"\nfallbacks = ["b"]\non_write_failure = "spool"\n[journal]\npath = "j.db"\n'
        '[backends.a]\nplugin = "full"\n[backends.b]\nplugin = "vault"\nreplicate = true\n'
    )
    (tmp_path / "c.toml").write_text(document, encoding="utf-8")
    settings = effective_settings(load_config("c.toml", plugins=plugins, working_folder=tmp_path))
    shown = {setting.key: (setting.text, setting.origin) for setting in settings}
    assert shown["backends.a.replicate"] == ("false", "default")
    assert shown["backends.b.replicate"] == ("true", "c.toml:11")
    assert shown["memory.on_write_failure"] == ('"spool"', "c.toml:4")
    assert shown["journal.path"] == ('"j.db"', "c.toml:6")


def test_settings_of_sources_stores_and_rerankers(tmp_path, plugins):
    """What configures a plugin is shown with its origin wherever it stands; secrets are references."""
    document = (
        '[embedding]\nsource = "onnx"\n[embedding.b]\nplugin = "onnx"\napi_key = { env = "KEY" }\n'
        '[backends.a]\nplugin = "sqlite"\npath = "a.db"\n[vectors]\ncells = 2\n[rerank.judge]\n'
    )
    (tmp_path / "c.toml").write_text(document, encoding="utf-8")
    settings = effective_settings(load_config("c.toml", plugins=plugins, working_folder=tmp_path))
    shown = {setting.key: (setting.text, setting.origin, setting.help) for setting in settings}
    assert len(shown) == len(settings)
    assert shown["embedding.source"][:2] == ('"onnx"', "c.toml:2")
    assert shown["embedding.b.plugin"] == ('"onnx"', "c.toml:4", "the onnx")
    assert shown["embedding.b.api_key"][:2] == ('{ env = "KEY" }', "c.toml:5")
    assert shown["embedding.onnx.plugin"] == ('"onnx"', "default", "the onnx")
    assert shown["embedding.onnx.model"] == ('"small"', "default", "which model")
    assert shown["vectors.plugin"] == ('"sqlite"', "default", "the sqlite")
    assert shown["vectors.cells"] == ("2", "c.toml:10", "how many")
    assert shown["vectors.path"][:2] == ('"a.db"', "c.toml:8")
    assert shown["rerank.source"][:2] == ('""', "default")
    assert shown["rerank.judge.threads"][:2] == ("1", "default")


def test_the_store_that_memspine_chooses(tmp_path, plugins):
    """With the plugins at hand, the store that nothing names is shown too, unless vectors are switched off."""
    config = load_config(plugins=plugins, environ={}, working_folder=tmp_path)
    shown = {setting.key: setting.text for setting in effective_settings(config)}
    assert shown["vectors.plugin"] == '""'
    shown = {setting.key: setting.text for setting in effective_settings(config, plugins=plugins)}
    assert (shown["vectors.plugin"], shown["vectors.cells"]) == ('"sqlite"', "8")
    config = config_from_mapping({"vectors": {"enabled": False}}, plugins=plugins)
    assert "vectors.cells" not in {setting.key for setting in effective_settings(config, plugins=plugins)}


def test_every_setting_has_help():
    """No field of memspine's own tables lacks its line of help."""
    assert [field.name for cls in TABLES.values() for field in attrs.fields(cls) if not field.metadata["help"]] == []


@pytest.mark.parametrize("value", [1, 1.5, 1e300, True, 'a"\\\n\x7f\x00é', [], [1, "x"], {}, {"a b": {"c": [1]}}])
def test_shown_values_are_toml(value):
    """A value is shown as it can be written."""
    assert tomllib.loads(f"value = {toml_text(value)}")["value"] == value
