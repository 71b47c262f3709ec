"""Write a plugin of your own: a distribution that installs, is found, and passes the base clauses of the kit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli.codes import InputError
from memspine.cli.files import named_path

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from memspine.cli.output import Output


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("name", metavar="NAME", help='as the configuration will name it: plugin = "NAME"')
    parser.add_argument("--folder", metavar="DIR", help="where to make the folder memspine-NAME (default: here)")


def run(options: argparse.Namespace, out: Output) -> int:
    """Write it."""
    from memspine.scaffold import ScaffoldError, write_plugin

    parent = named_path(options.folder or ".")
    try:
        files = write_plugin(options.name, parent)
    except ScaffoldError as error:
        raise InputError(str(error)) from error
    except OSError as error:
        raise InputError(f"{error.filename or parent}: {error.strerror or error}") from error
    folder = parent / f"memspine-{options.name}"
    commands = next_commands(options.name, folder)
    if out.json:
        out.data({"folder": str(folder), "files": [str(file) for file in files], "next": list(commands)})
        return 0
    for file in files:
        out.line(str(file))
    if not out.quiet:
        out.line()
        out.line("Next:")
        for command in commands:
            out.line(f"  {command}")
    return 0


def next_commands(name: str, folder: Path) -> tuple[str, ...]:
    """What to do with a new plugin."""
    import shlex

    from memspine.scaffold import kit_command

    place = shlex.quote(str(folder))
    return (
        f'pip install -e {place} "memspine[conformance]"',
        "memspine plugins",
        kit_command(name, folder=folder),
    )
