"""Discovery: what is installed is found, what is broken is set aside with its reason, nothing loads unasked."""

from __future__ import annotations

import asyncio
import sys
import types
from contextlib import asynccontextmanager

import attrs
import pytest

from memspine.contracts import Importer, ImportSource, Provider
from memspine.errors import ContractMismatchError, PluginError, PluginLoadError, UnknownPluginError
from memspine.hookspecs import hookimpl
from memspine.plugins import Plugin, PluginEntry, Plugins, installed_entries, reader, recogniser, resolve
from memspine.resources import SharedResources, open_provider


@attrs.frozen
class NoOptions:
    """Nothing to set."""


@asynccontextmanager
async def open_nothing(config, context):
    yield "opened"


def provider(name="good", **fields):
    return Provider(name=name, config_type=NoOptions, open=open_nothing, **fields)


@pytest.fixture
def installed(monkeypatch):
    """Installs modules with hooks under plugin names; returns the registry over them."""

    def install(**modules):
        entries = []
        for name, functions in modules.items():
            entries.append(PluginEntry(name=name, module=f"fake_{name}", distribution=f"dist-{name}", version="1.0"))
            if functions is None:
                continue
            module = types.ModuleType(f"fake_{name}")
            for hook, function in functions.items():
                setattr(module, hook, function)
            monkeypatch.setitem(sys.modules, f"fake_{name}", module)
        return Plugins(find=lambda: entries)

    return install


def backends(*providers):
    @hookimpl
    def memspine_memory_backends():
        return list(providers)

    return {"memspine_memory_backends": memspine_memory_backends}


def importers(*offered):
    @hookimpl
    def memspine_importers():
        return list(offered)

    return {"memspine_importers": memspine_importers}


def importer(name="toy", **fields):
    given = {"recognise": "importers_of_toy:recognise", "read": "importers_of_toy:read", **fields}
    return Importer(name=name, summary="what a toy writes", changes="nothing", **given)


def raising(error):
    @hookimpl
    def memspine_memory_backends():
        raise error

    return {"memspine_memory_backends": memspine_memory_backends}


def test_the_kernels_own_plugins_are_found():
    """The entry points of the installed distribution are discovered like anyone else's."""
    assert {"injection", "reference"} <= {entry.name for entry in installed_entries()}
    assert Plugins().memory_backend("reference").name == "reference"
    assert "openai.chat" in Plugins().names("injector")


def test_only_the_named_plugin_is_loaded(installed):
    """Asking for one provider imports no other plugin."""
    plugins = installed(good=backends(provider()), other=None)
    assert plugins.memory_backend("good").name == "good"
    assert plugins.failures() == ()
    assert "fake_other" not in sys.modules


@pytest.mark.parametrize(
    ("functions", "step"),
    [
        (None, "importing"),
        (raising(RuntimeError("boom")), "hook"),
        (raising(SystemExit(3)), "hook"),
        (backends("not a provider"), "hook"),
        (backends(Provider(name="bad", config_type=dict, open=open_nothing)), "hook"),
        ({"memspine_memory_backend": list}, "registering"),
        ({"memspine_memory_backends": list}, "registering"),
        ({"memspine_memory_backends": hookimpl(lambda wrong_argument: [])}, "registering"),
    ],
)
def test_a_broken_plugin_loses_only_itself(installed, functions, step):
    """Whatever a plugin does wrong, the others load; naming it raises an error with plugin, distribution and step."""
    plugins = installed(bad=functions, good=backends(provider()))
    assert plugins.memory_backend("good").name == "good"
    loaded = plugins.load_all()
    assert [isinstance(plugin, Plugin) for plugin in loaded] == [False, True]
    with pytest.raises(PluginLoadError) as caught:
        plugins.memory_backend("bad")
    assert step in caught.value.step
    assert "dist-bad 1.0" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_dependency_says_what_to_install(installed, monkeypatch):
    """A plugin whose import fails for want of a module names that module."""
    plugins = installed(bad=None)
    with pytest.raises(PluginLoadError, match="fake_bad"):
        plugins.memory_backend("bad")


def test_another_contract_is_refused(installed):
    """A plugin for another contract number is named with both numbers."""
    plugins = installed(old=backends(provider("old", contract=99)))
    with pytest.raises(ContractMismatchError, match="99"):
        plugins.memory_backend("old")


