"""OpenClaw: a workspace whose Markdown files are the memory: `MEMORY.md`, `USER.md`, and daily files and topics in
`memory/`. What the other files hold are instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

import attrs

from memspine.contracts import ImportSource, Note, SourceItem
from memspine.model import MemoryType, NewMemory
from memspine_importers.notes import Block, Document, blocks, documents
from memspine_importers.shared import Rising, divided, moment, with_source

_INSTRUCTIONS: Final = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "HEARTBEAT.md", "BOOTSTRAP.md", "DREAMS.md")
_MEMORIES: Final = frozenset({"MEMORY.md", "memory.md", "USER.md"})
_DATED: Final = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2})(?:-.*)?\.md")
_SAID: Final = re.compile(r"^(?P<speaker>user|assistant):[ \t]*", re.MULTILINE)
_ABOUT: Final = re.compile(r"\*\*(?:Session Key|Session ID|Source)\*\*:.*")
_SESSION: Final = re.compile(r"\*\*Session ID\*\*:\s*(?P<id>\S+)")


def recognise(source: ImportSource) -> bool:
    """Whether the folder has instructions as OpenClaw lays them out, and memories beside them."""
    if source.path is None or not source.is_folder:
        return False
    daily = source.path / "memory"
    has_memories = (source.path / "MEMORY.md").is_file() or any(
        _DATED.fullmatch(file.name) for file in daily.glob("*.md")
    )
    return has_memories and any((source.path / name).is_file() for name in ("AGENTS.md", "SOUL.md", "IDENTITY.md"))


def read(source: ImportSource) -> Iterator[SourceItem]:
    """A memory for each entry of the files: an item of a list, a paragraph, a message of a kept conversation."""
    for document in documents(source):
        if not isinstance(document, Document):
            yield document
            continue
        path = PurePosixPath(document.path)
        if source.is_folder and document.path not in _MEMORIES and path.parts[0] != "memory":
            what = "instructions" if path.name in _INSTRUCTIONS else "no file of memories"
            yield Note(1, f"{document.path} was left out: {what}")
        else:
            yield from _File(document).items()


@attrs.define
class _File:
    """One file of memories."""

    document: Document
    _clock: Rising = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        dated = _DATED.fullmatch(PurePosixPath(self.document.path).name)
        self._clock = Rising(moment(dated["date"]) if dated else None)

    def items(self) -> Iterator[SourceItem]:
        """Its memories."""
        kept = _SESSION.search(self.document.text)
        number = 0  # of the message, because people say the same twice
        is_dated = self._clock.start is not None
        for block in blocks(self.document.text, offset=self.document.offset):
            if kept and _SAID.match(block.text):
                session = f"openclaw/{kept['id']}"
                for speaker, said in _said(block.text):
                    number += 1
                    yield from self._memory(block, said, number, MemoryType.EPISODIC, session=session, speaker=speaker)
            elif not (kept and _ABOUT.fullmatch(block.text)):
                yield from self._memory(block, block.text, 0, MemoryType.EPISODIC if is_dated else MemoryType.FACTUAL)

    def _memory(
        self, block: Block, text: str, number: int, type: MemoryType, *, session: str = "", speaker: str = ""
    ) -> Iterator[SourceItem]:
        path = self.document.path
        heading = " / ".join(filter(None, block.headings))
        memory = NewMemory(
            content=text,
            type=type,
            session=session or f"openclaw/{path}",
            metadata=with_source("openclaw", path, {}, heading=heading, speaker=speaker),
            created_at=self._clock.next(None),
        )
        identity = (path, heading, text, str(number)) if number else (path, heading, text)
        yield from divided(block.line, memory, identity=identity, where=f"{path}, line {block.line}: ")


def _said(text: str) -> Iterator[tuple[str, str]]:
    """Who said what in a kept conversation."""
    marks = list(_SAID.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        said = text[mark.end() : following.start() if following else len(text)].strip()
        if said:
            yield mark["speaker"], said
