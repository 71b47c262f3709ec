"""Lines, formats, and what a file is before anything in it is understood."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine.errors import InvalidMemoryError
from memspine.transfer import BadLine, ImportedMemory, guess_format, read_records
from memspine.transfer.lines import LINE_BYTES_MAX, Line, read_lines


@given(st.lists(st.binary(max_size=12), max_size=8))
def test_lines_do_not_depend_on_how_the_file_comes_in(chunks):
    """Whatever the pieces in which bytes arrive, the lines are those of the whole."""
    assert list(read_lines(chunks)) == list(read_lines([b"".join(chunks)]))


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=["Cs"])), min_size=1))
def test_lines_are_those_between_line_feeds(texts):
    """Only LF and CRLF end a line; no other character that some call a line end does."""
    raw = "".join(f"{text}\r\n" for text in texts).encode()
    assert [line.text for line in read_lines([raw])] == texts


def test_a_byte_order_mark_is_no_text():
    """A byte order mark at the beginning is passed over, and is kept anywhere else."""
    lines = list(read_lines(["\ufeffone\n\ufefftwo".encode()]))
    assert [(line.text, line.complete) for line in lines] == [("one", True), ("\ufefftwo", False)]


def test_a_line_that_is_not_utf8_spoils_itself_alone():
    """Invalid UTF-8 is a problem of its own line, which names the byte and the place."""
    first, second, third = read_lines([b"good\nb\xff\nalso"])
    assert (first.text, third.text) == ("good", "also")
    assert second == Line(number=2, problem="byte 0xff at position 1 is not UTF-8; convert the file to UTF-8")


@pytest.mark.parametrize("behind", [b"\nnext", b""], ids=["in the middle", "at the end"])
def test_an_endless_line_is_never_held(behind):
    """A line longer than the limit is bad without being held, and what follows is read."""
    chunks = (b"x" * (1 << 20) if n < 64 else behind for n in range(65))
    tracemalloc.start()
    lines = list(read_lines(chunks))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines[0].problem == "the line is longer than 8 MiB"
    assert [line.text for line in lines[1:]] == (["next"] if behind else [])
    assert peak < 3 * LINE_BYTES_MAX


def test_many_lines_are_read_with_bounded_memory():
    """A file of lines of JSON is never held as a whole."""

    class Endless(io.RawIOBase):
        left = 40

        def read(self, size=-1):
            self.left -= 1
            return b'{"content": "%s"}\n' % (b"x" * 1000) * (size // 1020) if self.left > 0 else b""

    tracemalloc.start()
    count = sum(isinstance(item, ImportedMemory) for item in read_records(Endless(), name="-", format="jsonl"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count > 9000
    assert peak < 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("name", "head", "format"),
    [
        ("a.jsonl", b"", "jsonl"),
        ("a.NDJSON", b"", "jsonl"),
        ("notes.md", b'{"conversations": []}', "markdown"),
        ("notes.txt", b"# x", "text"),
        ("a.json", b'\xef\xbb\xbf {"name": 1,\n "conversations": []', "conversations"),
        ("a.json", b'{"content": "x"}', "jsonl"),
        ("a.json", b"[1]", "jsonl"),
        ("backup.json", b'{"memspine":1}\n{"memory":{"metadata":{"conversations":1}}}', "jsonl"),
        ("-", b'{"content": "x"}', "jsonl"),
        ("-", b'\n{"conversations": []}', "conversations"),
        ("-", b"words\n\n- a list", "markdown"),
        ("README", b"# heading", "markdown"),
        ("notes", b"plain words\n\nmore -\n#tag", "text"),
        ("-", b"", "text"),
    ],
)
def test_formats_are_guessed_by_name_then_by_beginning(name, head, format):
    """The ending of the name decides, and where it says nothing, the beginning of the file."""
    assert guess_format(name, head) == format


def test_guessing_takes_nothing_from_the_file(read):
    """What was read to guess the format is read as part of the file."""
    (item,) = read("words without end " * 1000, name="-")
    assert item.memory.content.count("words") == 1000


def test_an_unknown_format_is_refused_before_reading():
    """A format that does not exist is an error at once, which names those that do."""
    with pytest.raises(InvalidMemoryError, match=r"format: 'csv'.* one of jsonl, conversations, markdown, text"):
        read_records(io.BytesIO(b""), name="a.csv", format="csv")


@pytest.mark.parametrize("format", ["jsonl", "conversations", "markdown", "text"])
def test_utf16_is_told_from_utf8(read, format):
    """A file in UTF-16 is one bad line that says what to do, not one for each line."""
    assert read("words".encode("utf-16"), format=format) == [BadLine(1, "the file is UTF-16; convert it to UTF-8")]


@pytest.mark.parametrize("format", ["jsonl", "markdown", "text"])
def test_an_empty_file_holds_nothing(read, format):
    """A file without a word gives no item and no complaint."""
    assert read(b"\xef\xbb\xbf\r\n\n  \n", format=format) == []


@pytest.mark.parametrize("format", ["jsonl", "conversations", "markdown", "text"])
@given(raw=st.binary(max_size=200))
def test_no_bytes_stop_reading(format, raw):
    """Whatever the bytes, reading them ends without an exception, in items."""
    for item in read_records(io.BytesIO(raw), name="x", format=format):
        assert item.line >= 1
