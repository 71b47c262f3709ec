"""`memspine new-plugin`: what it writes is built, installed, found and proven, so that the guide cannot rot."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from memspine.conformance.clauses import read_clauses
from memspine.plugins import PluginEntry
from memspine.scaffold import ScaffoldError, kit_command, write_plugin
from memspine.scaffold.writing import NAME_LENGTH_MAX

ROOT = Path(__file__).resolve().parents[2]
NAME = "paper-box"


def run(*command, cwd, path=None, timeout=300):
    """A command with the Python of the tests, which has to succeed; with `path`, what is installed there is found."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The folder of a new plugin."""
    folder = tmp_path_factory.mktemp("new")
    write_plugin(NAME, folder)
    return folder / f"memspine-{NAME}"


@pytest.fixture(scope="module")
def installed(plugin, tmp_path_factory):
    """Where the plugin is installed from its wheel."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    offline = ("--quiet", "--no-deps", "--no-index")
    run("-m", "pip", "wheel", *offline, "--no-build-isolation", "--wheel-dir", wheels, plugin, cwd=wheels)
    (wheel,) = wheels.glob("*.whl")
    run("-m", "pip", "install", *offline, "--target", target, wheel, cwd=wheels)
    return target


def kit_arguments(plugin):
    """The arguments of the command that the plugin's README has for the kit."""
    (command,) = re.findall(
        r"^python (-m pytest .*)$", (plugin / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    return command.split()


def test_a_new_plugin_keeps_the_contract(plugin, installed, tmp_path):
    """Installed from its wheel, a new plugin passes every base clause with the command of its README as it stands."""
    report = tmp_path / "report.json"
    run(*kit_arguments(plugin), "-p", "no:cacheprovider", "--memspine-report", report, cwd=plugin, path=installed)
    proven = json.loads(report.read_text(encoding="utf-8"))
    assert (proven["plugin"], proven["distribution"], proven["capabilities"]) == (NAME, f"memspine-{NAME}", [])
    verdicts = {id: clause["verdict"] for id, clause in proven["clauses"].items() if clause["capability"] is None}
    assert verdicts.pop("MB-81") == "not applicable"
    assert set(verdicts.values()) == {"proven"}


def test_the_command_says_where_the_plugin_is(plugin, tmp_path):
    """The command for the kit works from anywhere: it names the settings of the plugin where they are."""
    command = shlex.split(kit_command(NAME, folder=tmp_path / "a folder" / plugin.name))
    assert command[-1] == (tmp_path / "a folder" / plugin.name / "tests" / "conformance.toml").as_posix()
    assert shlex.split(kit_command(NAME))[1:] == kit_arguments(plugin)


def test_a_new_plugin_is_found(installed, tmp_path):
    """Installed, a new plugin is listed without an error, and its options are read from a configuration."""
    code = f"""
import asyncio
from memspine import MemoryManager
from memspine.plugins import Plugins

async def main():
    store = {{"plugin": {NAME!r}, "greeting": "hello"}}
    async with MemoryManager({{"backends": {{"box": store}}}}, background=False) as memory:
        await memory.create("Juno eats duck.", key="food")
        (hit,) = (await memory.search("What does Juno eat?")).hits
        return hit.memory.content, (await memory.health())["box"].detail

plugins = Plugins()
assert {NAME!r} in plugins.names("memory backend"), plugins.failures()
assert asyncio.run(main()) == ("Juno eats duck.", "hello")
"""
    run("-c", code, cwd=tmp_path, path=installed)


def test_a_wrong_option_of_a_new_plugin_is_told(installed, tmp_path):
    """The options of a new plugin are checked by its own declaration, with a suggestion for what was meant."""
    code = f"""
from memspine.config import config_from_mapping
from memspine.errors import ConfigError
from memspine.plugins import Plugins

try:
    config_from_mapping({{"backends": {{"box": {{"plugin": {NAME!r}, "greting": "x"}}}}}}, plugins=Plugins())
except ConfigError as error:
    assert "greeting" in str(error), error
else:
    raise AssertionError("nobody minded")
"""
    run("-c", code, cwd=tmp_path, path=installed)


def test_a_new_plugin_is_typed_and_clean(plugin, tmp_path):
    """A new plugin is strictly typed by its own settings, and clean and formatted by ours."""
    run("-m", "mypy", "--cache-dir", tmp_path / "mypy", cwd=plugin)
    settings = ROOT / "pyproject.toml"
    run("-m", "ruff", "check", "--no-cache", "--config", settings, ".", cwd=plugin)
    run("-m", "ruff", "format", "--check", "--no-cache", ".", cwd=plugin)


@pytest.mark.parametrize("name", ["a", "my_own-store2", "x" * NAME_LENGTH_MAX])
def test_names_reach_every_file(tmp_path, name):
    """Whatever the name, all files are there, are valid, and no placeholder is left."""
    files = write_plugin(name, tmp_path)
    folder, module = tmp_path / f"memspine-{name}", f"memspine_{name.replace('-', '_')}"
    assert {file.relative_to(folder).as_posix() for file in files} == {
        "README.md",
        "pyproject.toml",
        "tests/conformance.toml",
        *(f"src/{module}/{part}.py" for part in ("__init__", "backend", "config", "plugin", "selecting")),
        f"src/{module}/py.typed",
    }
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert "{{" not in text
        assert "MODULE" not in text
        if file.suffix == ".py":
            compile(text, file, "exec")
            assert max(map(len, text.splitlines())) <= 120
        elif file.suffix == ".toml":
            tomllib.loads(text)
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["memspine"] == {name: f"{module}.plugin"}
    assert project["dependencies"] == ["memspine>=0.1,<0.2"]


def test_comments_cite_clauses_that_exist(plugin):
    """Every clause that the code of a new plugin cites is in the contract."""
    clauses = read_clauses("backend")
    texts = [file.read_text(encoding="utf-8") for file in [*plugin.rglob("*.py"), plugin / "README.md"]]
    cited = {id for text in texts for id in re.findall(r"MB-\d+", text)}
    assert cited
    assert cited <= clauses.keys()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "a letter first"),
        ("Redis", "a-z"),
        ("my store", "a-z"),
        ("../up", "a-z"),
        ("2nd", "a letter first"),
        ("a--b", "joined by"),
        ("a-", "joined by"),
        ("a.b", "a-z"),
        ("café", "a-z"),
        ("a\n", "a-z"),
        ("x" * (NAME_LENGTH_MAX + 1), f"at most {NAME_LENGTH_MAX}"),
        ("class", "no keyword of Python"),
        ("match", "no keyword of Python"),
        ("sqlite", "no plugin of memspine itself has"),
        ("reference", "no plugin of memspine itself has"),
    ],
)
def test_names_that_cannot_be_are_refused(tmp_path, name, expected):
    """A name has to do for a distribution, a module and an entry point of its own; the error says what does."""
    with pytest.raises(ScaffoldError, match=re.escape(expected)) as caught:
        write_plugin(name, tmp_path)
    assert (caught.value.field, caught.value.value) == ("name", name)
    assert not list(tmp_path.iterdir())


