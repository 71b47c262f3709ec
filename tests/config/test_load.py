"""Which file is taken, what comes of it, and what importing the package costs."""

import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from memspine.config import (
    MemorySettings,
    SecretRef,
    config_from_mapping,
    find_config,
    find_data_folder,
    load_config,
    user_config_file,
)
from memspine.errors import ConfigError

DOCUMENT = """\
[memory]
owner     = "me"
primary   = "notes"
fallbacks = ["vault"]
deadline_seconds = 3
on_write_failure = "spool"

[journal]
path = "waiting.db"

[backends.vault]
plugin = "vault"
replicate = true
url = "https://memory.example.org"
on = true
mode = "fast"
level = 3
tags = ["a", "b"]
pair = [1, 2]
headers = { A = "x" }
note = "n"
mixed = ["x"]
retry = { attempts = 5, pause = 2 }
api_key = { env = "VAULT_KEY" }
keys = [{ file = "key.txt" }]
doubled = 4
anything = { at = 1979-05-27 }

[[backends.vault.steps]]
attempts = 1

[backends.notes]
plugin = "sqlite"
path = "~/memories.db"

[retrieval]
strategy = "recent"
scope = "global"
"""

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no owners and modes of files")


def write(path: Path, text: str = "", *, owner: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or f'[memory]\nowner = "{owner}"\n', encoding="utf-8")
    path.chmod(0o644)
    return path


def test_every_type_is_read(tmp_path, plugins):
    """A file becomes frozen values of the types that are declared, in the order of the file."""
    config = load_config(write(tmp_path / "c.toml", DOCUMENT), plugins=plugins, environ={"VAULT_KEY": "s3cret"})
    assert config.memory == MemorySettings(
        primary="notes", fallbacks=("vault",), deadline_seconds=3.0, on_write_failure="spool"
    )
    assert config.journal.path == "waiting.db"
    assert type(config.memory.deadline_seconds) is float
    assert [backend.name for backend in config.backends] == ["vault", "notes"]
    assert (config.primary.name, [backend.name for backend in config.fallbacks]) == ("notes", ["vault"])
    assert (config.retrieval.strategy, config.retrieval.scope) == ("exact", "shared")
    assert config.backend("notes").options.path == Path.home() / "memories.db"
    vault = config.backend("vault")
    assert (vault.replicate, vault.document["replicate"], config.primary.replicate) == (True, True, False)
    options = vault.options
    assert (options.mode.name, options.level, options.tags, options.pair) == ("FAST", 3, ("a", "b"), (1, 2))
    assert (options.headers, options.note, options.mixed, options.doubled) == ({"A": "x"}, "n", ("x",), 8)
    assert (options.retry.attempts, options.retry.pause, options.steps[0].attempts) == (5, 2.0, 1)
    assert options.api_key == SecretRef(env="VAULT_KEY", folder=tmp_path)
    assert options.api_key.reveal() == "s3cret"
    assert options.keys[0].as_data() == {"file": "key.txt"}
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        config.memory.owner = "you"


def test_defaults(tmp_path, plugins):
    """Without any file there is one backend, sqlite, and every default."""
    config = load_config(plugins=plugins, working_folder=tmp_path)
    assert (config.source.origin, config.source.path, config.source.notes) == ("defaults", None, ())
    assert config.source.folder == tmp_path
    assert config.memory == MemorySettings()
    assert (config.memory.on_write_failure, config.journal.path) == ("refuse", "")
    assert [(backend.name, backend.plugin) for backend in config.backends] == [("sqlite", "sqlite")]
    assert config.primary is config.backends[0]
    assert config.fallbacks == ()
    with pytest.raises(KeyError):
        config.backend("other")


