"""Check, show and change the configuration; comments and order of the file stay, secrets stay references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memspine.cli.codes import Exit, InputError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from memspine.cli.output import Output
    from memspine.config import Change, ConfigSource

HAS_ACTIONS: Final = True
"""The word after the command decides about the rest."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    from memspine.cli.parser import Parser, add_global_options

    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    for name, help, arguments in (
        ("check", "every problem at once, with file, line and key", ()),
        ("show", "every setting in effect, and where it comes from", ()),
        ("set", "change one key", ("key", "value")),
        ("unset", "remove one key, so that its default holds", ("key",)),
        ("path", "the file in use", ()),
    ):
        action = actions.add_parser(name, help=help, description=help)
        for argument in arguments:
            action.add_argument(argument, metavar=argument.upper())
        add_global_options(action)


def run(options: argparse.Namespace, out: Output) -> int:
    """Do what the action says."""
    actions = {"check": _check, "show": _show, "set": _set, "unset": _unset, "path": _path}
    return actions[options.action](options, out)


def _check(options: argparse.Namespace, out: Output) -> int:
    from memspine.cli.opening import load
    from memspine.config import check_secrets
    from memspine.errors import ConfigError
    from memspine.plugins import Plugins

    config = load(options, out, Plugins())
    if problems := check_secrets(config):
        raise ConfigError(problems)
    if out.json:
        out.data({"ok": True, "source": config.source.name, "problems": []})
    else:
        backends = ", ".join(f"{backend.name} ({backend.plugin})" for backend in config.backends)
        out.line(f"{config.source.name}: no problem found; backends: {backends}")
    return Exit.OK


def _show(options: argparse.Namespace, out: Output) -> int:
    from memspine.cli.opening import load
    from memspine.config import effective_settings
    from memspine.plugins import Plugins

    plugins = Plugins()
    config = load(options, out, plugins)
    settings = effective_settings(config, plugins=plugins)
    if out.json:
        rows = [{"key": s.key, "value": s.value, "origin": s.origin, "help": s.help} for s in settings]
        out.data({"source": config.source.name, "dataFolder": str(config.data_folder), "settings": rows})
    else:
        out.table(("key", "origin", "value"), [(s.key, s.origin, s.text) for s in settings])
    return Exit.OK


def _set(options: argparse.Namespace, out: Output) -> int:
    from memspine.config import set_value
    from memspine.plugins import Plugins

    source, path = _target(options, out)
    change = set_value(path, options.key, options.value, plugins=Plugins(), origin=source.origin)
    return _tell_change(change, out)


def _unset(options: argparse.Namespace, out: Output) -> int:
    from memspine.config import unset_value
    from memspine.plugins import Plugins

    source, path = _target(options, out)
    change = unset_value(path, options.key, plugins=Plugins(), origin=source.origin)
    if change.old is None:
        raise InputError(f"{change.path}: there is no key {change.key}; `memspine config show` says what is set")
    return _tell_change(change, out)


def _path(options: argparse.Namespace, out: Output) -> int:
    from memspine.config import find_data_folder

    source, path = _target(options, out)
    exists = source.path is not None
    if out.json:
        data = {"path": str(path), "origin": source.origin, "exists": exists, "dataFolder": str(find_data_folder())}
        out.data(data)
    else:
        out.line(str(path))
        if not exists:
            out.note("not there yet: the defaults hold; `memspine config set` makes it")
    return Exit.OK


def _target(options: argparse.Namespace, out: Output) -> tuple[ConfigSource, Path]:
    """The file in use, or the one that would be made; `--config` may name one that is not there yet."""
    from memspine.config import ConfigSource, find_config, user_config_file
    from memspine.config.load import expanded

    if options.config is not None and not (path := expanded(options.config)).exists():
        return ConfigSource(path=None, origin="option", folder=path.absolute().parent, name=str(path), text=""), path
    source = find_config(options.config)
    for note in source.notes:
        out.note(note)
    return source, source.path or user_config_file()


def _tell_change(change: Change, out: Output) -> int:
    from memspine.config.show import toml_text

    if out.json:
        out.data({"path": str(change.path), "key": change.key, "old": change.old, "new": change.new})
    else:
        out.line(f"{change.path}: {change.key}: {toml_text(change.old)} -> {toml_text(change.new)}")
    return Exit.OK
