"""Registers the importers; imports none of what reads."""

from __future__ import annotations

from memspine.contracts import Importer
from memspine.hookspecs import hookimpl


def _importer(name: str, module: str, *, summary: str, changes: str) -> Importer:
    address = f"memspine_importers.{module}"
    return Importer(
        name=name, summary=summary, changes=changes, recognise=f"{address}:recognise", read=f"{address}:read"
    )


@hookimpl
def memspine_importers() -> list[Importer]:
    """One for each product."""
    return [
        _importer(
            "chatgpt",
            "chatgpt",
            summary="the data export of ChatGPT",
            changes="each message that is shown becomes one memory, with its words as they are; marks of citations are "
            "taken out, texts of more than 90 000 characters are divided, and messages of one moment are placed a "
            "millisecond apart",
        ),
        _importer(
            "claude",
            "claude",
            summary="the data export of Claude",
            changes="each message, each text attached to one and each paragraph of what Claude remembers becomes one "
            "memory, with its words as they are; texts of more than 90 000 characters are divided, and messages of one "
            "moment are placed a millisecond apart",
        ),
        _importer(
            "mcp-memory",
            "mcp_memory",
            summary="the file of the MCP server `memory`, a knowledge graph",
            changes="the name of the entity is put before each of its observations; relations and entities without "
            "observations become sentences, with the underscores of a relation as spaces",
        ),
        _importer(
            "mem0",
            "mem0",
            summary="what `get_all` of mem0 gives, as JSON",
            changes="nothing in a memory; relations of a graph become sentences, with their underscores as spaces",
        ),
        _importer(
            "omniroute",
            "omniroute",
            summary="the SQLite database of OmniRoute",
            changes="nothing in a memory; counts of accesses, vectors and what has expired are left out",
        ),
        _importer(
            "basic-memory",
            "basic_memory",
            summary="a folder of notes of basic-memory",
            changes="the title of the note is put before each observation, relations become sentences, and every other "
            "block of a note becomes one memory; marks of lists are taken off, headings are kept as metadata",
        ),
        _importer(
            "openclaw",
            "openclaw",
            summary="a workspace of OpenClaw",
            changes="each entry of its files of memories becomes one memory: an item of a list, a paragraph, a message "
            "of a kept conversation; marks of lists and names of speakers are taken off, headings are kept as metadata",
        ),
    ]
