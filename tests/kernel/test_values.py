"""Small pure parts: times, ids, hashes, wire names."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta, timezone

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine import times
from memspine.errors import InvalidMemoryError, ScopeError, shorten
from memspine.ids import IdSource, keyed_id
from memspine.model import Memory, MemoryType, Scope
from memspine.wire import memory_from_wire, memory_to_wire

AWARE = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001
    timezones=st.timezones(),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
UTC_TIMES = AWARE.map(times.canonical)
MEMORIES = st.builds(
    Memory,
    id=st.from_regex(r"[A-Za-z0-9._:-]{1,20}", fullmatch=True),
    owner=TEXT.filter(bool),
    content=TEXT.filter(bool),
    type=st.sampled_from(MemoryType),
    session=TEXT,
    key=TEXT,
    metadata=st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    created_at=UTC_TIMES,
    updated_at=UTC_TIMES,
    expires_at=st.none() | UTC_TIMES,
    revision=st.integers(1, 10**9),
    access_count=st.integers(0, 10**6),
    last_accessed_at=st.none() | UTC_TIMES,
)


@given(AWARE)
def test_times_survive_text_and_numbers(value):
    """A time comes back from its canonical text and its milliseconds, cut to whole milliseconds."""
    canonical = times.canonical(value)
    assert times.from_text(times.to_text(canonical)) == canonical
    assert times.from_milliseconds(times.to_milliseconds(canonical)) == canonical
    assert timedelta(0) <= value - canonical < timedelta(milliseconds=1)


@given(AWARE, AWARE)
def test_canonical_text_sorts_as_the_times_do(a, b):
    """The order of canonical texts is the order of the instants, for any year and offset."""
    a, b = times.canonical(a), times.canonical(b)
    assert (times.to_text(a) < times.to_text(b)) == (a < b)


def test_offsets_of_one_instant_are_equal():
    """Z, +00:00 and any other offset name the same instant."""
    texts = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00", "2026-01-02T05:04:05.000+02:00")
    assert {times.to_text(times.from_text(text)) for text in texts} == {"2026-01-02T03:04:05.000Z"}


@pytest.mark.parametrize("text", ["2026-01-02T03:04:05", "2026-01-02", "yesterday", "", "2026-13-01T00:00:00Z"])
def test_naive_and_malformed_times_are_refused(text):
    """A time without an offset, or none at all, is refused with the form that is expected."""
    with pytest.raises(InvalidMemoryError, match="offset"):
        times.from_text(text)


def test_a_time_that_utc_cannot_express_is_refused():
    """The last hours of year 9999 west of Greenwich lie beyond UTC's years."""
    with pytest.raises(InvalidMemoryError, match="9999"):
        times.canonical(datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5))))


@given(st.lists(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1)), min_size=1))  # noqa: DTZ001
def test_new_ids_rise_whatever_the_clock_does(moments):
    """Ids of one source are distinct UUIDs of version 7 in rising order, also when the clock stands or goes back."""
    source = IdSource()
    ids = [source.new(moment.replace(tzinfo=UTC)) for moment in moments]
    assert ids == sorted(set(ids))
    assert {(uuid.UUID(id).version, uuid.UUID(id).variant) for id in ids} == {(7, uuid.RFC_4122)}


def test_keyed_ids_are_forever_and_do_not_run_together():
    """The id of an owner and key never changes between releases, and no other pair has it."""
    assert keyed_id("me", "drink") == "1ef5f273-3527-5c17-9a77-cf4f0ae915a8"
    assert keyed_id("ab", "c") != keyed_id("a", "bc")


@given(MEMORIES)
def test_a_memory_survives_json(memory):
    """A memory comes back equal, hash included, from the JSON of its wire form."""
    back = memory_from_wire(json.loads(json.dumps(memory_to_wire(memory))))
    assert back == memory
    assert back.content_hash == memory.content_hash


@given(MEMORIES)
def test_telemetry_moves_no_hash_and_all_else_does(memory):
    """The content hash is deaf to id, revision and telemetry, and changes with any other field."""
    same = attrs.evolve(memory, id="other", revision=7, access_count=99, last_accessed_at=None)
    assert same.content_hash == memory.content_hash
    for change in (
        {"content": memory.content + "x"},
        {"owner": memory.owner + "x"},
        {"session": memory.session + "x"},
        {"key": memory.key + "x"},
        {"metadata": {**memory.metadata, "new": 1}},
        {"updated_at": memory.updated_at + timedelta(milliseconds=1)},
    ):
        assert attrs.evolve(memory, **change).content_hash != memory.content_hash


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"content": 7}, "content"),
        ({"id": None}, "id"),
        ({"type": "opinion"}, "type"),
        ({"type": ["factual"]}, "type"),
        ({"createdAt": "2026-01-01"}, "createdAt"),
        ({"revision": 0}, "revision"),
        ({"revision": True}, "revision"),
        ({"metadata": []}, "metadata"),
        ({"contentHash": "0" * 64}, "contentHash"),
    ],
)
def test_a_damaged_record_is_refused_by_field(change, field):
    """A record with a wrong type, a value out of range or a hash that does not fit names the field."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    wire = memory_to_wire(Memory(id="a", owner="me", content="x", created_at=moment, updated_at=moment))
    with pytest.raises(InvalidMemoryError) as caught:
        memory_from_wire({**wire, **change})
    assert caught.value.field == field


@pytest.mark.parametrize("owner", ["", None, 7])
def test_an_owner_is_never_empty(owner):
    """No scope can be made without a name, so that nothing can mean everyone by accident."""
    for make in (Scope.of_owner, Scope.shared, lambda o: Scope.of_session(o, "s")):
        with pytest.raises(ScopeError):
            make(owner)


def test_errors_stay_short_whatever_the_value():
    """The repr in an error is cut, and neither deep nor huge values break it."""
    deep = []
    for _ in range(10_000):
        deep = [deep]
    for value in (deep, "x" * 10**6, {"k": "v" * 10**6}, list(range(10**6)), b"\0" * 10**6):
        assert len(shorten(value)) < 300
