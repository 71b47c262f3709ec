"""List the installed plugins: what each offers, what its stores can do, or why it cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.errors import PluginError
    from memspine.plugins import Plugin, PluginEntry


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command: there are none."""


def run(options: argparse.Namespace, out: Output) -> int:
    """List them."""
    del options
    from memspine.cli.extensions import installed_commands
    from memspine.plugins import Plugins

    registry = Plugins()
    pairs = zip(registry.entries(), registry.load_all(), strict=True)
    found = [plugin_to_wire(entry, plugin) for entry, plugin in pairs]
    commands = [
        {"name": command.name, "distribution": command.distribution, "summary": command.summary}
        for command in installed_commands()
    ]
    if out.json:
        out.data({"data": found, "total": len(found), "commands": commands})
        return 0
    rows = [row for plugin in found for row in _rows(plugin)]
    rows += [(c["name"], c["distribution"], "command", c["name"], "-", c["summary"]) for c in commands]
    out.table(("plugin", "distribution", "kind", "name", "capabilities", "summary"), rows)
    return 0


def plugin_to_wire(entry: PluginEntry, plugin: Plugin | PluginError) -> dict[str, Any]:
    """An installed plugin as JSON: its providers, or the error that keeps it from being used."""
    from memspine.errors import PluginError

    data = {"name": entry.name, "distribution": entry.distribution, "version": entry.version, "module": entry.module}
    if isinstance(plugin, PluginError):
        return {**data, "providers": [], "error": str(plugin)}
    providers = [
        {
            "kind": kind,
            "name": provider.name,
            "capabilities": sorted(provider.capabilities),
            "contract": provider.contract,
            "summary": provider.summary,
        }
        for kind, offered in plugin.providers.items()
        for provider in offered
    ]
    providers += [
        {
            "kind": "importer",
            "name": importer.name,
            "capabilities": [],
            "contract": importer.contract,
            "summary": importer.summary,
        }
        for importer in plugin.importers
    ]
    return {**data, "providers": providers, "error": None}


def _rows(plugin: dict[str, Any]) -> list[tuple[str, ...]]:
    start = (plugin["name"], f"{plugin['distribution']} {plugin['version']}")
    if plugin["error"]:
        return [(*start, "failed", "-", "-", plugin["error"])]
    return [
        (*start, provider["kind"], provider["name"], ", ".join(provider["capabilities"]) or "-", provider["summary"])
        for provider in plugin["providers"]
    ] or [(*start, "-", "-", "-", "offers nothing")]
