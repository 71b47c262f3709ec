"""Lines of JSON: exports of memspine, memories as the REST API shows them, and plain lines with a `content`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from memspine import times
from memspine.errors import InvalidMemoryError, shorten
from memspine.intake import Intake
from memspine.model import MemoryType, NewMemory
from memspine.transfer.items import BadLine, Item, checked_memory, content_id
from memspine.transfer.lines import Line
from memspine.transfer.records import STATE_FIELDS, read_record, read_state, refuse_unknown

FORMAT_MARK: Final = "memspine"
"""The field that makes a line the first or the last of an export; its value is the version of the format."""

EXPORT_VERSION: Final = 1
"""The version of the export format that is written, and the newest that is read."""

_PLAIN_FIELDS: Final = ("content", "type", "key", "sessionId", "metadata", "createdAt", "expiresAt", "id")
# One of these, and the line is a record of a store rather than something a person wrote.
_RECORD_FIELDS: Final = STATE_FIELDS - {*_PLAIN_FIELDS}


def read_jsonl(lines: Iterable[Line]) -> Iterator[Item]:
    """The items of each line; blank lines are passed over."""
    watch = _ExportWatch()
    for line in lines:
        if not line.problem and not line.text.strip():
            continue
        watch.lines += 1
        try:
            data = _parsed(line)
            if FORMAT_MARK in data:
                watch.lines -= 1
                yield from watch.mark(line.number, data)
            else:
                yield from _items(line.number, data)
        except InvalidMemoryError as error:
            yield BadLine(line.number, line.problem or str(error))
    yield from watch.end()


def _parsed(line: Line) -> dict[str, Any]:
    try:
        data = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        cut = "" if line.complete else "; the file ends in this line: it may be cut off"
        raise InvalidMemoryError("line", line.text, f"JSON ({error}){cut}") from error
    if not isinstance(data, dict):
        raise InvalidMemoryError("line", data, 'a JSON object, such as {"content": "…"}, on every line')
    return data


def _items(number: int, data: Mapping[str, Any]) -> Iterator[Item]:
    if "content" in data:
        if data.keys() & _RECORD_FIELDS:
            yield from read_state(number, data)
        else:
            yield from _plain(number, data)
    elif "memory" in data or "tombstone" in data:
        yield from read_record(number, data)
    else:
        raise InvalidMemoryError("line", data, 'a "content", or a "memory" as exports have it')


def _plain(number: int, data: Mapping[str, Any]) -> Iterator[Item]:
    refuse_unknown(data, _PLAIN_FIELDS, advice="; what is your own belongs into metadata")
    given = {name: value for name, value in data.items() if value is not None}
    metadata = given.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InvalidMemoryError("metadata", metadata, "a JSON object")
    memory = NewMemory(
        content=given.get("content", ""),
        type=Intake().type(given.get("type", MemoryType.FACTUAL)),
        key=given.get("key", ""),
        session=given.get("sessionId", ""),
        metadata=metadata,
        created_at=times.from_text(given["createdAt"], field="createdAt") if "createdAt" in given else None,
        expires_at=times.from_text(given["expiresAt"], field="expiresAt") if "expiresAt" in given else None,
    )
    id = given.get("id")
    if id is None and not memory.key:
        id = content_id("jsonl", json.dumps(given, sort_keys=True))
    yield from checked_memory(number, memory, id=id)


@attrs.define
class _ExportWatch:
    """Notices an export that lacks lines: its first line announces a last one, which says how many there were."""

    lines: int = 0
    begun: int | None = None

    def mark(self, number: int, data: Mapping[str, Any]) -> Iterator[BadLine]:
        """The first or last line of an export."""
        version = data[FORMAT_MARK]
        if version != EXPORT_VERSION:
            yield BadLine(
                number,
                f"the export has format {shorten(version)}, this memspine reads {EXPORT_VERSION}; "
                "what its lines say may be understood in part only",
            )
        if data.get("end") is not True:
            yield from self.end()
            self.begun, self.lines = number, 0
        elif self.begun is not None:
            if data.get("memories") != self.lines:
                yield BadLine(number, f"the export had {shorten(data.get('memories'))} records, {self.lines} are here")
            self.begun = None

    def end(self) -> Iterator[BadLine]:
        """The end of the file, or the beginning of another export."""
        if self.begun is not None:
            yield BadLine(
                self.begun, f"the export that begins here has no last line: it is cut off, behind {self.lines} records"
            )
