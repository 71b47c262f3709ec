"""Replace fields of a memory; those that are not named stay. Metadata is replaced as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli import options as shared
from memspine.cli.codes import UsageError
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.model import MemoryChanges


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("id", metavar="ID")
    parser.add_argument("text", nargs="*", metavar="TEXT", help="the new content, or - for standard input")
    shared.add_fields(parser)
    parser.add_argument("--no-expiry", action="store_true", help="keep it for ever")
    parser.add_argument(
        "--expected-revision", type=int, metavar="N", help="change nothing if it has another revision by now"
    )
    shared.add_scope(parser, session="the session it shall belong to")


def run(options: argparse.Namespace, out: Output) -> int:
    """Change it."""
    from memspine.cli.render import answer

    changes = _changes(options).named()

    async def work(memory: MemoryManager) -> int:
        result = await memory.update(
            options.id,
            **changes,
            expected_revision=options.expected_revision,
            owner=options.owner,
            management=True,
        )
        answer(result, out, said=f"revision {result.memory.revision}")
        return 0

    return with_memory(options, out, work)


def _changes(options: argparse.Namespace) -> MemoryChanges:
    from memspine.cli import values
    from memspine.intake import Intake
    from memspine.model import UNSET, MemoryChanges

    if options.no_expiry and options.expires is not None:
        raise UsageError("--expires and --no-expiry exclude each other")
    expires = values.future(options.expires, field="--expires")
    return MemoryChanges(
        content=values.content(options.text) if options.text else UNSET,
        type=UNSET if options.type is None else Intake().type(options.type),
        session=UNSET if options.session is None else options.session,
        key=UNSET if options.key is None else options.key,
        metadata=UNSET if options.metadata is None else values.json_object(options.metadata, field="--metadata"),
        expires_at=expires if expires is not None or options.no_expiry else UNSET,
    )
