"""The settings in effect, and where each comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from memspine.config.locate import KeyPath, dotted, locate, nearest_line, quoted_key
from memspine.config.plain import plain
from memspine.config.schema import TABLES, BackendSettings, Config, InstanceSettings, StoreSettings
from memspine.config.secrets import SecretRef
from memspine.config.stores import vector_store
from memspine.plugins import Plugins


@attrs.frozen(kw_only=True)
class Setting:
    """One setting. `value` is plain data, a secret as its reference; `origin` is "file:line", the name of a mapping,
    or "default"."""

    key: str
    value: Any
    origin: str
    help: str = ""

    @property
    def text(self) -> str:
        """The value as TOML; `unset` where there is none."""
        return toml_text(self.value)


def effective_settings(config: Config, *, plugins: Plugins | None = None) -> list[Setting]:
    """Every setting with its value and origin: the tables of memspine, then those that configure plugins.

    With `plugins`, the vector store that memspine chooses itself is among them. Raises ConfigError as `vector_store`
    does.
    """
    if plugins and config.store is None:
        config = attrs.evolve(config, store=vector_store(config, plugins=plugins))
    lines = locate(config.source.text) if config.source.text else {}
    settings = [
        _setting(config, lines, path, value, line_of_help)
        for name in TABLES
        for path, value, line_of_help in _fields((name,), getattr(config, name))
    ]
    for path, instance in config.instances:
        plugin = _setting(config, lines, (*path, "plugin"), instance.plugin, instance.provider.summary)
        # [vectors] has it among its own settings, where it is empty unless it was written.
        settings = [setting for setting in settings if setting.key != plugin.key]
        settings.append(plugin)
        if isinstance(instance, BackendSettings):
            help = str(attrs.fields(BackendSettings).replicate.metadata["help"])
            settings.append(_setting(config, lines, (*path, "replicate"), instance.replicate, help))
        settings += [
            _setting(config, lines, field, value, line_of_help, written=_written_at(config, instance, field))
            for field, value, line_of_help in _fields(path, instance.options)
        ]
    return settings


def toml_text(value: object) -> str:
    """Plain data as TOML on one line."""
    if value is None:
        return "unset"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{quoted_key(key)} = {toml_text(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_text, value))}]"
    if isinstance(value, (str, bool)):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def _fields(path: KeyPath, settings: Any) -> Iterator[tuple[KeyPath, object, str]]:
    """Each field, those of nested classes one by one."""
    for field in attrs.fields(type(settings)):
        value = getattr(settings, field.name)
        inner = (*path, field.alias or field.name)
        if attrs.has(type(value)) and not isinstance(value, SecretRef):
            yield from _fields(inner, value)
        else:
            yield inner, value, str(field.metadata.get("help", ""))


def _written_at(config: Config, instance: InstanceSettings[Any], path: KeyPath) -> KeyPath:
    """Where an option may be written: that of a store also in the table of the primary."""
    if isinstance(instance, StoreSettings) and path[1] in instance.inherited:
        return ("backends", config.primary.name, *path[1:])
    return path


def _setting(
    config: Config,
    lines: Mapping[KeyPath, int],
    path: KeyPath,
    value: object,
    help: str,
    *,
    written: KeyPath | None = None,
) -> Setting:
    origin = "default"
    written = written or path
    if _is_written(config.document, written):
        line = nearest_line(lines, written)
        origin = config.source.name if line is None else f"{config.source.name}:{line}"
    return Setting(key=dotted(path), value=plain(value), origin=origin, help=help)


def _is_written(document: Mapping[str, Any], path: KeyPath) -> bool:
    value: Any = document
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True