def test_the_name_of_an_installed_plugin_is_refused(tmp_path, monkeypatch):
    """A second plugin of one name could never be used, so none is written; the error says whose the name is."""
    entry = PluginEntry(name="redis", module="x", distribution="memspine-redis", version="1.2")
    monkeypatch.setattr("memspine.scaffold.writing.installed_entries", lambda: (entry,))
    with pytest.raises(ScaffoldError, match=r"from memspine-redis 1\.2"):
        write_plugin("redis", tmp_path)


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_nothing_is_overwritten(tmp_path, kind):
    """Where something stands already, nothing is written."""
    target = tmp_path / f"memspine-{NAME}"
    mine = target / "mine.txt" if kind == "folder" else target
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("precious", encoding="utf-8")
    with pytest.raises(ScaffoldError, match="nothing is overwritten"):
        write_plugin(NAME, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    assert mine.read_text(encoding="utf-8") == "precious"


def test_an_empty_folder_is_filled(tmp_path):
    """An empty folder that is there is used, and folders above it that are not there are made."""
    (tmp_path / "deep" / f"memspine-{NAME}").mkdir(parents=True)
    assert all(file.is_file() for file in write_plugin(NAME, tmp_path / "deep"))
    assert all(file.is_file() for file in write_plugin(NAME, tmp_path / "not" / "there"))