def test_an_unknown_name_lists_what_there_is(installed):
    """An unknown provider names the installed ones, the likely one, and the command that would install it."""
    plugins = installed(good=backends(provider("sqlite")))
    with pytest.raises(UnknownPluginError) as caught:
        plugins.memory_backend("sqlit")
    assert caught.value.suggestion == "sqlite"
    assert 'pip install "memspine-sqlit"' in str(caught.value)


def test_two_plugins_of_one_name_are_ambiguous(installed):
    """A provider that two distributions offer is refused, and both are named."""
    plugins = installed(one=backends(provider("same")), two=backends(provider("same")))
    with pytest.raises(PluginError, match=r"dist-one 1\.0 and dist-two 1\.0"):
        plugins.memory_backend("same")


def test_an_address_is_resolved_when_it_is_needed():
    """Registering an address imports nothing; a wrong one is an error that names it."""
    with pytest.raises(PluginLoadError, match="no_such_module"):
        resolve(Provider(name="x", config_type=NoOptions, open="no_such_module:open"))
    with pytest.raises(PluginLoadError, match="not a callable"):
        resolve(Provider(name="x", config_type=NoOptions, open="sys:path"))


def test_shared_resources_are_opened_once_and_closed_with_the_last(tmp_path):
    """Providers that share a key get one resource; it is closed when the last of them closes, not before."""
    events = []

    @asynccontextmanager
    async def database():
        events.append("open")
        yield object()
        events.append("close")

    @asynccontextmanager
    async def open_shared(config, context):
        yield await context.shared("db", database)

    async def run():
        resources = SharedResources()
        shared = Provider(name="x", config_type=NoOptions, open=open_shared)
        folders = {"config_folder": tmp_path, "data_folder": tmp_path}
        async with open_provider(shared, NoOptions(), name="a", resources=resources, **folders) as first:
            async with open_provider(shared, NoOptions(), name="b", resources=resources, **folders) as second:
                assert first is second
            assert events == ["open"]
        assert events == ["open", "close"]
        async with open_provider(shared, NoOptions(), name="c", resources=resources, **folders) as third:
            assert third is not first

    asyncio.run(run())
    assert events == ["open", "close"] * 2


def test_a_resource_that_fails_to_open_is_tried_again():
    """A failed opening leaves nothing behind; the next holder opens anew."""

    async def run():
        resources = SharedResources()
        attempts = []

        @asynccontextmanager
        async def flaky():
            attempts.append(1)
            if len(attempts) == 1:
                raise OSError("busy")
            yield "resource"

        with pytest.raises(OSError, match="busy"):
            await resources.acquire("key", flaky)
        assert await resources.acquire("key", flaky) == "resource"

    asyncio.run(run())


def test_importers_are_listed_by_name(installed):
    """The importers of all plugins are found, by name, with the distribution that each comes from."""
    plugins = installed(one=importers(importer("b")), other=importers(importer("a")))
    assert [(found.name, found.distribution) for found in plugins.importers()] == [
        ("a", "dist-other 1.0"),
        ("b", "dist-one 1.0"),
    ]


def test_two_importers_of_one_name_are_ambiguous(installed):
    """Two plugins with the same importer are refused with both their names."""
    plugins = installed(one=importers(importer()), other=importers(importer()))
    with pytest.raises(PluginError, match=r"dist-o.* and dist-o.*; uninstall all but one"):
        plugins.importers()


@pytest.mark.parametrize(
    ("offered", "kind"), [(provider(), PluginLoadError), (importer(contract=7), ContractMismatchError)]
)
def test_what_is_no_importer_of_this_contract_is_refused(installed, offered, kind):
    """A plugin whose importer is of another kind or contract is set aside with its reason."""
    plugins = installed(wrong=importers(offered), good=importers(importer()))
    assert [found.name for found in plugins.importers()] == ["toy"]
    assert [type(failure) for failure in plugins.failures()] == [kind]


def test_what_an_importer_names_is_imported_when_it_is_needed(monkeypatch):
    """What recognises and what reads is found by address at first use; one that is missing says what to do."""
    with pytest.raises(PluginLoadError, match="install the module 'importers_of_toy'"):
        recogniser(importer())
    module = types.ModuleType("importers_of_toy")
    module.recognise, module.read = (lambda source: source.name == "mine"), (lambda source: iter(()))
    monkeypatch.setitem(sys.modules, "importers_of_toy", module)
    assert recogniser(importer())(ImportSource(name="mine"))
    assert list(reader(importer())(ImportSource(name="mine"))) == []
