"""Documents: piece by piece, cut off, of the wrong product, and whatever else there may be."""

import io
import itertools
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspine.contracts import BadLine, Note, SourceMemory
from memspine_importers.documents import DocumentError, elements, outline
from memspine_importers.shared import PIECE_CHARS, pieces

from .samples import make_omniroute
from .tools import FILES, IMPORTERS, found_in, recognised_by

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = {
    "chatgpt": "mapping current_node id title create_time message parent author role content content_type parts text "
    "metadata recipient attachments user assistant".split(),
    "claude": "uuid name chat_messages sender human assistant text content type attachments extracted_content files "
    "file_name created_at account conversations_memory project_memories".split(),
    "mem0": "results relations id memory metadata user_id run_id created_at expiration_date source relationship "
    "target".split(),
    "mcp-memory": "type entity relation name entityType observations from to relationType".split(),
}
LINES = [
    "---", "title: x", "tags: [a", "created: 2026-13-45", "x: &a [*a]", "# H", "- [c] o #t (x)", "- r [[T]]", "user: h",
    "**Session ID**: 5", "```", "", "  - y", "> q", "\t", "1. z", "\x00\x0b", "...",
]  # fmt: skip


def likely(name):
    """JSON in the words of a product."""
    words = st.sampled_from(FIELDS[name])
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | words,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=8),
        max_leaves=40,
    )


def read(data, arrays=()):
    """The elements, and the error at the end."""
    found = []
    try:
        found.extend(element.value for element in elements(io.BytesIO(data), arrays))
    except DocumentError as error:
        return found, str(error)
    return found, ""


def same(one, other):
    return json.dumps(one) == json.dumps(other)


@given(st.lists(JSON, max_size=6), st.booleans())
def test_elements_are_those_of_the_document(values, ascii):
    """What is read piece by piece is what the document holds, whatever that is."""
    text = json.dumps(values, ensure_ascii=ascii)
    found, error = read(text.encode(errors="replace"))
    assert error == ""
    assert same(found, json.loads(text.encode(errors="replace").decode()))


