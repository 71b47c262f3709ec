"""What importers of plugins read: which of them reads a source, and what they found as items."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import attrs

from memspine.contracts import BadLine, Importer, ImportSource, Note, SourceItem, SourceMemory
from memspine.errors import InvalidMemoryError, PluginError, shorten
from memspine.intake import Intake
from memspine.model import NewMemory, canonical_json
from memspine.plugins import reader, recogniser
from memspine.transfer.items import ImportedMemory, Item, checked_memory, content_id
from memspine.transfer.reading import FORMATS


def choose_importer(
    source: ImportSource, importers: Sequence[Importer], *, format: str | None = None
) -> Importer | None:
    """Who reads the source: the importer that `format` names, or else the one that recognises it, or None for the
    formats of the kernel.

    Raises InvalidMemoryError for a format that does not exist, for one whose importer does not recognise what another
    one does, and where two recognise the same; and what recognition raises.
    """
    if format is not None:
        Intake().choice("format", format, (*FORMATS, *(importer.name for importer in importers)))
        chosen = next((importer for importer in importers if importer.name == format), None)
        if chosen is None or recogniser(chosen)(source):
            return chosen
        if others := [importer for importer in importers if importer is not chosen and recogniser(importer)(source)]:
            raise InvalidMemoryError("format", format, f"{others[0].name}: {source.name} looks like {_listed(others)}")
        return chosen
    found = [importer for importer in importers if recogniser(importer)(source)]
    if len(found) > 1:
        raise InvalidMemoryError("file", source.name, f"its format to be named: it looks like {_listed(found)}")
    return found[0] if found else None


def read_foreign(
    importer: Importer, source: ImportSource, *, owner: str = "", keep_owners: bool = True
) -> Iterator[Item]:
    """What the importer finds, each memory with the id that a second import finds again.

    `owner` gets what names no owner, and without `keep_owners` all else as well, as far as it is taken.
    Of all that was read, a few bytes for each memory are held, so that nothing that has the ids of another one takes
    its place. Raises PluginLoadError, and whatever reading raises.
    """
    named = _Named(importer.name, owner, keep_owners)
    for found in reader(importer)(source):
        item = _checked(importer, found)
        if isinstance(item, SourceMemory):
            yield from named.items(item)
        else:
            yield item


def _checked(importer: Importer, found: object) -> SourceItem:
    if not isinstance(found, SourceMemory | BadLine | Note):
        wrong = f"importer {importer.name!r} yields {type(found).__name__}; expected SourceMemory, BadLine or Note"
        raise PluginError(importer.name, f"{wrong}; reinstall or remove {importer.distribution}")
    return found


@attrs.define
class _Named:
    """What has been read, by the ids of the source and by key, as digests."""

    importer: str
    owner: str
    keep_owners: bool
    _first_owner: str = ""
    _seen: dict[bytes, bytes] = attrs.field(factory=dict)
    _keys: dict[bytes, bytes] = attrs.field(factory=dict)

    def items(self, found: SourceMemory) -> Iterator[Item]:
        """The memory, and what has to be told of it."""
        for item in checked_memory(found.line, found.memory, where=found.where):
            if not isinstance(item, ImportedMemory):
                yield item
                continue
            try:
                owner = found.owner and Intake().owner(found.owner)
            except InvalidMemoryError as error:
                yield BadLine(found.line, f"{found.where}{error}")
            else:
                yield from self._placed(attrs.evolve(item, owner=owner), found)

    def _receiver(self, owner: str) -> str:
        """Who gets it; something that is no owner's name where nobody does, as it is of a second one."""
        if not owner or self.keep_owners:
            return owner or self.owner
        self._first_owner = self._first_owner or owner
        return self.owner if owner == self._first_owner else f"\0{owner}"

    def _placed(self, item: ImportedMemory, found: SourceMemory) -> Iterator[Item]:
        receiver = self._receiver(item.owner)
        id, said = content_id(self.importer, *found.identity), _said(item.memory)
        ids = shorten("/".join(found.identity))
        if self._seen.get(_digest(receiver, id), said) != said:
            yield Note(found.line, f"{found.where}the ids {ids} were there before, with other content: both are taken")
            id = content_id(self.importer, id, said.hex())
        if _digest(receiver, id) in self._seen:
            yield Note(found.line, f"{found.where}the ids {ids} were there before, with the same content: taken once")
            return
        self._seen[_digest(receiver, id)] = said
        memory = item.memory
        if memory.key and self._keys.setdefault(_digest(receiver, memory.key), _digest(id)) != _digest(id):
            yield Note(found.line, f"{found.where}the key {shorten(memory.key)} names another memory; kept as metadata")
            memory = attrs.evolve(memory, key="", metadata={**memory.metadata, "key": memory.key})
        yield attrs.evolve(item, memory=memory, id=id)


def _said(memory: NewMemory) -> bytes:
    """What makes two memories the same: everything but when they are from."""
    fields = (memory.content, memory.type, memory.session, memory.key, str(memory.expires_at))
    return _digest(*fields, canonical_json(memory.metadata))


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).digest()[:16]


def _listed(importers: Sequence[Importer]) -> str:
    return " and ".join(f"{importer.name} ({importer.summary})" for importer in importers)
