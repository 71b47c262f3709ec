"""The lines of keys, against documents whose lines are known and against tomllib."""

import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine.config.locate import dotted, locate, nearest_line, split_key

COMMENTS = ["", "  ", "# plain", '# "', "# '''", '# """', "# [a]", "# a = 1", "\t# ]"]
SCALARS = [
    "1", "-0x1f".replace("-", ""), "1.5e3", "nan", "true", "1979-05-27 07:32:00", "1979-05-27T07:32:00Z", "07:32:00",
    '""', "''", '"#"', '"\\""', '"a = [1]"', "'\\'", "'\"'", '"""\n[x]\na = 1\n"""', "'''\n# '' \n'''",
    '"""a\\\n   b"""', '"""two""  """""', "'''''q'''''", '"""\\""""', '"""\\\\"""', '"\\u00e9 é"',
]  # fmt: skip
KEYS = ["a", "b", "c-1", "42", '"q.r"', "'l # x'", '""', '"\\u00e9\\""', '"]"', "'= 1'", "d_", '"\\t"']


def key_of(raw: str) -> str:
    (key,) = tomllib.loads(f"{raw} = 1")
    return key


class Writer:
    """Writes a document and keeps where each key was written; knows nothing of the scanner."""

    def __init__(self, draw) -> None:
        self.draw = draw
        self.text = ""
        self.lines = {}

    def pick(self, options):
        return self.draw(st.sampled_from(options))

    def chance(self) -> bool:
        return self.draw(st.booleans())

    def note(self, path, *, again: bool = False) -> None:
        line = self.text.count("\n") + 1
        self.lines[path] = line if again else self.lines.get(path, line)

    def end_line(self) -> None:
        self.text += self.pick(COMMENTS) + self.pick(["\n", "\n\n", "\n# [a]\n", '\n \n#"""\n'])

    def keys(self, count: int) -> list[str]:
        return self.draw(st.lists(st.sampled_from(KEYS), max_size=count, unique=True))

    def pair(self, table, raw: str, *, prefix: str = "", depth: int = 0, one_line: bool = False) -> None:
        path = (*table, key_of(raw))
        dotted_keys = self.keys(1 if one_line else 2) if depth < 2 else []
        self.note(path)
        for index, inner in enumerate(dotted_keys):
            if index:
                self.end_line()
            dot = self.pick([".", " . "])
            self.pair(path, inner, prefix=prefix + raw + dot, depth=depth + 1, one_line=one_line)
        if not dotted_keys:
            self.text += f"{prefix}{raw}{self.pick(['=', ' = ', chr(9) + '= '])}"
            self.value(path, depth=depth, one_line=one_line)

    def value(self, path, *, depth: int, one_line: bool) -> None:
        kind = self.pick(["scalar", "scalar", "array", "inline"]) if depth < 2 else "scalar"
        if kind == "scalar":
            self.text += self.pick(SCALARS)
        elif kind == "array":
            self.text += "["
            for index in range(self.draw(st.integers(0, 2))):
                self.text += "," if index else ""
                if not one_line and self.chance():
                    self.end_line()
                self.note((*path, index))
                self.value((*path, index), depth=depth + 1, one_line=one_line)
            if not one_line and self.chance():
                self.end_line()
            self.text += "]"
        else:
            self.text += "{ "
            for index, raw in enumerate(self.keys(2)):
                self.text += ", " if index else ""
                self.pair(path, raw, depth=depth + 1, one_line=True)
            self.text += " }"

    def section(self, path, raws, *, depth: int) -> None:
        """A table or an array of tables with what belongs to it."""
        is_array = self.chance()
        for index in range(self.draw(st.integers(1, 2)) if is_array else 1):
            inner = (*path, index) if is_array else path
            is_implied = not is_array and depth < 1 and self.chance()
            pair_keys = [] if is_implied else self.keys(2)
            if not is_implied:
                self.header(path, inner, raws, is_array=is_array)
            for raw in pair_keys:
                self.pair(inner, raw)
                self.end_line()
            subtables = [raw for raw in self.keys(2) if depth < 1 and raw not in pair_keys]
            for raw in subtables:
                self.section((*inner, key_of(raw)), [*raws, raw], depth=depth + 1)
            if is_implied and subtables and self.chance():
                self.header(path, inner, raws, is_array=False)

    def header(self, path, inner, raws, *, is_array: bool) -> None:
        brackets = "[[", "]]"
        left, right = brackets if is_array else ("[", "]")
        parents = [part for part in path if isinstance(part, str)]
        assert len(parents) == len(raws)
        for end in range(1, len(path)):
            self.note(path[:end])
        self.note(path)
        self.note(inner, again=True)
        self.text += f"{left}{self.pick([' ', ''])}{self.pick(['.', ' . ']).join(raws)}{right}"
        self.end_line()


