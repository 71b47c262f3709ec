"""mem0: what `get_all` gives, as an array or with its envelope (`results`, and `relations` of a graph)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from memspine import times
from memspine.contracts import BadLine, ImportSource, Note, SourceItem
from memspine.model import MemoryType, NewMemory
from memspine_importers.documents import DocumentError, begins_with, elements, outline
from memspine_importers.shared import divided, mapping_of, moment, text_of, with_source

_ARRAYS: Final = ("results", "relations")
_HINTS: Final = frozenset({"hash", "user_id", "agent_id", "run_id", "categories"})
_KEPT: Final = ("agent_id", "actor_id", "app_id", "role", "categories", "updated_at")


def recognise(source: ImportSource) -> bool:
    """Whether the file has memories as mem0 gives them."""
    names = outline(source.head)
    fields = names[3] if begins_with(source.head, b"{") and "results" in names[1] else names[2]
    return {"id", "memory"} <= fields and not fields.isdisjoint(_HINTS)


def read(source: ImportSource) -> Iterator[SourceItem]:
    """A memory for each of mem0's, and for each relation of its graph."""
    if source.stream is None:
        yield BadLine(1, "a folder; expected a file with what `get_all` gave, as JSON")
        return
    number = 0
    owners = set[str]()
    try:
        for element in elements(source.stream, _ARRAYS):
            number += 1
            value = mapping_of(element.value)
            if element.array == "relations":
                yield from _relation(number, value, owners)
            else:
                owners.update(filter(None, [_owner(value)]))
                yield from _memory(number, value)
    except DocumentError as error:
        yield BadLine(number + 1, f"after {number} memories: {error}; expected what `get_all` gave, as JSON")
        return
    if not number and begins_with(source.head, b"{") and "results" not in outline(source.head)[1]:
        yield BadLine(1, 'there is no array "results" in it; expected what `get_all` gave, as JSON')


def _memory(number: int, value: Mapping[str, Any]) -> Iterator[SourceItem]:
    text = text_of(value.get("memory"))
    id = text_of(value.get("id"))
    where = f"memory {id[:80]}: " if id else f"memory {number}: "
    if not text.strip():
        yield BadLine(number, f'{where}cannot be used; expected an object with a text "memory"')
        return
    created, expires = moment(value.get("created_at")), moment(value.get("expiration_date"))
    for name, time in (("created_at", created), ("expiration_date", expires)):
        if time is None and value.get(name) not in (None, ""):
            yield Note(number, f"a time `{name}` that cannot be read was left out")
    if expires is not None and expires <= times.now():
        yield Note(number, "a memory that has expired was left out")
        return
    kept = {name: value[name] for name in _KEPT if value.get(name) not in (None, "", [])}
    own = {**mapping_of(value.get("metadata")), **kept}
    speaker = text_of(value.get("actor_id")) or text_of(value.get("role"))
    memory = NewMemory(
        content=text,
        session=text_of(value.get("run_id")),
        metadata=with_source("mem0", id or str(number), own, speaker=speaker),
        created_at=created,
        expires_at=expires,
    )
    for item in divided(number, memory, identity=("id", id) if id else ("text", text), where=where):
        yield attrs.evolve(item, owner=_owner(value))


def _relation(number: int, value: Mapping[str, Any], owners: set[str]) -> Iterator[SourceItem]:
    """A relation, which does not say whose it is: it belongs to whom all the memories of the file belong."""
    start, kind = text_of(value.get("source")), text_of(value.get("relationship"))
    end = text_of(value.get("target")) or text_of(value.get("destination"))
    if not (start and kind and end):
        given = json.dumps(sorted(value))[:200]
        yield BadLine(number, f"relation {number}: has {given}; expected source, relationship and target")
        return
    if len(owners) > 1:
        yield BadLine(number, f"relation {number}: whose it is cannot be told, as the memories are of several users")
        return
    metadata = with_source("mem0", f"relation/{start}", {}, entity=start, relation=kind, to=end)
    memory = NewMemory(content=f"{start} {kind.replace('_', ' ')} {end}", type=MemoryType.SEMANTIC, metadata=metadata)
    for item in divided(number, memory, identity=("relation", start, kind, end), where=f"relation {number}: "):
        yield attrs.evolve(item, owner=next(iter(owners), ""))


def _owner(value: Mapping[str, Any]) -> str:
    return text_of(value.get("user_id")) or text_of(value.get("agent_id"))
