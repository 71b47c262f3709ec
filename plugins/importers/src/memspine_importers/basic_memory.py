"""basic-memory: a folder of Markdown notes with properties, observations (`- [category] text`) and relations
(`- relation [[Target]]`)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

import attrs

from memspine.contracts import BadLine, ImportSource, Note, SourceItem
from memspine.model import MemoryType, NewMemory
from memspine_importers.notes import FILE_BYTES_MAX, Block, Document, blocks, documents, files, properties_of
from memspine_importers.shared import Rising, divided, list_of, moment, text_of, with_source

_LOOKED_AT: Final = 50
_PROPERTIES: Final = frozenset({"title", "type", "permalink"})
_USED: Final = _PROPERTIES | {"tags", "created", "created_at", "date"}
_OBSERVATION: Final = re.compile(r"\[(?P<category>[^\[\]()]{2,}|[^\[\]() xX-])\](?!\()\s+(?P<text>\S.*)", re.DOTALL)
_RELATION: Final = re.compile(r"(?P<kind>[^\[\]\n]*?)\s*\[\[(?P<target>[^\[\]\n]+)\]\]\s*(?:\((?P<context>[^\n]*)\))?")
_CONTEXT: Final = re.compile(r"\((?P<context>[^()]*)\)\s*$")
_TAG: Final = re.compile(r"(?<!\S)#([\w/-]+)")


def recognise(source: ImportSource) -> bool:
    """Whether half of the first notes of a folder have the properties that basic-memory gives to all of its."""
    if source.path is None or not source.is_folder:
        return False
    looked_at = [path for path in itertools.islice(files(source.path), _LOOKED_AT) if not path.is_symlink()]
    fitting = 0
    for path in looked_at:
        with path.open("rb") as file:
            properties, _, _ = properties_of(file.read(FILE_BYTES_MAX).decode("utf-8-sig", errors="replace"))
        fitting += properties.keys() >= _PROPERTIES
    return bool(looked_at) and fitting * 2 >= len(looked_at)


def read(source: ImportSource) -> Iterator[SourceItem]:
    """A memory for each observation, each relation and each other block of every note."""
    for document in documents(source):
        if isinstance(document, Document):
            yield from _NoteFile(document).items()
        else:
            yield document


@attrs.define
class _NoteFile:
    """One note."""

    document: Document
    _clock: Rising = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        found = (self.document.properties.get(name) for name in ("created", "created_at", "date"))
        self._clock = Rising(next((time for value in found if (time := moment(value)) is not None), None))

    @property
    def title(self) -> str:
        """What the note is called."""
        return text_of(self.document.properties.get("title")) or PurePosixPath(self.document.path).stem

    @property
    def place(self) -> str:
        """What names the note, also after it was moved."""
        return text_of(self.document.properties.get("permalink")) or self.document.path

    def items(self) -> Iterator[SourceItem]:
        """Its memories, and what was left out."""
        if self.document.problem:
            yield BadLine(1, f"{self.document.path}: properties that cannot be read: {self.document.problem}")
        if self.document.properties.keys() - _USED:
            yield Note(1, "properties of a note beyond title, type, permalink, tags and its date were left out")
        for block in blocks(self.document.text, offset=self.document.offset):
            relation = _RELATION.fullmatch(block.text) if block.is_item else None
            observation = _OBSERVATION.fullmatch(block.text) if block.is_item else None
            if relation:
                kind, target = relation["kind"].strip().strip("\"'") or "relates_to", relation["target"].strip()
                content = f"{self.title} {kind.replace('_', ' ')} {target}"
                context = relation["context"] or ""
                fields = {"entity": self.title, "relation": kind, "to": target, "context": context}
                yield from self._memory(block, content, ("relation", kind, target), MemoryType.SEMANTIC, **fields)
            elif observation:
                text, context = observation["text"], _CONTEXT.search(observation["text"])
                fields = {"entity": self.title, "category": observation["category"].strip()}
                fields["context"] = context["context"] if context else ""
                identity = ("observation", fields["category"], text)
                yield from self._memory(block, f"{self.title}: {text}", identity, MemoryType.FACTUAL, **fields)
            elif block.text != self.title:
                yield from self._memory(block, block.text, ("text", block.text), MemoryType.FACTUAL)

    def _memory(
        self, block: Block, content: str, identity: tuple[str, ...], type: MemoryType, **fields: Any
    ) -> Iterator[SourceItem]:
        given = self.document.properties.get("tags")
        tags = [text_of(tag) for tag in list_of(given)] or [tag.strip() for tag in text_of(given).split(",")]
        tags = list(dict.fromkeys(filter(None, [*tags, *_TAG.findall(block.text)])))
        note_type = text_of(self.document.properties.get("type"))
        heading = " / ".join(filter(None, block.headings))
        metadata = with_source(
            "basic-memory", self.place, {}, title=self.title, note_type=note_type, tags=tags, heading=heading, **fields
        )
        memory = NewMemory(
            content=content,
            type=type,
            session=f"basic-memory/{self.place}",
            metadata=metadata,
            created_at=self._clock.next(None),
        )
        where = f"{self.document.path}, line {block.line}: "
        yield from divided(block.line, memory, identity=(self.place, *identity), where=where)
