"""How a plugin reads what other products export, for `memspine import`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from memspine.contracts.provider import CONTRACT
from memspine.model import NewMemory

HEAD_BYTES: Final = 64 * 1024
"""How much of a file's beginning recognition is shown."""


@attrs.frozen(kw_only=True)
class ImportSource:
    """A file, a folder or standard input, as an importer gets it to recognise and to read.

    `stream` is the file at its beginning, to be read once and by the reader alone; `head` are its first bytes, at most
    `HEAD_BYTES`. A folder has neither. Standard input has no `path`.
    """

    name: str
    path: Path | None = None
    stream: BinaryIO | None = None
    head: bytes = b""

    @property
    def is_folder(self) -> bool:
        """Whether this is a folder."""
        return self.stream is None


@attrs.frozen
class BadLine:
    """A line, or what begins there, that does not go in, and why.

    Where there are no lines, `line` counts: messages, rows, files; the reason then says what is meant.
    """

    line: int
    reason: str


@attrs.frozen
class Note:
    """Something about a line that a person should know, although it goes in."""

    line: int
    text: str


@attrs.frozen(kw_only=True)
class SourceMemory:
    """A memory as an importer found it. The kernel checks it and gives it the id that a second import finds again.

    `identity` is what names it in its product, the same in every export, such as the ids of conversation and message.
    `owner` is whose it is there, empty where the product does not say: it stays theirs, unless the import names an
    owner. `where` begins what is said about it, where the number of the line says too little.
    """

    line: int
    memory: NewMemory
    identity: tuple[str, ...]
    owner: str = ""
    where: str = ""


SourceItem = SourceMemory | BadLine | Note
"""What a reader yields."""


@attrs.frozen(kw_only=True)
class Importer:
    """A reader for the exports of one product.

    `recognise` and `read` are callables, or their addresses "module:attribute", resolved at first use.

    `recognise(source)` says whether this surely is what the product writes: of a file it looks at name and head and may
    open `path` a second time, it never touches `stream`. In doubt the answer is no. `read(source)` yields item by item,
    in bounded memory, and never changes the source. What it cannot use is a `BadLine` and the rest goes on. Both raise
    OSError when the source cannot be read, and nothing else.

    `changes` says in one or two sentences what becomes of the text: what is added, divided or left out.
    """

    name: str
    summary: str
    changes: str
    recognise: str | Callable[[ImportSource], bool]
    read: str | Callable[[ImportSource], Iterator[SourceItem]]
    contract: int = CONTRACT
    distribution: str = ""
    """Filled in by the kernel when it loads the plugin: the distribution and its version, for messages."""
