"""Show the revisions of a memory, oldest first, also of a deleted one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memspine.cli import options as shared
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.model import Memory, Revision

_FIELDS: Final = ("content", "type", "session", "key", "metadata", "expires_at")
_COLUMNS: Final = ("revision", "since", "state", "changed", "content")


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("id", metavar="ID")
    shared.add_scope(parser, session="only if it belongs to this session")


def run(options: argparse.Namespace, out: Output) -> int:
    """Show them."""
    from memspine.cli.sessions import require_session
    from memspine.wire import revision_to_wire

    async def work(memory: MemoryManager) -> int:
        states = await memory.history(options.id, owner=options.owner)
        require_session(states[-1].memory, options.session, backend=memory.config.primary.name)
        if out.json:
            out.data({"data": [revision_to_wire(state) for state in states], "total": len(states)})
        else:
            out.table(_COLUMNS, _rows(states))
        return 0

    return with_memory(options, out, work)


def _rows(states: Sequence[Revision]) -> list[tuple[str, ...]]:
    from memspine.cli.render import moment

    rows: list[tuple[str, ...]] = []
    before: Memory | None = None
    for state in states:
        memory = state.memory
        since = moment(memory.updated_at)
        rows.append((str(memory.revision), since, _state(state), _changed(before, memory), memory.content))
        before = memory
    return rows


def _state(state: Revision) -> str:
    from memspine.cli.render import moment

    if state.replaced_at is None:
        return "deleted" if state.deleted else "current"
    return f"{'deleted' if state.deleted else 'replaced'} {moment(state.replaced_at)}"


def _changed(before: Memory | None, memory: Memory) -> str:
    if before is None:
        return "first kept" if memory.revision > 1 else "created"
    changed = [name for name in _FIELDS if getattr(before, name) != getattr(memory, name)]
    return ", ".join(changed) or "nothing"
