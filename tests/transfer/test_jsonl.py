"""Lines of JSON: what goes in, and what a line that does not is told."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import attrs
import pytest

from memspine.model import Memory, MemoryType, NewMemory, Tombstone
from memspine.transfer import BadLine, ImportedMemory, ImportedRecord, Note
from memspine.wire import memory_to_wire

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
MEMORY = Memory(id="m1", owner="me", content="Juno eats duck.", created_at=NOON, updated_at=NOON)
WIRE = memory_to_wire(MEMORY)
CUT = "the export that begins here has no last line: it is cut off, behind"
HEADER = {"memspine": 1, "version": "0.1.0", "memories": 1}


def end(count):
    return {"memspine": 1, "end": True, "memories": count}


def test_a_plain_line_is_a_memory(read):
    """A line needs a content and may have the other fields of a memory under their wire names."""
    plain, full = read(
        [
            {"content": "Tea, no sugar."},
            {
                "content": "Call Anna", "type": "procedural", "key": "todo:anna", "sessionId": "s", "id": None,
                "metadata": {"a": [1.0, 2**60]},
                "createdAt": "2026-01-02T13:00:00+01:00", "expiresAt": "2027-01-01T00Z",
            },
        ]
    )  # fmt: skip
    assert plain.memory == NewMemory(content="Tea, no sugar.")
    assert full == ImportedMemory(
        line=2,
        id=None,
        memory=NewMemory(
            content="Call Anna", type=MemoryType.PROCEDURAL, key="todo:anna", session="s",
            metadata={"a": [1.0, 2**60]}, created_at=NOON, expires_at=datetime(2027, 1, 1, tzinfo=UTC),
        ),
    )  # fmt: skip


def test_ids_come_from_the_line_the_key_or_the_content(read):
    """An id is taken as it stands, left to the key where there is one, and else made from all that the line says."""
    given, keyed, one, same, other = read(
        [
            {"content": "x", "id": "a:1"},
            {"content": "x", "key": "k"},
            {"content": "x"},
            {"content": "x", "type": None},
            {"content": "x", "metadata": {"a": 1}},
        ]
    )
    assert (given.id, keyed.id) == ("a:1", None)
    assert one.id == same.id
    assert one.id != other.id


def test_a_memory_as_the_api_shows_it_is_a_whole_record(read):
    """An object with all the fields of a stored memory keeps its id, revision and times."""
    used = attrs.evolve(MEMORY, revision=3, access_count=2, last_accessed_at=NOON)
    assert read([memory_to_wire(used)]) == [ImportedRecord(line=1, steps=(used,))]


def test_a_memory_of_another_service_is_a_whole_record(read):
    """Fields that a store does not have may be null or missing: session, key, revision, hash, telemetry."""
    theirs = {
        "id": "m1", "apiKeyId": "me", "sessionId": None, "key": None, "type": "factual", "content": "Juno eats duck.",
        "metadata": None, "createdAt": "2026-01-02T12:00:00Z", "updatedAt": "2026-01-02T12:00:00Z", "expiresAt": None,
    }  # fmt: skip
    assert read([theirs]) == [ImportedRecord(line=1, steps=(MEMORY,))]


def test_a_record_is_its_states_in_order(read):
    """History comes before the memory, with a tombstone wherever it says that the memory was deleted."""
    deleted = {"memory": WIRE, "replacedAt": "2026-02-01T00:00:00Z", "deleted": True}
    again = attrs.evolve(MEMORY, revision=3, content="Juno eats fish.")
    (item,) = read([{"memory": memory_to_wire(again), "history": [deleted]}])
    stone = Tombstone(id="m1", owner="me", revision=2, deleted_at=datetime(2026, 2, 1, tzinfo=UTC))
    assert item.steps == (MEMORY, stone, again)


def test_a_deletion_is_a_record_as_well(read):
    """A line may end in a tombstone instead of a memory."""
    stone = {"id": "m1", "apiKeyId": "me", "revision": 2, "deletedAt": "2026-02-01T00:00:00Z"}
    (item,) = read([{"tombstone": stone, "history": [{"memory": WIRE}]}])
    assert item.steps == (
        MEMORY,
        Tombstone(id="m1", owner="me", revision=2, deleted_at=datetime(2026, 2, 1, tzinfo=UTC)),
    )


def test_earlier_states_never_raise_the_telemetry(read):
    """A state counts no more accesses than the one after it, because a store would keep the higher count."""
    first = attrs.evolve(MEMORY, access_count=9, last_accessed_at=NOON)
    (item,) = read(
        [{"memory": {**WIRE, "revision": 2, "contentHash": None}, "history": [{"memory": memory_to_wire(first)}]}]
    )
    assert [step.access_count for step in item.steps] == [0, 0]
    assert item.steps[0].last_accessed_at is None


BAD = {
    "no JSON": ("{'content': 1}", "line: .*expected JSON"),
    "truncated": ('{"content": "x', "expected JSON .*the file ends in this line: it may be cut off"),
    "an array": ('["content"]', "expected a JSON object"),
    "a number": ("12", "expected a JSON object"),
    "nested too deeply": ('{"content": ' + "[" * 200_000, "expected JSON"),
    "a number without end": ('{"content": "x", "metadata": {"n": ' + "9" * 5000 + "}}", "expected JSON"),
    "no content": ('{"text": "x"}', 'expected a "content"'),
    "empty content": ('{"content": ""}', "content: '' .*not empty"),
    "null content": ('{"content": null}', "content: '' .*not empty"),
    "content of another type": ('{"content": ["x"]}', "content: .*expected text"),
    "over-long content": (json.dumps({"content": "x" * 100_001}), "content: .*at most 100000 characters"),
    "unknown field": ('{"content": "x", "category": "a"}', "category: 'a' .*belongs into metadata"),
    "unknown type": ('{"content": "x", "type": "fact"}', "type: 'fact' .*factual"),
    "type of another type": ('{"content": "x", "type": []}', r"type: \[\] .*factual"),
    "metadata of another type": ('{"content": "x", "metadata": []}', r"metadata: \[\] .*object"),
    "metadata too deep": ('{"content": "x", "metadata": {"a": ' + "[" * 40 + "]" * 40 + "}}", "32 levels"),
    "not a number": ('{"content": "x", "metadata": {"n": NaN}}', "metadata: .*JSON"),
    "naive date": ('{"content": "x", "createdAt": "2026-01-02T03:04:05"}', "createdAt: .*with its offset"),
    "date out of range": ('{"content": "x", "expiresAt": "9999-12-31T23:59:59-01:00"}', "expiresAt: .*9999 in UTC"),
    "date of another type": ('{"content": "x", "createdAt": 5}', "createdAt: 5 .*with its offset"),
    "impossible id": ('{"content": "x", "id": "a b"}', "id: 'a b'"),
    "id of another type": ('{"content": "x", "id": 7}', "id: 7 "),
    "over-long key": (json.dumps({"content": "x", "key": "k" * 513}), "key: .*at most 512"),
    "both": (json.dumps({"memory": WIRE, "tombstone": {}}), 'either a "memory" or a "tombstone"'),
    "memory of another type": ('{"memory": 5}', "memory: 5 .*object"),
    "no owner": (json.dumps({**WIRE, "apiKeyId": ""}), "owner: '' .*not empty|contentHash"),
    "no id": (json.dumps({key: value for key, value in WIRE.items() if key != "id"}), "id: None .*missing"),
    "wrong hash": (json.dumps({**WIRE, "content": "Juno eats soap."}), "contentHash: .*changed or damaged"),
    "revision 0": (json.dumps({**WIRE, "revision": 0}), "revision: 0 .*from 1"),
    "revision too high": (json.dumps({**WIRE, "revision": 2**64}), "revision: .*at most"),
    "accesses below 0": (json.dumps({**WIRE, "accessCount": -1}), "accessCount: -1 .*from 0"),
    "unknown field of a memory": (json.dumps({"memory": {**WIRE, "score": 1}}), "score: 1 .*only the fields"),
    "history of another type": (json.dumps({"memory": WIRE, "history": {}}), "history: .*array"),
    "history that does not rise": (json.dumps({"memory": WIRE, "history": [{"memory": WIRE}]}), "history: 1 .*rise"),
    "history of another memory": (
        json.dumps({"memory": {**WIRE, "revision": 2}, "history": [{"memory": {**WIRE, "id": "m2"}}]}),
        "history: 'm2' .*states of 'm1'",
    ),
    "deleted without a time": (
        json.dumps({"memory": {**WIRE, "revision": 3}, "history": [{"memory": WIRE, "deleted": True}]}),
        "replacedAt: ",
    ),
    "tombstone without a revision": (json.dumps({"tombstone": {"id": "a", "apiKeyId": "b"}}), "revision: None"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_told_and_the_rest_goes_in(read, case):
    """Each kind of bad line is told with its number and what was expected, and the lines around it are read."""
    text, reason = BAD[case]
    last = text if case == "truncated" else f'{text}\n{{"content": "after"}}'
    before, bad, *after = read(f'{{"content": "before"}}\n{last}')
    assert before.memory.content == "before"
    assert [item.memory.content for item in after] == ([] if case == "truncated" else ["after"])
    assert isinstance(bad, BadLine)
    assert bad.line == 2
    assert re.search(reason, bad.reason, re.DOTALL), bad.reason
    assert "\n" not in bad.reason


def test_what_cannot_be_stored_is_replaced_with_a_note(read):
    """NUL and lone surrogates are cleaned as the kernel cleans them, in plain lines and in records; a note says so."""
    plain = r'{"content": "a\u0000b", "metadata": {"x": "\ud800"}}'
    record = memory_to_wire(attrs.evolve(MEMORY, content="a\0b"))
    unhashable = {**WIRE, "content": "a\ud800b"}
    items = read(f"{plain}\n{json.dumps(record)}\n{json.dumps(unhashable)}")
    assert [(item.line, item.text) for item in items if isinstance(item, Note)] == [
        (1, "content: 1 NUL character(s) replaced by U+FFFD"),
        (1, "metadata.x: lone surrogate(s) replaced by U+FFFD"),
        (2, "content: 1 NUL character(s) replaced by U+FFFD"),
        (3, "content: lone surrogate(s) replaced by U+FFFD"),
    ]
    memory, first, second = (item for item in items if not isinstance(item, Note))
    assert (memory.memory.content, memory.memory.metadata) == ("a\ufffdb", {"x": "\ufffd"})
    assert first.last.content == second.last.content == "a\ufffdb"


def test_a_line_that_is_not_utf8_is_bad_alone(read):
    """Invalid UTF-8 is the trouble of its own line."""
    bad, good = read(b'{"content": "\xff"}\n{"content": "x"}')
    assert bad == BadLine(1, "byte 0xff at position 13 is not UTF-8; convert the file to UTF-8")
    assert good.memory.content == "x"


def test_the_marks_of_an_export_are_no_memories(read):
    """The first and the last line of an export give nothing when all is there."""
    assert read([HEADER, {"memory": WIRE}, end(1)]) == [ImportedRecord(line=2, steps=(MEMORY,))]


def test_exports_may_follow_each_other(read):
    """Several exports in one file are read as if each were alone."""
    assert read([HEADER, {"memory": WIRE}, end(1)] * 2) == [
        ImportedRecord(line=2, steps=(MEMORY,)),
        ImportedRecord(line=5, steps=(MEMORY,)),
    ]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([HEADER, {"memory": WIRE}], BadLine(1, f"{CUT} 1 records")),
        ([HEADER, {"memory": WIRE}, end(2)], BadLine(3, "the export had 2 records, 1 are here")),
        ([HEADER, HEADER, {"memory": WIRE}, end(1)], BadLine(1, f"{CUT} 0 records")),
    ],
    ids=["no last line", "lines are missing", "cut off before another"],
)  # fmt: skip
def test_an_export_that_lacks_lines_is_noticed(read, lines, told):
    """A cut-off export is told, and what is there of it is read."""
    bad = [item for item in read(lines) if isinstance(item, BadLine)]
    assert bad == [told]


def test_a_newer_export_is_told_and_tried(read):
    """An export of a format that is not known yet is told at its first line; lines that are understood go in."""
    bad, record = read([{**HEADER, "memspine": 2}, {"memory": WIRE}, end(1)])
    assert bad.reason.startswith("the export has format 2, this memspine reads 1")
    assert record.last == MEMORY
