"""Sources made of files, folders and bytes, and what the importers find in them."""

import io
import sqlite3
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


OMNIROUTE_SCHEMA = """
CREATE TABLE memories (
  id TEXT PRIMARY KEY, api_key_id TEXT NOT NULL, session_id TEXT,
  type TEXT NOT NULL CHECK(type IN ('factual', 'episodic', 'procedural', 'semantic')),
  key TEXT, content TEXT NOT NULL, metadata TEXT,
  created_at TEXT NOT NULL DEFAULT (datetime('now')), updated_at TEXT NOT NULL DEFAULT (datetime('now')),
  expires_at TEXT, memory_id INTEGER, needs_reindex INTEGER DEFAULT 0,
  access_count INTEGER DEFAULT 0, last_accessed_at TEXT
);
CREATE INDEX idx_memories_api_key ON memories(api_key_id);
CREATE TABLE memory_vec_meta (id INTEGER PRIMARY KEY, active_dim INTEGER, embedding_signature TEXT);
"""
OMNIROUTE_ROWS = [
    ("r1", "key-1", "s1", "factual", "preference:python", "Python",
     '{"category": "preference", "source": "llm_response"}',
     "2026-01-01T10:00:00.000Z", None),
    ("r2", "key-1", "s1", "factual", "preference:python", "older Python", "{}", "2025-12-01T10:00:00.000Z", None),
    ("r3", "key-1", None, "episodic", None, "Chose SQLite", "not json", "2026-01-02 11:00:00", None),
    ("r4", "key-1", "", "factual", "", "Gone", None, "2026-01-03T10:00:00.000Z", "2026-01-04T10:00:00.000Z"),
    ("r5", "key-2", "s9", "semantic", "k", "The other one's", None, "2026-01-04T10:00:00.000Z", "2999-01-01T00:00:00Z"),
    ("r6", "", "", "factual", "", "Nobody's", None, "2026-01-05T10:00:00.000Z", None),
    ("r7", "key-1", "", "factual", "", b"na\xefve", None, "2026-01-06T10:00:00.000Z", None),
    ("r8", "key-1", "", "factual", "", "   ", None, "2026-01-07T10:00:00.000Z", None),
]  # fmt: skip


def make_omniroute(path, *, rows=OMNIROUTE_ROWS, mode="delete"):
    """A database as OmniRoute makes it; the connection that is still open."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(f"PRAGMA journal_mode={mode}")
    database.executescript(OMNIROUTE_SCHEMA)
    names = "id, api_key_id, session_id, type, key, content, metadata, created_at, expires_at"
    database.executemany(f"INSERT INTO memories ({names}) VALUES ({', '.join('?' * 9)})", rows)  # noqa: S608
    return database