def test_an_option_that_bears_the_name_of_a_switch(plugins_of):
    """A backend whose plugin has an option `replicate` is refused: nobody could say which of both is meant."""
    taken = attrs.make_class("Taken", {"replicate": attrs.field(default=False, type=bool)}, frozen=True)
    with pytest.raises(ConfigError, match="the plugin 'taken' has an option 'replicate', which is no name"):
        config_from_mapping({"backends": {"a": {"plugin": "taken"}}}, plugins=plugins_of("taken", taken))


def test_stores_without_options_are_never_the_same(plugins_of):
    """Two backends of a plugin that has no options are two stores, for nothing could tell them apart."""
    plugins = plugins_of("plain", attrs.make_class("Plain", []))
    chain = {"primary": "a", "fallbacks": ["b"]}
    backends = {name: {"plugin": "plain"} for name in "ab"}
    config = config_from_mapping({"memory": chain, "backends": backends}, plugins=plugins)
    assert len(config.fallbacks) == 1


def test_order_of_the_search(tmp_path, plugins):
    """The path that is named wins over the variable, that over the working folder, that over the user's file."""
    work = tmp_path / "work"
    local = write(work / "memspine.toml", owner="folder")
    user = write(user_config_file(), owner="user")
    named = write(tmp_path / "named.toml", owner="option")
    variable = write(tmp_path / "variable.toml", owner="environment")
    environ = {"MEMSPINE_CONFIG": str(variable)}

    def found(*arguments, environ):
        config = load_config(*arguments, plugins=plugins, environ=environ, working_folder=work)
        assert config.memory.owner == config.source.origin
        return config.source

    assert found(named, environ=environ).path == named
    assert found("../named.toml", environ={}).folder.resolve() == tmp_path.resolve()
    assert found(environ=environ).path == variable
    assert found(environ={"MEMSPINE_CONFIG": ""}).path == local
    assert found(environ={}).notes == ("using ./memspine.toml",)
    local.unlink()
    assert found(environ={}).path == user
    assert found(environ={}).notes == ()


def test_named_files_have_to_be_there(tmp_path, plugins):
    """A file that is named and missing is an error that says who named it; a folder is none, nor a broken link."""
    for arguments, environ, text in [
        (["x.toml"], {}, "x.toml: does not exist"),
        ([], {"MEMSPINE_CONFIG": "y.toml"}, "y.toml: does not exist; $MEMSPINE_CONFIG names it"),
        ([tmp_path], {}, f"{tmp_path}: is a folder; name a file"),
        (["a\0b"], {}, "a\0b: cannot be read: "),
    ]:
        with pytest.raises(ConfigError) as error:
            load_config(*arguments, plugins=plugins, environ=environ, working_folder=tmp_path)
        assert str(error.value).startswith(text)
    user_config_file().parent.mkdir(parents=True)
    user_config_file().symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="does not exist; it is a broken link"):
        load_config(plugins=plugins, environ={}, working_folder=tmp_path)


@posix
def test_unreadable_file(tmp_path, plugins, monkeypatch):
    """A file that may not be read is a problem with the system's reason."""
    file = write(tmp_path / "c.toml", owner="x")

    def refuse(self, *arguments):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match=r"c\.toml: cannot be read: Permission denied$"):
        load_config(file, plugins=plugins)


@posix
def test_a_strangers_file_in_the_working_folder_is_not_used(tmp_path, plugins, monkeypatch):
    """./memspine.toml is passed over when another user owns it or others may write it, and a note says so."""
    file = write(tmp_path / "memspine.toml", owner="folder")
    for mode in (0o664, 0o646):
        file.chmod(mode)
        source = find_config(environ={}, working_folder=tmp_path)
        assert source.origin == "defaults"
        assert source.notes == ("ignoring ./memspine.toml: others may write it; chmod go-w memspine.toml",)
    assert find_config("memspine.toml", environ={}, working_folder=tmp_path).origin == "option"
    file.chmod(0o644)
    monkeypatch.setattr(os, "getuid", lambda: file.stat().st_uid + 1)
    source = find_config(environ={}, working_folder=tmp_path)
    assert source.notes[0].startswith("ignoring ./memspine.toml: it belongs to another user")


