"""Import and export: what goes into a store from files, and a whole store as lines of JSON.

Exports of other products are read by the importers of plugins (`memspine.contracts.Importer`): `choose_importer` finds
the one for a source, `read_foreign` gives what it reads.

    with open("notes.md", "rb") as file:
        report = await import_items(manager, read_records(file, name="notes.md"))

    async for line in export_records(manager):
        out.write(line)

Nothing is lost in silence: what cannot go in is a `BadLine` with its number, what was changed or left out a `Note`.
Importing the same file again changes nothing.
"""

from __future__ import annotations

from memspine.transfer.exporting import export_records
from memspine.transfer.foreign import choose_importer, read_foreign
from memspine.transfer.importing import import_items
from memspine.transfer.items import BadLine, ImportedMemory, ImportedRecord, Item, Note
from memspine.transfer.jsonl import EXPORT_VERSION
from memspine.transfer.reading import FORMATS, HEAD_BYTES, guess_format, read_records
from memspine.transfer.report import LISTED_MAX, ImportReport

__all__ = [
    "EXPORT_VERSION",
    "FORMATS",
    "HEAD_BYTES",
    "LISTED_MAX",
    "BadLine",
    "ImportReport",
    "ImportedMemory",
    "ImportedRecord",
    "Item",
    "Note",
    "choose_importer",
    "export_records",
    "guess_format",
    "import_items",
    "read_foreign",
    "read_records",
]
