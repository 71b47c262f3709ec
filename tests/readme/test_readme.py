"""The README is executed: what it shows has to run, and to print what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language):
    return [text for name, text in BLOCK.findall(README) if name == language]


def run(*command, folder, text=None):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_python_examples_print_what_was_remembered(tmp_path):
    """Both complete Python examples run in an empty home and show the memory they stored."""
    complete = [block for block in blocks("python") if "MemoryManager()" in block]
    assert len(complete) == 2
    for block in complete:
        assert "Juno eats duck and potato now." in run(sys.executable, "-c", block, folder=tmp_path)


def test_the_shell_examples_run(tmp_path):
    """Every line of the shell section works, one after the other, in an empty home."""
    (shell,) = [block for block in blocks("sh") if "memspine doctor" in block]
    (tmp_path / "notes.txt").write_text("The spare key hangs in the shed.\n", encoding="utf-8")
    printed = run("sh", "-e", "-c", shell, folder=tmp_path)
    assert "Juno eats duck and potato now" in printed
    assert "spare key" in printed


@pytest.mark.parametrize("toml", blocks("toml"))
def test_the_configuration_examples_are_valid(toml, tmp_path):
    """Each TOML example passes the product's own check."""
    tomllib.loads(toml)
    (tmp_path / "memspine.toml").write_text(toml, encoding="utf-8")
    run("memspine", "--config", "memspine.toml", "config", "check", folder=tmp_path)


@pytest.fixture
def chain(tmp_path):
    """A folder with the TOML example of a chain."""
    (toml,) = [block for block in blocks("toml") if "replicate" in block]
    (tmp_path / "memspine.toml").write_text(toml, encoding="utf-8")
    (tmp_path / "memspine.toml").chmod(0o600)
    return tmp_path


def test_the_chain_example_runs(chain):
    """Every line about chains works: the memory is in the replica, nothing waits, and there is nothing to settle."""
    (shell,) = [block for block in blocks("sh") if "memspine status" in block]
    printed = run("sh", "-e", "-c", shell, folder=chain)
    assert "replica\tteam\tok\tfollowing, nothing behind" in printed
    assert "left\t0\n" in printed
    assert printed.endswith("conflicts\t0\nrefused\t0\n")


def test_the_copy_example_runs(chain):
    """The lines that copy and compare stores work with the TOML example of a chain, and find both the same."""
    (shell,) = [block for block in blocks("sh") if "memspine copy" in block]
    run("memspine", "add", "The spare key hangs in the shed.", folder=chain)
    printed = run("sh", "-e", "-c", shell, folder=chain)
    assert "copied\t1" in printed
    assert "same\t1\ndifferent\t0" in printed


PLUGIN_READMES = sorted((ROOT / "plugins").glob("*/README.md"))
PLUGIN_EXAMPLES = [
    pytest.param(text, id=f"{path.parent.name} {number}")
    for path in PLUGIN_READMES
    for number, (name, text) in enumerate(BLOCK.findall(path.read_text(encoding="utf-8")))
    if name == "toml"
]


@pytest.mark.parametrize("toml", PLUGIN_EXAMPLES)
def test_the_configuration_examples_of_plugins_are_valid(toml, tmp_path, monkeypatch):
    """Every TOML example in the README of a plugin is a configuration as it stands."""
    from memspine.config import load_config
    from memspine.plugins import Plugins

    (tmp_path / "memspine.toml").write_text(toml, encoding="utf-8")
    assert load_config(tmp_path / "memspine.toml", plugins=Plugins()).instances


def test_the_hook_example_registers_a_backend(tmp_path, monkeypatch):
    """The example of a hook is a plugin that loads and offers its backend."""
    from memspine.plugins import Plugin, PluginEntry, Plugins

    (hook,) = [block for block in blocks("python") if "hookimpl" in block]
    (tmp_path / "readme_example_plugin.py").write_text(hook, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (plugin,) = Plugins(find=lambda: [PluginEntry(name="mystore", module="readme_example_plugin")]).load_all()
    assert isinstance(plugin, Plugin)
    assert [provider.name for provider in plugin.providers["memory backend"]] == ["mystore"]


def test_the_table_of_capabilities_is_what_the_stores_declare():
    """The README shows of every store of this repository what its provider claims, and nothing else."""
    script = Path(__file__).with_name("capabilities.py")
    printed = run(sys.executable, str(script), folder=ROOT)
    (table,) = re.findall(r"<!-- capabilities: begin -->\n(.*?)\n<!-- capabilities: end -->", README, re.DOTALL)
    assert table == printed.strip(), f"stale; run: python {script.relative_to(ROOT)} --write"
    assert set(re.findall(r"^\| (?:memory backend|vector store) \[?`(\w+)", table, re.MULTILINE)) >= {
        "http",
        "reference",
        "sqlite",
    }


def test_the_commands_for_authors_are_those_of_the_scaffold():
    """The README runs the kit as the scaffold does, whose own test builds, installs and proves a generated plugin."""
    from memspine.scaffold import kit_command

    (shell,) = [block for block in blocks("sh") if "new-plugin" in block]
    assert kit_command("mystore") in shell


def test_links_lead_somewhere():
    """Every relative link of the README and of the plugins' READMEs names something that is there."""
    for page in [ROOT / "README.md", *ROOT.glob("plugins/*/README.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("line", ["memspine help", "memspine help exit-codes"])
def test_commands_in_the_text_run(line, tmp_path):
    """Commands that the prose names work."""
    assert line in README
    assert run(*line.split(), folder=tmp_path)
