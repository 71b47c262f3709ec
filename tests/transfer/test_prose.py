"""Text and Markdown: what a person wrote, divided into memories."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine.transfer import BadLine, ImportedMemory, Note
from memspine.transfer.lines import read_lines
from memspine.transfer.prose import read_markdown, read_text

DOCUMENT = """\
# Profile

- Likes **tea**
  without sugar
  - never coffee


  since 2020
- [ ] call Anna
1. first
2) second

A paragraph
on two lines.

## Diet ##
* duck
+ potato
***
Set in
stone
-----
text below
```python
# no heading

- no item
```

~~~
alone
~~~

### Lonely

# Last #1
| a | b |
|---|---|

- code
  ```
  one

  two
  ```
- end
lazy
#hashtag
> quoted
"""


def told(items):
    return [(item.line, item.memory.content, item.memory.metadata.get("heading")) for item in items]


def test_a_document_is_its_items_and_paragraphs(read):
    """List items of the top level, paragraphs and blocks of code are memories, with the headings above them."""
    assert told(read(DOCUMENT, name="MEMORY.md")) == [
        (3, "Likes **tea**\n  without sugar\n  - never coffee\n\n\n  since 2020", "Profile"),
        (9, "[ ] call Anna", "Profile"),
        (10, "first", "Profile"),
        (11, "second", "Profile"),
        (13, "A paragraph\non two lines.", "Profile"),
        (17, "duck", "Profile / Diet"),
        (18, "potato", "Profile / Diet"),
        (23, "text below\n```python\n# no heading\n\n- no item\n```", "Profile / Set in stone"),
        (30, "~~~\nalone\n~~~", "Profile / Set in stone"),
        (34, "Lonely", "Profile / Set in stone"),
        (37, "| a | b |\n|---|---|", "Last #1"),
        (40, "code\n  ```\n  one\n\n  two\n  ```", "Last #1"),
        (46, "end\nlazy\n#hashtag\n> quoted", "Last #1"),
    ]


def test_line_ends_of_windows_change_nothing(read):
    """CRLF gives the same memories, with the same ids."""
    assert read(DOCUMENT.replace("\n", "\r\n"), name="MEMORY.md") == read(DOCUMENT, name="MEMORY.md")


def test_a_memory_says_where_it_comes_from(read):
    """The name of the file is in the metadata, without its folder; standard input has none."""
    assert read("words", name="notes/my.md")[0].memory.metadata == {"source": "my.md"}
    assert read("words", name="-")[0].memory.metadata == {}


def test_ids_do_not_depend_on_the_place(read):
    """An id is made of name, headings and words, so what is moved or written around a memory does not change it."""
    before = {item.memory.content: item.id for item in read("# A\n- one\n- two", name="a.md")}
    after = {item.memory.content: item.id for item in read("new\n# A\n- zero\n- two\n\n- one", name="b/a.md")}
    other = {item.memory.content: item.id for item in read("# B\n- one", name="a.md")}
    assert after.items() >= before.items()
    assert other["one"] != before["one"]


@pytest.mark.parametrize(
    "block",
    ["---\ntitle: Me\n---\n", "---\n# c\ntags:\n  - a\n- b\n\n'q': x\n...\n", "---\n---\n"],
    ids=["a property", "all kinds of lines", "empty"],
)
def test_front_matter_is_left_out_with_a_note(read, block):
    """Properties at the beginning are no memory, and a note says that they were left out."""
    note, item = read(f"{block}words", name="a.md")
    assert note == Note(1, "front matter: the properties of the document were left out")
    assert item.memory.content == "words"
    assert item.line == block.count("\n") + 1


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ("---\nwords without a name\n---\nmore", ["more"]),
        ("---\n\nname: x", ["name: x"]),
        ("\n---\na: b\n---", ["a: b"]),
        ("---\n" + "a: b\n" * 300, ["\n".join(["a: b"] * 300)]),
    ],
    ids=["not only properties", "not closed", "not at the beginning", "too long"],
)
def test_a_break_at_the_beginning_is_no_front_matter(read, text, contents):
    """What is not clearly a block of properties is read as text."""
    assert [item.memory.content for item in read(text, name="a.md")] == contents


def test_a_heading_with_nothing_below_is_a_memory(read):
    """What is said in a heading alone is not lost; a heading above others or above text is in their metadata."""
    assert told(read("# A\n## B\n# C\n### D\ntext\n#\n", name="a.md")) == [(2, "B", "A"), (5, "text", "C / D")]


def test_a_fence_without_end_goes_to_the_end(read):
    """An open block of code takes everything that follows, as Markdown has it."""
    assert told(read("```\n# a\n\n- b\n", name="a.md")) == [(1, "```\n# a\n\n- b", None)]


def test_paragraphs_of_a_text_are_memories(read):
    """A text is divided at blank lines alone; indentation inside a paragraph and all marks stay."""
    items = read("# one\n  - two\r\n\r\n \t\n\n  three  \n", name="a.txt")
    assert told(items) == [(1, "# one\n  - two", None), (6, "three", None)]


@pytest.mark.parametrize("format", ["text", "markdown"])
def test_a_paragraph_with_a_line_that_is_not_utf8_is_left_out_as_a_whole(read, format):
    """Nobody gets a memory of which a line is missing: the paragraph is told, the others go in."""
    bad, good = read(b"one\ntw\xff\nthree\n\nfour", name="a", format=format)
    assert bad == BadLine(
        1, "line 2: byte 0xff at position 2 is not UTF-8; convert the file to UTF-8; the whole paragraph was left out"
    )
    assert good.memory.content == "four"


@pytest.mark.parametrize("format", ["text", "markdown"])
def test_a_paragraph_longer_than_a_memory_is_told(read, format):
    """A paragraph over the limit is one bad line, whether in one line or in many, and is never cut."""
    one, many, good = read("x" * 100_001 + "\n\n" + "y\n" * 60_000 + "\n" + "z\n" * 50_000, name="a", format=format)
    assert isinstance(one, BadLine)
    assert many == BadLine(3, "the paragraph has more than 100000 characters; divide it")
    assert good.memory.content.count("z") == 50_000


def test_blanks_do_not_hide_what_was_cut(read):
    """In a fence, blank lines count as well: what follows more of them than a memory holds is not lost in silence."""
    (bad,) = read("```\n" + "\n" * 100_010 + "words\n```", name="a.md")
    assert isinstance(bad, BadLine)


@pytest.mark.parametrize(
    "line", ["# a" + " " * 200_000 + "b", "* " * 200_000 + "x", "- " + "\t" * 200_000, "#" * 200_000, "[" * 200_000]
)
def test_no_line_takes_long(line):
    """Reading takes time in proportion to the length of a line, whatever is in it."""
    started = time.perf_counter()
    list(read_markdown(read_lines([line.encode()]), title=""))
    assert time.perf_counter() - started < 10


MARKS = st.lists(
    st.sampled_from(["# a", "## b", "- c", "  d", "", "---", "===", "```", "~~~", "1. e", "f", "\tg", "-", "#"])
)


@given(MARKS, st.sampled_from([read_markdown, read_text]))
def test_no_word_is_lost(lines, reader):
    """Every word of a document is in a memory or in a heading above one."""
    raw = "\n".join(lines).encode()
    items = list(reader(read_lines([raw]), title=""))
    assert all(isinstance(item, ImportedMemory | Note) for item in items)
    if any(isinstance(item, Note) for item in items):
        return
    kept = " ".join(
        item.memory.content + " " + item.memory.metadata.get("heading", "")
        for item in items
        if not isinstance(item, Note)
    )
    assert set("abcdefg") & set(raw.decode()) <= set(kept)
