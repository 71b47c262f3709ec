"""Exports in the shape of the real products, with what has to come of them: what the conformance kit is given."""

import json
import sqlite3
import zipfile
from pathlib import Path

from memspine.conformance.importer.samples import Sample, Wanted

FILES = Path(__file__).parent / "files"
WORDS = "The greenhouse opens in May, when the nights are warm enough for beans and chard, and closes in October. " * 5

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
    database.execute("BEGIN")
    names = "id, api_key_id, session_id, type, key, content, metadata, created_at, expires_at"
    database.executemany(f"INSERT INTO memories ({names}) VALUES ({', '.join('?' * 9)})", rows)  # noqa: S608
    database.execute("COMMIT")
    return database


def samples(importer, folder):
    """The exports of a product."""
    return MAKERS[importer](folder)


def grown(importer, folder, memories):
    """A long export of a product."""
    return GROWERS[importer](folder, memories)


def sample(path, *memories, bad_lines=()):
    return Sample(path=path, memories=memories, bad_lines=bad_lines)


def wanted(content, owner="", ids=""):
    return Wanted(content=content, owner=owner, ids=ids)


def written(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    return path


def archive_of(path, *files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export/user.json", "{}")
        for name, file in files:
            archive.write(file, f"export/{name}")
    return path


# ── ChatGPT ──

CHATGPT = (
    "What does Juno eat?", "Duck and potato, says Dr Vetter.", "This is her, after the walk.", "She looks well. 🐕",
    "Remind me on Friday.", "I will.", "The bicycle needs a new tyre.", "Size 28?", "First.", "Second.",
)  # fmt: skip


def chatgpt_conversation(id, *texts):
    mapping = {
        f"m{number}": {
            "parent": f"m{number - 1}" if number else None,
            "message": {
                "id": f"m{number}",
                "author": {"role": "user" if number % 2 == 0 else "assistant"},
                "create_time": 1712345677.0 + number,
                "content": {"content_type": "text", "parts": [text]},
            },
        }
        for number, text in enumerate(texts)
    }
    return {"title": id, "create_time": 1712345677.0, "conversation_id": id, "mapping": mapping,
            "current_node": f"m{len(texts) - 1}"}  # fmt: skip


def chatgpt(folder):
    twice = [chatgpt_conversation("a", "one", "two"), chatgpt_conversation("a", "one", "other")]
    unpacked = folder / "unpacked"
    unpacked.mkdir()
    written(unpacked / "conversations-000.json", [chatgpt_conversation("a", "one")])
    written(unpacked / "conversations-001.json", [chatgpt_conversation("b", "two")])
    return [
        sample(FILES / "chatgpt.json", *CHATGPT, bad_lines=(3,)),
        sample(
            written(folder / "merged.json", twice),
            wanted("one", ids="1"), wanted("two", ids="2"), wanted("one", ids="1"), wanted("other", ids="2"),
        ),
        sample(
            archive_of(folder / "export.zip", ("conversations.json", FILES / "chatgpt.json")), *CHATGPT, bad_lines=(3,)
        ),
        sample(unpacked, "one", "two"),
    ]  # fmt: skip


def grown_chatgpt(folder, memories):
    return written(
        folder / "conversations.json", [chatgpt_conversation(f"c{n}", f"{n}: {WORDS}".strip()) for n in range(memories)]
    )


# ── Claude ──

CLAUDE = (
    "The bed by the wall is dry.", "Bed 1: beans.\nBed 2: chard.", "Plant thyme there.\n\nIt needs no water.",
    "A nice wall.", "An old message, from before there were blocks.",
)  # fmt: skip


def claude_conversation(id, *texts):
    messages = [
        {"uuid": f"m{number}", "sender": "human" if number % 2 == 0 else "assistant", "text": text,
         "created_at": f"2025-03-01T09:00:{number:02}Z"}
        for number, text in enumerate(texts)
    ]  # fmt: skip
    return {"uuid": id, "name": id, "created_at": "2025-03-01T09:00:00Z", "account": {"uuid": "a"},
            "chat_messages": messages}  # fmt: skip


def claude(folder):
    remembered = ("Ada looks after a shared garden.", "The greenhouse opens in May.")
    return [
        sample(FILES / "claude.json", *CLAUDE, bad_lines=(4,)),
        sample(FILES / "claude-memories.json", *remembered),
        sample(
            written(folder / "merged.json", [claude_conversation("a", "one"), claude_conversation("a", "other")]),
            wanted("one", ids="1"), wanted("other", ids="1"),
        ),
        sample(
            archive_of(
                folder / "export.zip",
                ("conversations.json", FILES / "claude.json"),
                ("memories.json", FILES / "claude-memories.json"),
            ),
            *CLAUDE, *remembered, bad_lines=(4,),
        ),
    ]  # fmt: skip


def grown_claude(folder, memories):
    return written(
        folder / "conversations.json", [claude_conversation(f"c{n}", f"{n}: {WORDS}".strip()) for n in range(memories)]
    )


# ── mem0 ──


def mem0_memory(id, text, owner="ada"):
    return {"id": id, "memory": text, "hash": "h", "user_id": owner, "created_at": "2024-07-26T08:23:39-07:00"}


def mem0(folder):
    return [
        sample(
            FILES / "mem0.json",
            wanted("Likes long walks", "ada"), wanted("Has a dog called Juno", "ada"),
            wanted("Wants to see Brno", "ada"), wanted("Bob keeps bees", "bob"),
            bad_lines=(5, 6, 8, 9, 10),
        ),
        sample(FILES / "mem0-array.json", wanted("Likes long walks", "ada"), wanted("Has a dog called Juno", "ada")),
        sample(
            written(
                folder / "merged.json",
                [mem0_memory("1", "one"), mem0_memory("1", "other", "bob"), mem0_memory("1", "one")],
            ),
            wanted("one", "ada", "1"), wanted("other", "bob", "1"), wanted("one", "ada", "1"),
        ),
    ]  # fmt: skip


def grown_mem0(folder, memories):
    return written(folder / "mem0.json", [mem0_memory(str(n), f"{n}: {WORDS}") for n in range(memories)])


# ── the MCP server `memory` ──


def mcp_memory(folder):
    return [
        sample(
            FILES / "mcp-memory.jsonl",
            wanted("Ada_Novak: Speaks Czech", ids="1"), "Ada_Novak: Works on Tuesdays",
            wanted("Ada_Novak: Speaks Czech", ids="1"), "Garden (place)", "Ada_Novak looks after Garden", "Half: fine",
            "Garden lies in Prague", bad_lines=(5, 6, 7, 8, 10),
        )
    ]  # fmt: skip


def grown_mcp_memory(folder, memories):
    lines = (
        json.dumps({"type": "entity", "name": f"e{n}", "entityType": "t", "observations": [WORDS]})
        for n in range(memories)
    )
    return written(folder / "memory.jsonl", "\n".join(lines) + "\n")


# ── OmniRoute ──


def omniroute(folder):
    make_omniroute(folder / "storage.sqlite").close()
    return [
        sample(
            folder / "storage.sqlite",
            "Nobody's", wanted("The other one's", "key-2"), wanted("Chose SQLite", "key-1"), wanted("Python", "key-1"),
            wanted("older Python", "key-1"), bad_lines=(1, 2),
        ),
        sample(
            renamed(folder),
            wanted("one", "key-1", "r"), wanted("two", "key-2", "r"),
        ),
    ]  # fmt: skip


def renamed(folder):
    """A database that two others were poured into, so that its ids are no longer unique."""
    path = folder / "merged.sqlite"
    database = sqlite3.connect(path)
    database.executescript(OMNIROUTE_SCHEMA.replace("id TEXT PRIMARY KEY", "id TEXT", 1))
    for owner, text, time in (("key-1", "one", "2026-01-02T10:00:00Z"), ("key-2", "two", "2026-01-01T10:00:00Z")):
        database.execute(
            "INSERT INTO memories (id, api_key_id, type, content, created_at) VALUES ('r', ?, 'factual', ?, ?)",
            (owner, text, time),
        )
    database.commit()
    database.close()
    return path


def grown_omniroute(folder, memories):
    rows = [
        (
            f"r{n}",
            "key-1",
            "",
            "factual",
            "",
            f"{n}: {WORDS}",
            "{}",
            f"2026-01-01T10:{n // 60 % 60:02}:{n % 60:02}Z",
            None,
        )
        for n in range(memories)
    ]
    make_omniroute(folder / "storage.sqlite", rows=rows).close()
    return folder / "storage.sqlite"


# ── basic-memory ──


def basic_memory(folder):
    return [
        sample(
            FILES / "basic-memory",
            "A paragraph about\ntwo lines of coffee.",
            "Coffee Brewing: Pour over is clearer #brewing (tried on Sunday)",
            "[ ] buy filters",
            "[a link](https://example.org) that is no observation",
            "Coffee Brewing: Water at 94 °C\n- [detail] measured with the old kettle",
            "Coffee Brewing relates to Coffee Beans",
            "Coffee Brewing relates to Tea",
            "Coffee Brewing contrasts with Tea Brewing",
            "Open questions",
            "Still a text.",
            wanted("Juno: Duck and potato", ids="1"),
            wanted("Juno: Duck and potato", ids="1"),
            bad_lines=(1,),
        )
    ]


def grown_basic_memory(folder, memories):
    notes = folder / "notes"
    notes.mkdir()
    for first in range(0, memories, 10):
        lines = [f"- [fact] {n}: {WORDS}".strip() for n in range(first, min(first + 10, memories))]
        name = f"n{first:05}"
        head = f"---\ntitle: {name}\ntype: note\npermalink: {name}\n---\n\n"
        written(notes / f"{name}.md", head + "\n".join(lines) + "\n")
    return notes


# ── OpenClaw ──


def openclaw(folder):
    broken = folder / "broken"
    (broken / "memory").mkdir(parents=True)
    written(broken / "AGENTS.md", "Be kind.\n")
    written(broken / "MEMORY.md", "- Tea at four.\n- Tea at four.\n")
    (broken / "memory" / "2026-01-02.md").write_bytes(b"One.\n\n\xff\n")
    written(broken / "memory" / "2026-01-03.md", "Two.\n")
    return [
        sample(
            FILES / "openclaw",
            "Ada drinks tea.", "Meetings before ten are bad.", "The office is in Brno.", "Name: Ada",
            "Fixed the bicycle.", "Juno ate early.", "The tyre is flat again.",
            "Then take the tram.\nIt leaves at nine.", "Fine.", "Beans go to bed one.",
        ),
        sample(
            broken, wanted("Tea at four.", ids="1"), wanted("Tea at four.", ids="1"), "Two.", bad_lines=(3,)
        ),
    ]  # fmt: skip


def grown_openclaw(folder, memories):
    workspace = folder / "workspace"
    (workspace / "memory").mkdir(parents=True)
    written(workspace / "AGENTS.md", "Be kind.\n")
    written(workspace / "MEMORY.md", "")
    for first in range(0, memories, 10):
        lines = [f"- {n}: {WORDS}".strip() for n in range(first, min(first + 10, memories))]
        written(workspace / "memory" / f"t{first:05}.md", "\n".join(lines) + "\n")
    return workspace


MAKERS = {
    "chatgpt": chatgpt, "claude": claude, "mem0": mem0, "mcp-memory": mcp_memory, "omniroute": omniroute,
    "basic-memory": basic_memory, "openclaw": openclaw,
}  # fmt: skip
GROWERS = {
    "chatgpt": grown_chatgpt, "claude": grown_claude, "mem0": grown_mem0, "mcp-memory": grown_mcp_memory,
    "omniroute": grown_omniroute, "basic-memory": grown_basic_memory, "openclaw": grown_openclaw,
}  # fmt: skip