@given(st.lists(JSON, min_size=1, max_size=5), st.data())
def test_a_document_that_is_cut_off(values, data):
    """Of a document that is cut off all whole elements are read, and the end is told."""
    whole = json.dumps(values).encode()
    found, error = read(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert error
    assert same(found[:-1], values[: max(len(found) - 1, 0)])


@pytest.mark.parametrize(
    ("data", "values", "error"),
    [
        (b"", [], "it is empty"),
        (b"\xef\xbb\xbf [1, 2] \n", [1, 2], ""),
        (b'{"a": [1]}', [], "it is no JSON array"),
        (b"[1, 2", [1, 2], "it is cut off"),
        (b'[1, {"a": tru', [1], "it is cut off"),
        (b'[1, {"a": 1 1}, 3                    ]', [1], "it is no JSON from here on (Expecting ',' delimiter)"),
        (b"[1 2]", [1], "'2' stands where ',' should"),
        (b"[1] 2", [1], "something follows behind the end of the document"),
        (b'[1, "\xff"]', [1], "byte 0xff in it is not UTF-8"),
        (b"[" * 100_000, [], "it is nested too deeply, or has a number that is too long"),
        (b"[1, " + b"9" * 5000 + b"]", [1], "it is nested too deeply, or has a number that is too long"),
        ('["a"]'.encode("utf-16"), [], "byte 0xff in it is not UTF-8"),
    ],
)
def test_documents_that_are_broken(data, values, error):
    """What is wrong with a document is told in its own words, behind all that could be read."""
    found, told = read(data)
    assert (found, told) == (values, error) or (not values and error in told)


def test_arrays_of_an_object():
    """Of an object the named arrays are read, in their order, and all else is passed over."""
    data = json.dumps({"count": 2, "results": [1, 2], "next": {"results": [9]}, "relations": [3], "x": [8]}).encode()
    assert read(data, ("results", "relations")) == ([1, 2, 3], "")


def test_memory_is_bounded():
    """A document of many elements takes the memory of a few of them."""
    element = json.dumps({"text": "x" * 100_000}).encode()

    class Stream(io.RawIOBase):
        left = 400

        def read(self, size=-1):
            self.left -= 1
            return b"[" + element if self.left == 399 else b"," + element if self.left > 0 else b""

    tracemalloc.start()
    found = elements(Stream())
    count = sum(1 for _ in itertools.islice(found, 399))
    with pytest.raises(DocumentError, match="cut off"):
        next(found)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 399
    assert peak < 4_000_000


@given(st.binary(max_size=300))
def test_an_outline_of_anything(data):
    """Whatever a file begins with, its outline can be told."""
    assert len(outline(data)) == 5


@given(st.text(alphabet="ab \n", min_size=1).map(lambda text: text * 40_000))
@settings(max_examples=10, deadline=None)
def test_pieces_are_the_text(text):
    """The pieces of a text hold all its words in their order, none is too long."""
    found = pieces(text)
    assert all(0 < len(piece) <= PIECE_CHARS for piece in found)
    assert "".join("".join(found).split()) == "".join(text.split())


@pytest.mark.parametrize("name", sorted(FIELDS))
@given(st.data())
@settings(deadline=None)
def test_readers_take_anything(name, data):
    """Whatever JSON of a product's words is read, memories, bad lines and notes come of it, and nothing is raised."""
    value = data.draw(likely(name))
    text = json.dumps(value if isinstance(value, list | dict) else [value])
    text = text if name == "mcp-memory" else data.draw(st.sampled_from([text, f"[{text}]", text[: len(text) // 2]]))
    for item in found_in(name, text.encode()).items:
        assert isinstance(item, SourceMemory | BadLine | Note)
        if isinstance(item, SourceMemory):
            assert item.memory.content.strip()
            assert all(isinstance(part, str) for part in item.identity)


@pytest.mark.parametrize("name", ["basic-memory", "openclaw"])
@given(st.lists(st.sampled_from(LINES) | st.text(max_size=12)).map("\n".join))
@settings(deadline=None)
def test_readers_of_notes_take_anything(name, text):
    """Whatever a note holds, memories, bad lines and notes come of it, and nothing is raised."""
    for item in found_in(name, text.encode(errors="replace")).items:
        assert isinstance(item, SourceMemory | BadLine | Note)


FIXTURES = {
    "chatgpt.json": "chatgpt", "claude.json": "claude", "claude-memories.json": "claude", "mem0.json": "mem0",
    "mem0-array.json": "mem0", "mcp-memory.jsonl": "mcp-memory",
}  # fmt: skip


@pytest.mark.parametrize(("file", "name"), FIXTURES.items())
def test_products_are_told_apart(file, name):
    """Each export is recognised by its own importer and by no other one, also when it is cut off."""
    data = (FILES / file).read_bytes()
    assert recognised_by(FILES / file) == [name]
    assert recognised_by(data[: len(data) * 3 // 4]) == [name]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b"null", b"[1]", b'[{"title": "x"}]', b'{"conversations": []}', b'{"memspine": 1}',
        b'{"content": "x"}', b'{"memory": {"id": "1"}}', b'{"type": "entity"}', b"SQLite format 3\0", b"# T", b"\xff",
        b'[{"id": "1", "memory": "x"}]', b'[{"a": {"mapping": 1, "title": 2}}]',
        b'[{"note": "\\"mapping\\": {}, \\"title\\": \\"x\\""}]',
    ],
)  # fmt: skip
def test_nothing_else_is_recognised(data):
    """What is not surely of a product is recognised by nobody."""
    assert recognised_by(data) == []


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_readers_of_the_wrong_product(name, tmp_path):
    """What is of another product, or cut off at once, gives no memory, and for a document one line."""
    make_omniroute(tmp_path / "storage.sqlite").close()
    for file in [*(FILES / file for file in FIXTURES), tmp_path / "storage.sqlite"]:
        if FIXTURES.get(file.name, "omniroute") == name or name in ("basic-memory", "openclaw"):
            continue
        found = found_in(name, file)
        assert (found.memories, bool(found.bad)) == ([], True)
        assert all("\n" not in line and len(line) < 300 for line in found.bad)
