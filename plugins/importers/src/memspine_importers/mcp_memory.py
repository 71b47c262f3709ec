"""The MCP server `memory`: a knowledge graph, one entity or relation on each line of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from memspine.contracts import BadLine, ImportSource, SourceItem
from memspine.model import MemoryType, NewMemory
from memspine_importers.shared import divided, list_of, text_of, with_source

LINE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Longer lines are bad."""

_FIELDS: Final = {"entity": {"name", "entityType", "observations"}, "relation": {"from", "to", "relationType"}}
_EXPECTED: Final = 'an "entity" with name, entityType and observations, or a "relation" with from, to and relationType'


def recognise(source: ImportSource) -> bool:
    """Whether more than half of the first lines are entities or relations; broken ones do not count."""
    lines = source.head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    whole = lines[:-1] if len(lines) > 1 else lines  # the last one may be cut
    read = [value for line in whole if isinstance(value := _loaded(line), dict)]
    fitting = sum(_FIELDS.get(text_of(value.get("type")), {"?"}) <= value.keys() for value in read)
    return fitting * 2 > len(read)


def read(source: ImportSource) -> Iterator[SourceItem]:
    """A memory for each observation and each relation."""
    if source.stream is None:
        yield BadLine(1, "a folder; expected the file that MEMORY_FILE_PATH names, mostly memory.jsonl")
        return
    for number, line in enumerate(_lines(source.stream), 1):
        if line is None:
            yield BadLine(number, f"the line is longer than {LINE_BYTES_MAX // (1024 * 1024)} MiB")
        elif line.strip():
            yield from _items(number, line)


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Each line, None for one that is too long to be held."""
    while line := stream.readline(LINE_BYTES_MAX + 1):
        if len(line) <= LINE_BYTES_MAX:
            yield line.removeprefix(b"\xef\xbb\xbf")
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(LINE_BYTES_MAX)
        yield None


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _items(number: int, line: bytes) -> Iterator[SourceItem]:
    value = _loaded(line)
    kind = text_of(value.get("type")) if isinstance(value, dict) else ""
    if not isinstance(value, dict):
        cut = "" if line.endswith(b"\n") else "; the file ends in this line: it may be cut off"
        yield BadLine(number, f"the line is no JSON object; expected {_EXPECTED}{cut}")
    elif kind == "entity" and text_of(value.get("name")) and isinstance(value.get("observations"), list):
        yield from _entity(number, value)
    elif kind == "relation" and all(text_of(value.get(name)) for name in _FIELDS["relation"]):
        yield from _relation(number, value)
    else:
        given = ", ".join(sorted(value)[:8])[:200]
        yield BadLine(number, f"the line has {given or 'nothing'}; expected {_EXPECTED}")


def _entity(number: int, value: dict[str, Any]) -> Iterator[SourceItem]:
    name, kind = text_of(value["name"]), text_of(value.get("entityType"))
    observations = list_of(value["observations"])
    for observation in observations:
        if not text_of(observation).strip():
            yield BadLine(number, f"an observation of {name[:80]!r} is no text; the others were taken")
            continue
        content = f"{name}: {text_of(observation).strip()}"
        metadata = with_source("mcp-memory", name, {}, entity=name, entity_type=kind)
        memory = NewMemory(content=content, metadata=metadata)
        yield from divided(number, memory, identity=("entity", name, text_of(observation)), where="")
    if not observations:
        content = f"{name} ({kind})" if kind else name
        memory = NewMemory(content=content, metadata=with_source("mcp-memory", name, {}, entity=name, entity_type=kind))
        yield from divided(number, memory, identity=("entity", name), where="")


def _relation(number: int, value: dict[str, Any]) -> Iterator[SourceItem]:
    start, end, kind = (text_of(value[name]) for name in ("from", "to", "relationType"))
    metadata = with_source("mcp-memory", start, {}, entity=start, relation=kind, to=end)
    memory = NewMemory(content=f"{start} {kind.replace('_', ' ')} {end}", type=MemoryType.SEMANTIC, metadata=metadata)
    yield from divided(number, memory, identity=("relation", start, kind, end), where="")
