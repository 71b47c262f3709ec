"""Sources made of files, folders and bytes, and what the importers find in them."""

import io
from pathlib import Path

import attrs

from memspine.contracts import BadLine, ImportSource, Note, SourceMemory
from memspine.contracts.importer import HEAD_BYTES
from memspine.plugins import reader, recogniser
from memspine_importers.plugin import memspine_importers

FILES = Path(__file__).parent / "files"
IMPORTERS = {importer.name: importer for importer in memspine_importers()}


def source_of(content, *, name="export"):
    """A source of bytes, or of a path."""
    if isinstance(content, Path):
        if content.is_dir():
            return ImportSource(name=content.name, path=content)
        data = content.read_bytes()
        return ImportSource(name=content.name, path=content, stream=io.BytesIO(data), head=data[:HEAD_BYTES])
    return ImportSource(name=name, stream=io.BytesIO(content), head=content[:HEAD_BYTES])


@attrs.frozen
class Found:
    """What an importer found."""

    items: list

    @property
    def memories(self):
        return [item.memory for item in self.items if isinstance(item, SourceMemory)]

    @property
    def sources(self):
        return [item for item in self.items if isinstance(item, SourceMemory)]

    @property
    def contents(self):
        return [memory.content for memory in self.memories]

    @property
    def bad(self):
        return [item.reason for item in self.items if isinstance(item, BadLine)]

    @property
    def notes(self):
        return [item.text for item in self.items if isinstance(item, Note)]


def found_in(name, content):
    """What the importer of this name reads."""
    return Found(list(reader(IMPORTERS[name])(source_of(content))))


def recognised_by(content):
    """The importers that recognise a source."""
    source = source_of(content)
    return [name for name, importer in IMPORTERS.items() if recogniser(importer)(source)]
