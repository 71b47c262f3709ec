"""A store as lines of JSON that `import` reads back: one line a memory, with all the states it has had."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from memspine import __version__, times
from memspine.errors import BackendUnavailable, CapabilityError, NotFoundError
from memspine.model import Memory, Revision
from memspine.results import PageResult
from memspine.transfer.jsonl import EXPORT_VERSION, FORMAT_MARK
from memspine.wire import memory_to_wire, revision_to_wire

if TYPE_CHECKING:
    from memspine.manager import MemoryManager

_NEVER_INCLUDED: Final = ("expired memories", "deleted memories and their tombstones", "vectors", "configuration")
_PROBE: Final = "memspine-export"
# Ends of lines to some readers, although not to JSON. They occur inside texts only, where they may be escaped.
_LINE_ENDS: Final = {"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


async def export_records(
    manager: MemoryManager,
    *,
    owner: str | None = None,
    session: str | None = None,
    everyone: bool = False,
    management: bool = False,
    page_size: int = 500,
) -> AsyncIterator[str]:
    """The memories of `owner` (and only in `session`, if one is named), or of everyone, oldest first, as lines.

    The first line says what the export is and what it does not hold, the last one how many memories there were: a
    file without it is cut off. Each line ends with a newline. What changes meanwhile is exported as it was or as it
    is, never as a mixture. Raises what listing raises, and BackendUnavailable when the primary does not answer: an
    export is never made from a fallback.
    """
    keeps_history = await _keeps_history(manager, owner)
    exported = 0
    cursor: str | None = None
    begun = False
    while not begun or cursor is not None:
        page = await manager.list(
            limit=page_size,
            cursor=cursor,
            newest_first=False,
            owner=owner,
            session=session,
            everyone=everyone,
            management=management,
        )
        _require_primary(manager, page)
        if not begun:
            begun = True
            scope = {"everyone": True} if everyone else {"owner": owner or manager.config.memory.owner}
            yield _line(_header(page, {**scope, "session": session}, keeps_history=keeps_history))
        for memory in page.memories:
            states = await _states(manager, memory, keeps_history=keeps_history)
            if states:
                exported += 1
                yield _line(_record(states))
        cursor = page.cursor
    yield _line({FORMAT_MARK: EXPORT_VERSION, "end": True, "memories": exported})


async def _keeps_history(manager: MemoryManager, owner: str | None) -> bool:
    """Whether the primary, as it was opened, can say what its memories were before."""
    try:
        await manager.history(_PROBE, owner=owner)
    except NotFoundError:
        return True
    except CapabilityError:
        return False
    return True


def _require_primary(manager: MemoryManager, page: PageResult) -> None:
    if page.degraded:
        primary = manager.config.primary.name
        raise BackendUnavailable(primary, "an export needs the primary, and it did not answer", causes=page.degraded)


def _header(page: PageResult, scope: Mapping[str, Any], *, keeps_history: bool) -> dict[str, Any]:
    left_out = (
        _NEVER_INCLUDED if keeps_history else ("earlier states, which this store does not keep", *_NEVER_INCLUDED)
    )
    return {
        FORMAT_MARK: EXPORT_VERSION,
        "version": __version__,
        "exportedAt": times.to_text(times.now()),
        "backend": page.backend,
        **{name: value for name, value in scope.items() if value is not None},
        "memories": page.total,
        "notIncluded": list(left_out),
    }


async def _states(manager: MemoryManager, memory: Memory, *, keeps_history: bool) -> tuple[Revision, ...]:
    """All states of a memory, the current one last; none when it was deleted since it was listed."""
    if not keeps_history or memory.revision == 1:
        return (Revision(memory=memory),)
    try:
        states = await manager.history(memory.id, owner=memory.owner)
    except NotFoundError:
        return ()
    return states if states[-1].replaced_at is None and not states[-1].deleted else ()


def _record(states: tuple[Revision, ...]) -> dict[str, Any]:
    *earlier, current = states
    line: dict[str, Any] = {"memory": memory_to_wire(current.memory)}
    if earlier:
        line["history"] = [revision_to_wire(state) for state in earlier]
    return line


def _line(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _LINE_ENDS.items():
        text = text.replace(character, escape)
    return f"{text}\n"
