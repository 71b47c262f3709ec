"""What reading a file gives: memories, whole records, and remarks, each with the line where it stands."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from memspine import times
from memspine.contracts import BadLine, Note
from memspine.errors import InvalidMemoryError
from memspine.ids import keyed_id
from memspine.intake import Intake
from memspine.model import Memory, NewMemory, Tombstone

__all__ = ["BadLine", "ImportedMemory", "ImportedRecord", "Item", "Note", "checked_memory", "content_id"]


@attrs.frozen(kw_only=True)
class ImportedMemory:
    """A memory to be created. With the `id` that its place in the file gives it, a second import finds it again;
    None leaves the id to the key. `owner` is whose it is where it comes from, empty where that is not said."""

    line: int
    memory: NewMemory
    id: str | None = None
    owner: str = ""


@attrs.frozen(kw_only=True)
class ImportedRecord:
    """A whole record: its states in rising revisions, with a tombstone wherever it was deleted in between.

    The last step is the memory as it is now, or a tombstone.
    """

    line: int
    steps: tuple[Memory | Tombstone, ...]

    @property
    def last(self) -> Memory | Tombstone:
        """What the record comes to."""
        return self.steps[-1]


Item = ImportedMemory | ImportedRecord | BadLine | Note


def checked_memory(line: int, memory: NewMemory, *, id: str | None = None, where: str = "") -> Iterator[Item]:
    """The memory as the kernel takes it, with a note for what had to be changed; or the line as bad.

    `where` begins the reason, for formats in which the number of the line says too little.
    """
    intake = Intake()
    try:
        good = intake.memory(memory, now=times.now())
        known = None if id is None else intake.id(id)
    except InvalidMemoryError as error:
        yield BadLine(line, f"{where}{error}")
        return
    yield from (Note(line, text) for text in intake.notes)
    yield ImportedMemory(line=line, memory=good, id=known)


def content_id(*parts: str) -> str:
    """An id that is the same for the same parts, in every import.

    No keyed id is like it, because it takes the place of an owner without a name.
    """
    return keyed_id("", "\0".join(parts).encode(errors="backslashreplace").decode())