@st.composite
def documents(draw):
    """A document and the line of each of its keys."""
    writer = Writer(draw)
    if writer.chance():
        writer.end_line()
    raws = writer.keys(5)
    count = draw(st.integers(0, len(raws)))
    for raw in raws[:count]:
        writer.pair((), raw)
        writer.end_line()
    for raw in raws[count:]:
        writer.section((key_of(raw),), [raw], depth=0)
    return (writer.text, writer.lines)


def paths(value: object, path=()) -> Iterator[tuple]:
    """The path of everything in a parsed document."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, (dict, list)):
            yield from paths(item, (*path, key))


@given(documents())
def test_lines_are_exact(document):
    """Every key has the line at which the document was written, and there are exactly the keys that tomllib finds."""
    text, lines = document
    found = locate(text)
    assert set(found) == set(paths(tomllib.loads(text)))
    assert found == lines
    assert locate(text.replace("\n", "\r\n")) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", {}),
        ("# only a comment", {}),
        ("a = 1\nb = 2", {("a",): 1, ("b",): 2}),
        ("\n[a.b]\n[a]\nx = 1", {("a",): 3, ("a", "b"): 2, ("a", "x"): 4}),
        ("[[a.b]]\n[[a.b]]", {("a",): 1, ("a", "b"): 1, ("a", "b", 0): 1, ("a", "b", 1): 2}),
        ("a = [\n 1, # ]\n\n 2 ]", {("a",): 1, ("a", 0): 2, ("a", 1): 4}),
        ("a.b.c = 1\na.d = 2", {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 1, ("a", "d"): 2}),
        ('a = """\nb = 1\n"""\nc = 1', {("a",): 1, ("c",): 4}),
        ("a = {b = {c.d = 1}}", {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 1, ("a", "b", "c", "d"): 1}),
    ],
)  # fmt: skip
def test_lines_of_the_forms(text, lines):
    """Each form of TOML gives its keys the line that a person would point at."""
    assert locate(text) == lines


def test_nearest_line():
    """What is not written down has the line of the table around it, and at the top none."""
    lines = locate("[a]\nb = 1\n")
    assert nearest_line(lines, ("a", "b")) == 2
    assert nearest_line(lines, ("a", "c", "d")) == 1
    assert nearest_line(lines, ("x", "b")) is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("a", "b-1", 0, "c"), "a.b-1[0].c"),
        (("a", "b c", "é"), 'a."b c"."é"'),
        (("", 'q"\n\x7f'), '""."q\\"\\n\\u007f"'),
        ((), ""),
    ],
)
def test_paths_are_shown_as_they_are_written(path, text):
    """A path is shown with the quotes that TOML asks for."""
    assert dotted(path) == text


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1))
def test_shown_keys_can_be_read_again(keys):
    """A key that was shown can be given to `config set`."""
    assert split_key(dotted(tuple(keys))) == keys


@pytest.mark.parametrize(
    "text", ["", "a.", ".a", "a b", "a = 1", "a\nb", "é", '"a', "a..b", "a[0]", '"\\x"', "a = {b=0} #"]
)
def test_what_is_no_key(text):
    """A key that TOML does not know is refused."""
    with pytest.raises(ValueError, match=r"."):
        split_key(text)
