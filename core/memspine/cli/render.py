"""Memories as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from memspine.cli.output import Output
    from memspine.model import Memory
    from memspine.results import MemoryResult

COLUMNS = ("id", "created", "type", "session", "key", "content")


def row(memory: Memory) -> tuple[str, ...]:
    """One memory under `COLUMNS`; `-` stands for what is empty."""
    created = moment(memory.created_at)
    return (memory.id, created, memory.type.value, memory.session or "-", memory.key or "-", memory.content)


def moment(value: datetime) -> str:
    """A time to the second."""
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if value.year >= 1000 else f"{value.isoformat()[:19]}Z"


def details(memory: Memory) -> list[tuple[str, str]]:
    """All fields but the content, by name; those that say nothing are left out."""
    from memspine.model import canonical_json

    fields = [
        ("id", memory.id),
        ("owner", memory.owner),
        ("session", memory.session),
        ("type", memory.type.value),
        ("key", memory.key),
        ("metadata", canonical_json(dict(memory.metadata)) if memory.metadata else ""),
        ("created", moment(memory.created_at)),
        ("updated", moment(memory.updated_at) if memory.updated_at != memory.created_at else ""),
        ("expires", moment(memory.expires_at) if memory.expires_at else ""),
        ("revision", str(memory.revision)),
        ("recalled", _recalls(memory)),
    ]
    return [(name, value) for name, value in fields if value]


def _recalls(memory: Memory) -> str:
    if not memory.access_count:
        return ""
    last = f", last {moment(memory.last_accessed_at)}" if memory.last_accessed_at else ""
    return f"{memory.access_count} times{last}"


def show(memory: Memory, out: Output, *, pending: bool = False) -> None:
    """One memory, all of it: its fields a line each, an empty line, the content as it is."""
    state = [("pending", "waits in the journal for the primary")] if pending else []
    for name, value in [*details(memory), *state]:
        out.line(f"{name + ':':<10}{value}")
    out.line()
    out.block(memory.content)


def tell_degraded(degraded: Sequence[str], out: Output) -> None:
    """Say on standard error what was missing from an answer; JSON answers hold it themselves."""
    if not out.json:
        for reason in degraded:
            out.note(f"degraded: {reason}")


def result_data(result: MemoryResult) -> dict[str, Any]:
    """A memory and what there is to say about it, as JSON."""
    from memspine.wire import memory_to_wire

    return {
        "memory": memory_to_wire(result.memory),
        "created": result.created,
        "notes": list(result.notes),
        "backend": result.backend,
        "degraded": list(result.degraded),
        **({"pending": True} if result.pending else {}),
    }


def answer(result: MemoryResult, out: Output, *, said: str, with_id: bool = False) -> None:
    """What became of a write: the memory's id and a word (`pending` if it waits), with --quiet the id alone."""
    memory = result.memory
    if out.json:
        data = result_data(result)
        out.data({"id": memory.id, **data} if with_id else data)
        return
    out.cells(*((memory.id,) if out.quiet else (memory.id, "pending" if result.pending else said)))
    for note in result.notes:
        out.note(note)
    tell_degraded(result.degraded, out)
