"""Arguments that several commands share, and the values they stand for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from memspine.cli.codes import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from memspine.model import MemoryFilter

TYPES = "factual, episodic, procedural, semantic"
WHEN = "an ISO date and time with its offset, or how long ago: 30d, 12h"
EXPIRY = "an ISO date and time with its offset, or from now on: 30d, 12h"


def add_owner(parser: argparse.ArgumentParser) -> None:
    """--owner."""
    parser.add_argument("--owner", help="whose memories (default: `[memory] owner`)")


def add_scope(parser: argparse.ArgumentParser, *, session: str) -> None:
    """--owner and --session; what the session does is said by the command."""
    add_owner(parser)
    parser.add_argument("--session", help=session)


def add_shared(parser: argparse.ArgumentParser) -> None:
    """--shared."""
    parser.add_argument("--shared", action="store_true", help="also what is shared by all (the owner `global`)")


def add_everyone(parser: argparse.ArgumentParser) -> None:
    """--all-owners."""
    parser.add_argument("--all-owners", action="store_true", dest="everyone", help="the memories of every owner")


def check_everyone(options: argparse.Namespace) -> None:
    """Raise UsageError for --all-owners beside what names an owner or a part of one's memories."""
    if options.everyone and (options.owner is not None or options.session is not None):
        raise UsageError("--all-owners excludes --owner and --session")


def add_fields(parser: argparse.ArgumentParser) -> None:
    """The fields of a memory that add and update take."""
    parser.add_argument("--type", metavar="TYPE", help=f"one of {TYPES}")
    parser.add_argument("--key", help="a name of your own for it; adding the same key again replaces the memory")
    parser.add_argument("--metadata", metavar="JSON", help='a JSON object, such as {"category": "pets"}')
    parser.add_argument("--expires", metavar="WHEN", help=EXPIRY)


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Which memories a command is about."""
    group = parser.add_argument_group("filter (all that are given have to hold)")
    group.add_argument("--type", metavar="TYPE", action="append", default=[], help=f"{TYPES}; may be repeated")
    group.add_argument("--key", help="this key")
    group.add_argument("--category", help="this `category` in the metadata")
    group.add_argument("--text", help="content or key holds this text, upper and lower case alike")
    group.add_argument("--since", metavar="WHEN", help=f"created then or later: {WHEN}")
    group.add_argument("--until", "--before", metavar="WHEN", dest="until", help=f"created before then: {WHEN}")


def has_filter(options: argparse.Namespace) -> bool:
    """Whether any of the arguments of `add_filter` was given."""
    given = (options.key, options.category, options.text, options.since, options.until)
    return bool(options.type) or any(value is not None for value in given)


def chosen_filter(options: argparse.Namespace) -> MemoryFilter:
    """What the arguments of `add_filter` ask for. Raises InvalidMemoryError."""
    from memspine.cli.values import past
    from memspine.intake import Intake
    from memspine.model import MemoryFilter

    intake = Intake()
    since: datetime | None = past(options.since, field="--since")
    return MemoryFilter(
        types=tuple(map(intake.type, options.type)),
        key=options.key,
        category=options.category,
        text=options.text,
        created_from=since,
        created_before=past(options.until, field="--until"),
    )
