"""The vector store: [vectors], its default, and what it shares with the primary."""

import sys
from pathlib import Path

import pytest

from memspine.config import VectorSettings, config_from_mapping, load_config, vector_store
from memspine.errors import ConfigError
from memspine.plugins import PluginEntry, Plugins


def load(tmp_path, text, plugins, **more):
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    return load_config("c.toml", plugins=plugins, working_folder=tmp_path, **more)


def defaults(plugins):
    return plugins.vector_store("sqlite").config_type()


def test_settings_and_options_in_one_table(tmp_path, plugins):
    """The settings of memspine and the options of the store's plugin stand side by side."""
    text = "[vectors]\nplugin = 'vault'\nquantisation = 'int8'\nkeep_hours = 1\nfolder = 'x'\ntoken = { env = 'T' }\n"
    config = load(tmp_path, text, plugins)
    assert config.vectors == VectorSettings(plugin="vault", quantisation="int8", keep_hours=1.0)
    assert (config.store.name, config.store.plugin, config.store.options.folder) == ("vectors", "vault", Path("x"))
    assert config.store.document == {"plugin": "vault", "folder": "x", "token": {"env": "T"}}
    assert vector_store(config, plugins=plugins) is config.store
    assert plugins.failures() == ()


def test_the_default_is_resolved_later(tmp_path, plugins):
    """Nothing is resolved at loading when nothing is written; then the primary's own store is taken."""
    config = load(tmp_path, "", plugins)
    assert (config.vectors, config.store) == (VectorSettings(), None)
    store = vector_store(config, plugins=plugins)
    assert (store.plugin, store.options) == ("sqlite", defaults(plugins))
    assert plugins.failures() == ()


def test_options_without_a_plugin_are_those_of_the_default(tmp_path, plugins):
    """Options are checked by the store that would be taken."""
    config = load(tmp_path, "[vectors]\ncells = 2\n", plugins)
    assert (config.vectors.plugin, config.store.plugin, config.store.options.cells) == ("", "sqlite", 2)
    with pytest.raises(ConfigError, match=r"c\.toml:2: vectors\.cels: unknown key; did you mean 'cells'\?$"):
        load(tmp_path, "[vectors]\ncels = 2\n", plugins)
    with pytest.raises(ConfigError, match=r"c\.toml:2: vectors\.enabld: unknown key; did you mean 'enabled'\?$"):
        load(tmp_path, "[vectors]\nenabld = true\n", plugins)


def test_a_primary_without_a_store_gets_sqlite(tmp_path, plugins):
    """Where the primary's plugin has no store, sqlite keeps the vectors, with nothing of the primary's."""
    text = "[backends.a]\nplugin = 'full'\npath = 'a.db'\n"
    config = load(tmp_path, text, plugins)
    store = vector_store(config, plugins=plugins)
    assert (store.plugin, store.options, store.inherited) == ("sqlite", defaults(plugins), ())


def test_no_store(tmp_path, plugins, monkeypatch):
    """Without any store there is none, options in [vectors] are nobody's, and nothing else is loaded to find out."""
    (tmp_path / "fake_other.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (full,) = (entry for entry in plugins.entries() if entry.name == "full")
    few = Plugins(find=lambda: [full, PluginEntry(name="other", module="fake_other", distribution="memspine-other")])
    text = "[backends.a]\nplugin = 'full'\n"
    config = load(tmp_path, text, few)
    assert vector_store(config, plugins=few) is None
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text + "[vectors]\ncells = 2\nenable = true\n", few)
    nobody = "no vector store is installed that could know it"
    assert [str(problem) for problem in error.value.problems] == [
        f"c.toml:4: vectors.cells: unknown key; {nobody}",
        f"c.toml:5: vectors.enable: unknown key; did you mean 'enabled'?; {nobody}",
    ]
    assert "fake_other" not in sys.modules


@pytest.mark.parametrize("text", ["", "plugin = 'vault'\nfolder = 'x'\ntoken = { env = 'T' }\n"])
def test_switched_off(text, tmp_path, plugins):
    """Without `enabled` there is no store; what is written of one is checked all the same."""
    config = load(tmp_path, f"[vectors]\nenabled = false\n{text}", plugins)
    assert vector_store(config, plugins=plugins) is None


def test_the_primarys_options_are_inherited(tmp_path, plugins):
    """A store of the primary's plugin takes over the options of the same name, as written, unless it has its own."""
    text = "[backends.a]\nplugin = 'sqlite'\npath = 'a.db'\ndoubled = 2\nsize = 3\napi_key = { env = 'K' }\n"
    store = vector_store(load(tmp_path, text, plugins), plugins=plugins)
    assert (store.options.path, store.options.doubled, store.options.cells) == (Path("a.db"), 4, 8)
    assert store.options.api_key.as_data() == {"env": "K"}
    assert store.inherited == ("path", "doubled", "api_key")
    config = load(tmp_path, text + "[vectors]\nplugin = 'sqlite'\npath = 'v.db'\n", plugins)
    assert (config.store.options.path, config.store.inherited) == (Path("v.db"), ("doubled", "api_key"))
    config = load(tmp_path, text.replace("'sqlite'", "'full'") + "[vectors]\nplugin = 'sqlite'\n", plugins)
    assert (config.store.options, config.store.inherited) == (defaults(plugins), ())


def test_only_the_primarys(tmp_path, plugins):
    """A fallback of the same plugin hands nothing on."""
    text = (
        "[memory]\nprimary = 'b'\nfallbacks = ['a']\n[backends.a]\nplugin = 'sqlite'\npath = 'a.db'\n"
        "[backends.b]\nplugin = 'sqlite'\npath = 'b.db'\n"
    )
    assert vector_store(load(tmp_path, text, plugins), plugins=plugins).options.path == Path("b.db")


def test_what_is_inherited_is_wrong_once(tmp_path, plugins):
    """A problem of an inherited option is that of the primary's table, and is not repeated."""
    text = "[backends.a]\nplugin = 'sqlite'\npath = 1\n[vectors]\ncells = 0\n"
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text, plugins)
    assert [(problem.line, problem.key) for problem in error.value.problems] == [
        (3, "backends.a.path"),
        (5, "vectors.cells"),
    ]


def test_the_default_may_lack_options(tmp_path, plugins):
    """A default store that cannot do without options is a problem when it is resolved."""
    config = load(tmp_path, "[backends.a]\nplugin = 'vault'\n", plugins)
    with pytest.raises(ConfigError) as error:
        vector_store(config, plugins=plugins)
    assert str(error.value) == (
        "c.toml: vectors: missing required key 'folder'\nc.toml: vectors: missing required key 'token'"
    )


def test_problems_elsewhere_do_not_hide_those_of_vectors(tmp_path, plugins):
    """With a wrong [memory] the primary is unknown, so only what [vectors] says itself is checked."""
    text = "[memory]\nowner = 1\n[vectors]\nplugin = 'sqlite'\ncells = 0\nkeep_hours = -1\n"
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text, plugins)
    assert [problem.key for problem in error.value.problems] == ["memory.owner", "vectors.cells", "vectors.keep_hours"]
    with pytest.raises(ConfigError) as error:
        load(tmp_path, "[memory]\nowner = 1\n[vectors]\ncells = 0\n", plugins)
    assert [problem.key for problem in error.value.problems] == ["memory.owner"]


def test_settings_from_a_program(plugins):
    """A program may pass the settings as they are."""
    config = config_from_mapping({"vectors": VectorSettings(plugin="sqlite", keep_hours=0.0)}, plugins=plugins)
    assert (config.vectors.keep_hours, config.store.plugin) == (0.0, "sqlite")
