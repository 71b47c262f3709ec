"""The parser of one command, and the options that every command has."""

from __future__ import annotations

import argparse
from typing import Final, NoReturn

from memspine.cli.codes import UsageError

GLOBAL_DEFAULTS = (("config", None), ("json", False), ("maintenance", True), ("quiet", False))

_MARK: Final = "\0word:"  # no argument of a process can hold NUL


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises UsageError instead of ending the process, and takes no abbreviations."""

    def __init__(self, **settings: object) -> None:
        settings.setdefault("allow_abbrev", False)
        super().__init__(**settings)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


def command_parser(name: str, *, description: str) -> Parser:
    """A parser of one command, without arguments yet."""
    formatter = argparse.RawDescriptionHelpFormatter
    return Parser(prog=f"memspine {name}", description=description, formatter_class=formatter)


def add_global_options(parser: argparse.ArgumentParser) -> None:
    """The options that may stand before and after the name of the command."""
    group = parser.add_argument_group("options of every command")
    # No defaults here: those of a sub-parser would overwrite what was given before it.
    missing = argparse.SUPPRESS
    group.add_argument("--config", metavar="FILE", default=missing, help="the configuration file")
    group.add_argument("--json", action="store_true", default=missing, help="answer in JSON, errors too")
    group.add_argument(
        "--no-maintenance",
        dest="maintenance",
        action="store_false",
        default=missing,
        help="no maintenance after the answer; recalls are still counted",
    )
    group.add_argument("--quiet", "-q", action="store_true", default=missing, help="only the answer and errors")


def parse(parser: argparse.ArgumentParser, arguments: list[str], *, intermixed: bool = True) -> argparse.Namespace:
    """The options. Raises UsageError; SystemExit after help was printed."""
    options = _intermixed(parser, arguments) if intermixed else parser.parse_args(arguments)
    for name, default in GLOBAL_DEFAULTS:
        if not hasattr(options, name):
            setattr(options, name, default)
    return options


def _intermixed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Options between positional arguments; what follows `--` is positional whatever it looks like.

    Intermixed parsing loses `--`, so the words behind it are marked until the parser is done.
    """
    if "--" not in arguments:
        return parser.parse_intermixed_args(arguments)
    at = arguments.index("--")
    options = parser.parse_intermixed_args([*arguments[:at], *(_MARK + word for word in arguments[at + 1 :])])
    for name, value in vars(options).items():
        if isinstance(value, str):
            setattr(options, name, value.removeprefix(_MARK))
        elif isinstance(value, list):
            setattr(options, name, [word.removeprefix(_MARK) for word in value])
    return options
