"""Tables that each configure one plugin: [backends.NAME], [embedding.NAME], [rerank.NAME], all checked the same way."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs

from memspine.config.locate import KeyPath
from memspine.config.plain import storable
from memspine.config.schema import (
    AUTO,
    NONE,
    BackendSettings,
    Config,
    InstanceSettings,
    RerankerSettings,
    SourceSettings,
)
from memspine.config.structure import INVALID, Structurer, got, options_of, suggestion
from memspine.contracts import Provider
from memspine.errors import PluginError, UnknownPluginError
from memspine.plugins import Plugins

S = TypeVar("S", bound=InstanceSettings[Any])

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@attrs.frozen(kw_only=True)
class Family(Generic[S]):
    """The tables below one table.

    `noun` is what people call one of them, `kind` what the registry of plugins calls their providers. A table that may
    leave out `plugin` bears its name (`bears_plugin`). `words` can be written where a name is expected, so nothing can
    be called so. `beside` are the keys that stand beside the options, `switches` those of them that are true or false
    and fields of the settings, `reserved` others that no option can have.
    """

    table: str
    noun: str
    kind: str
    find: Callable[[Plugins, str], Provider[Any, Any]]
    settings: type[S]
    bears_plugin: bool = True
    words: tuple[str, ...] = ()
    beside: tuple[str, ...] = ("plugin",)
    switches: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()


BACKENDS: Final = Family(
    table="backends",
    noun="backend",
    kind="memory backend",
    find=Plugins.memory_backend,
    settings=BackendSettings,
    bears_plugin=False,
    beside=("plugin", "replicate"),
    switches=("replicate",),
)
SOURCES: Final = Family(
    table="embedding",
    noun="source",
    kind="embedding source",
    find=Plugins.embedding_source,
    settings=SourceSettings,
    words=(AUTO, NONE),
    reserved=("name",),  # it stands beside the options in what a vector space keeps
)
RERANKERS: Final = Family(
    table="rerank",
    noun="reranker",
    kind="reranker",
    find=Plugins.reranker,
    settings=RerankerSettings,
    words=(NONE,),
)


def check_instances(structurer: Structurer, family: Family[S], tables: object, plugins: Plugins) -> tuple[S, ...]:
    """The instances in these tables; what is wrong with the others is noted."""
    if not isinstance(tables, Mapping):
        structurer.refuse((family.table,), f"expected tables [{family.table}.NAME], got {got(tables)}")
        return ()
    found = []
    for key, table in tables.items():
        name = str(key)
        path = (family.table, name)
        if not isinstance(table, Mapping):
            structurer.refuse(path, f"expected a table [{family.table}.NAME], got {got(table)}")
            continue
        if objection := _objection(family, name):
            structurer.refuse(path, objection)
            if "plugin" not in table:
                continue  # a plugin of this name would be looked for, and be a second problem
        if instance := _instance(structurer, family, path, table, plugins):
            found.append(instance)
    return tuple(found)


def check_choice(
    structurer: Structurer, family: Family[S], written: object, cls: type, *, keys: Sequence[str], plugins: Plugins
) -> tuple[Any, tuple[S, ...]]:
    """The settings of a table whose sub-tables are instances, and the instances.

    `keys` are the settings that name an instance. One that names an installed plugin needs no table.
    """
    settings_keys = options_of(cls)
    if isinstance(written, cls):
        written = {key: getattr(written, key) for key in settings_keys}
    if not isinstance(written, Mapping):
        return structurer.table((family.table,), written, cls), ()
    tables = {k: v for k, v in written.items() if k not in settings_keys and isinstance(v, (Mapping, list))}
    plain = {key: value for key, value in written.items() if key not in tables}
    for key in settings_keys:
        if isinstance(plain.get(key), Mapping):
            text = f"{key!r} is a setting of [{family.table}], so no {family.noun} can be called so"
            structurer.refuse((family.table, key), f'{text}; give the table another name and plugin = "{key}"')
            del plain[key]
    settings = structurer.table((family.table,), plain, cls, besides=tables)
    instances = check_instances(structurer, family, tables, plugins)
    # A table with one problem is no settings, but what it names is checked all the same.
    chosen = {key: plain.get(key) if settings is INVALID else getattr(settings, key) for key in keys}
    implied = _implied_instances(structurer, family, chosen, [str(name) for name in tables], plugins=plugins)
    return settings, (*instances, *implied)


def check_options(
    structurer: Structurer,
    family: Family[S],
    path: KeyPath,
    options: Mapping[str, Any],
    *,
    provider: Provider[Any, Any],
    plugin: str,
    name: str,
) -> S:
    """The instance that a plugin's provider and these options make; what is wrong with them is noted."""
    for key in options_of(provider.config_type):
        if key in {*family.beside, *family.reserved}:
            text = f"the plugin {plugin!r} has an option {key!r}, which is no name for an option here"
            structurer.refuse(path, f"{text}; report it to its author")
    checked = structurer.table(path, options, provider.config_type, besides=family.beside)
    document = {"plugin": plugin, **storable(options)}
    written = {key: structurer.value((*path, key), options[key], bool) for key in family.switches if key in options}
    switches = {key: value for key, value in written.items() if value is not INVALID}
    instance = family.settings(name=name, plugin=plugin, provider=provider, options=checked, document=document)
    return attrs.evolve(instance, **switches)


