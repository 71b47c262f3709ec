"""From the arguments to an exit code: finds the command, runs it, and says in one line what went wrong."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from memspine.cli.codes import Exit, UsageError
from memspine.cli.output import Output

if TYPE_CHECKING:
    import argparse

    from memspine.cli.extensions import Extension

_WITH_VALUE = ("--config",)
_WITHOUT_VALUE = ("--json", "--no-maintenance", "--quiet", "-q")


class CommandModule(Protocol):
    """What the module of a built-in command has."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own arguments."""

    def run(self, options: argparse.Namespace, out: Output) -> int:
        """Do it; returns the exit code. Raises MemspineError, OSError."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: that of the process) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    out = Output(json="--json" in arguments)
    try:
        code = _run(arguments, out)
        out.flush()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        out.give_up()
        return Exit.OK
    except SystemExit as ended:  # help, printed by argparse; or a command of another distribution
        return _ended(ended, out)
    except Exception as error:  # the one outermost place: whatever it is, a person gets one line
        from memspine.cli.report import report

        return report(error, out)
    return code


def _run(arguments: list[str], out: Output) -> int:
    before, name, after = _split(arguments)
    if "--version" in before:
        from memspine import __version__

        out.line(f"memspine {__version__}")
        return Exit.OK
    is_asked = name == "help" or "--help" in before or "-h" in before
    if name is None or is_asked:
        return _help(name if name != "help" else None, after, out, is_asked=is_asked)
    for option in before:
        if option.startswith("-") and option.partition("=")[0] not in (*_WITH_VALUE, *_WITHOUT_VALUE):
            raise UsageError(f"unknown option {option!r} before the command; options of a command follow its name")
    return _command(name, [*before, *after], out)


def _split(arguments: list[str]) -> tuple[list[str], str | None, list[str]]:
    """The options before the command, its name, and what follows."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in _WITH_VALUE else 1
    if at >= len(arguments):
        return arguments, None, []
    return arguments[:at], arguments[at], arguments[at + 1 :]


def _command(name: str, arguments: list[str], out: Output) -> int:
    from memspine.cli.table import COMMANDS

    if name not in COMMANDS:
        extension = _extension(name)
        out.extension, out.is_loading = extension, True
        function = extension.load()
        out.is_loading = False
        return int(function(arguments) or 0)
    from memspine.cli.parser import add_global_options, command_parser, parse

    module = cast("CommandModule", importlib.import_module(COMMANDS[name].address(name)))
    parser = command_parser(name, description=module.__doc__ or "")
    module.configure(parser)
    add_global_options(parser)  # last, and so last in help
    options = parse(parser, arguments, intermixed=not getattr(module, "HAS_ACTIONS", False))
    out.json, out.quiet = options.json, options.quiet
    # `out` has the stream already: what a plugin prints, at import or later, is not part of the answer.
    with contextlib.redirect_stdout(sys.stderr):
        return module.run(options, out)


def _extension(name: str) -> Extension:
    """A command that another distribution brings. Raises UsageError when none does."""
    from memspine.cli.extensions import installed_commands
    from memspine.cli.table import COMMANDS

    extensions = {extension.name: extension for extension in installed_commands()}
    if name in extensions:
        return extensions[name]
    import difflib

    close = difflib.get_close_matches(name, [*COMMANDS, *extensions], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise UsageError(f"unknown command {name!r}{hint} (`memspine --help` lists all)")


def _help(name: str | None, after: list[str], out: Output, *, is_asked: bool) -> int:
    from memspine.cli.help import exit_code_page, main_page

    topic = name or next((word for word in after if not word.startswith("-")), None)
    if topic == "exit-codes":
        out.block(exit_code_page())
    elif topic is not None:
        return _command(topic, ["--help"], out)
    else:
        out.block(main_page())
    return Exit.OK if is_asked else Exit.USAGE


def _ended(ended: SystemExit, out: Output) -> int:
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or Exit.OK
    out.error(str(ended.code), type="failure")
    return Exit.FAILURE
