"""The block of properties that a Markdown document may begin with."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from memspine.transfer.lines import Line

FRONT_MATTER: Final = "front matter: the properties of the document were left out"
"""The `problem` of the one line that stands for all of the front matter."""

_LINES_MAX: Final = 200
_MARK: Final = re.compile(r"---[ \t]*")
_END: Final = re.compile(r"(?:---|\.\.\.)[ \t]*")
# A property, a comment, a list entry, something indented, or nothing: any other line, and it was a thematic break.
_PROPERTY: Final = re.compile(r"[\w\"'.-][^:]*:(?:[ \t].*)?|[ \t]*#.*|[ \t]*-(?:[ \t].*)?|[ \t]+.*|")


def without_front_matter(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines, with one line of the problem `FRONT_MATTER` in place of all the front matter."""
    rest = iter(lines)
    held = list(itertools.islice(rest, 1))
    if held and _MARK.fullmatch(held[0].text):
        for line in itertools.islice(rest, _LINES_MAX):
            held.append(line)
            if _END.fullmatch(line.text):
                held = [attrs.evolve(held[0], text="", problem=FRONT_MATTER)]
                break
            if line.problem or not _PROPERTY.fullmatch(line.text):
                break
    yield from held
    yield from rest