def test_a_file_found_in_the_working_folder_gets_no_secrets(tmp_path, plugins):
    """References to secrets are refused in ./memspine.toml unless the file was named."""
    text = '[backends.a]\nplugin = "full"\napi_key = { env = "KEY" }\n'
    file = write(tmp_path / "memspine.toml", text)
    with pytest.raises(ConfigError) as error:
        load_config(plugins=plugins, environ={}, working_folder=tmp_path)
    assert str(error.value) == (
        "memspine.toml:3: backends.a.api_key: a file found in the working folder may not refer to secrets; "
        "name it with --config or $MEMSPINE_CONFIG"
    )
    load_config("memspine.toml", plugins=plugins, environ={}, working_folder=tmp_path)
    load_config(plugins=plugins, environ={"MEMSPINE_CONFIG": str(file)}, working_folder=tmp_path)


def test_missing_default_plugin(tmp_path, plugins, monkeypatch):
    """Without the plugin sqlite the default configuration says what to install."""
    monkeypatch.setattr(type(plugins), "names", lambda self, kind: ())
    monkeypatch.setattr(plugins, "_find", lambda: ())
    with pytest.raises(ConfigError) as error:
        load_config(plugins=plugins, environ={}, working_folder=tmp_path)
    assert str(error.value).startswith("defaults: backends.sqlite.plugin: no memory backend named 'sqlite'; ")
    assert 'pip install "memspine-sqlite"' in str(error.value)


def test_homes_of_nobody(tmp_path, plugins):
    """A path in the home of a user who does not exist is a problem of what named it, never a bug."""
    said = "'~nosuchuser' is nobody's home folder; name the folder in full"
    for path, environ, source in (
        ("~nosuchuser/a.toml", {}, "~nosuchuser/a.toml"),
        (None, {"MEMSPINE_CONFIG": "~nosuchuser/a.toml"}, "$MEMSPINE_CONFIG"),
        (None, {"MEMSPINE_DATA": "~nosuchuser"}, "$MEMSPINE_DATA"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_config(path, plugins=plugins, environ=environ, working_folder=tmp_path)
        assert str(caught.value) == f"{source}: {said}"


def test_data_folder(tmp_path, plugins):
    """Data is in $MEMSPINE_DATA, which is relative to the working folder, else in the user's data folder."""
    assert find_data_folder(environ={"MEMSPINE_DATA": "d"}, working_folder=tmp_path) == tmp_path / "d"
    config = load_config(plugins=plugins, environ={"MEMSPINE_DATA": str(tmp_path)}, working_folder=tmp_path / "w")
    assert config.data_folder == tmp_path
    assert find_data_folder(environ={}).name == "memspine"


def test_mapping(tmp_path, plugins):
    """A program may pass a mapping, with its own paths, tuples, secrets and settings."""

    class Known:
        def reveal(self):
            return "secret"

    options = {"plugin": "full", "path": tmp_path, "tags": ("a",), "api_key": Known(), "note": None}
    config = config_from_mapping(
        {"memory": MemorySettings(primary="a"), "backends": {"a": options, "b": {"plugin": "sqlite"}}},
        plugins=plugins,
        folder=tmp_path,
        data_folder=tmp_path / "data",
    )
    assert config.source.origin == "mapping"
    assert (config.source.folder, config.data_folder) == (tmp_path, tmp_path / "data")
    assert config.primary.options.api_key.reveal() == "secret"
    with pytest.raises(ConfigError, match="no backend named 'z'"):
        config_from_mapping({"memory": MemorySettings(primary="z")}, plugins=plugins)


def test_import_is_light():
    """Importing the package imports no parser and nothing else that only some commands need."""
    code = "import sys, memspine.config; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"cattrs", "platformdirs", "tempfile", "tomlkit", "tomllib"} & set(run.stdout.split())