def source_from_mapping(
    stored: Mapping[str, Any],
    *,
    config: Config,
    plugins: Plugins,
    environ: Mapping[str, str] | None = None,
    where: str = "vector space",
) -> SourceSettings:
    """The embedding source that a vector space was made with, from its `SourceSettings.stored`.

    Without `name` it bears that of its plugin, so `{"plugin": NAME}` is a plugin with its defaults. Relative paths and
    secrets hold as they do in `config`. Raises ConfigError with every problem, whose source is `where`.
    """
    for configured in config.sources:
        if configured.stored == stored:
            return configured  # with the secrets that a program passed, which no mapping keeps
    source = attrs.evolve(config.source, name=where, text=None)
    structurer = Structurer(source=source, environ=os.environ if environ is None else environ)
    options = {key: value for key, value in stored.items() if key != "name"}
    name = stored.get("name", stored.get("plugin", ""))
    found = check_instances(structurer, SOURCES, {str(name): options}, plugins)
    structurer.raise_problems()
    return found[0]


def _instance(
    structurer: Structurer, family: Family[S], path: tuple[str, str], table: Mapping[str, Any], plugins: Plugins
) -> S | None:
    where: KeyPath = path
    plugin: Any = path[1]
    if "plugin" in table:
        where = (*path, "plugin")
        plugin = structurer.value(where, table["plugin"], str)
    elif not family.bears_plugin:
        # Without a plugin nobody can say which other keys are known.
        plugin = structurer.refuse(path, "missing required key 'plugin'")
    if plugin is INVALID:
        return None
    try:
        provider = family.find(plugins, plugin)
    except (UnknownPluginError, PluginError) as error:
        structurer.refuse(where, str(error))
        return None
    options = {key: value for key, value in table.items() if key != "plugin"}
    return check_options(structurer, family, path, options, provider=provider, plugin=plugin, name=path[1])


def _implied_instances(
    structurer: Structurer, family: Family[S], chosen: Mapping[str, object], tables: list[str], *, plugins: Plugins
) -> Iterable[S]:
    """The instances that are chosen but have no table: plugins, with their defaults."""
    before: list[object] = []
    for key, name in chosen.items():
        if not isinstance(name, str) or not name or name in family.words:
            continue
        path = (family.table, key)
        if name in before:
            structurer.refuse(path, f"{name!r} is there already, as {family.table}.{next(iter(chosen))}")
        elif name not in tables and (instance := _implied(structurer, family, path, name, tables, plugins=plugins)):
            yield instance
        before.append(name)


def _implied(
    structurer: Structurer, family: Family[S], path: KeyPath, name: str, tables: list[str], *, plugins: Plugins
) -> S | None:
    try:
        provider = family.find(plugins, name)
    except UnknownPluginError as error:
        structurer.refuse(path, _neither(family, name, tables, error, plugins))
        return None
    except PluginError as error:
        structurer.refuse(path, str(error))
        return None
    attempt = Structurer(source=structurer.source, environ=structurer.environ)
    instance = check_options(attempt, family, path, {}, provider=provider, plugin=name, name=name)
    if attempt.problems:
        reasons = "; ".join(text for _, text in attempt.problems)
        structurer.refuse(path, f"{name!r} cannot do without a table [{family.table}.{name}]: {reasons}")
    return instance


def _objection(family: Family[Any], name: str) -> str:
    """Why an instance cannot be called so; empty if it can."""
    if not _NAME.fullmatch(name):
        return f"the name of a {family.noun} is 1..64 letters, digits, - and _, got {name!r}"
    return f"{name!r} has a meaning of its own, so no {family.noun} can be called so" if name in family.words else ""


def _neither(family: Family[Any], name: str, tables: list[str], error: UnknownPluginError, plugins: Plugins) -> str:
    known = [*family.words, *tables, *error.installed]
    text = f"{name!r} is neither a table [{family.table}.NAME] nor an installed {family.kind}"
    text += f"; installed: {', '.join(error.installed) or NONE}{suggestion(name, known)}"
    if _NAME.fullmatch(name):
        text += f'; if there is one for it: pip install "memspine[{name}]"'
    if failures := plugins.failures():
        text += f"; plugins that failed to load: {', '.join(failure.plugin for failure in failures)}"
    return text
