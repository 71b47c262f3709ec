"""The commands by name: what help says about them, and where they are."""

from __future__ import annotations

from typing import Final, NamedTuple


class Command(NamedTuple):
    """A built-in command. Its module has `configure(parser)` and `run(options, out)`, its docstring is the help."""

    group: str
    help: str
    module: str = ""

    def address(self, name: str) -> str:
        """The module of the command, which this is under `name`."""
        return f"memspine.cli.commands.{self.module or name}"


COMMANDS: Final = {
    "quickstart": Command("start", "see it work: a shipped conversation, questions, recalled memories"),
    "add": Command("memories", "remember a text, or what standard input holds"),
    "search": Command("memories", "recall the memories that answer a question"),
    "preview": Command("memories", "what a question would recall, at what cost; counts as no recall"),
    "list": Command("memories", "memories by time, filtered, in pages"),
    "get": Command("memories", "one memory, all of it"),
    "update": Command("memories", "replace fields of a memory"),
    "delete": Command("memories", "forget memories, by id or by filter"),
    "history": Command("memories", "the revisions of a memory"),
    "restore": Command("memories", "bring an earlier revision back"),
    "purge": Command("memories", "erase memories from every place, history included"),
    "stats": Command("memories", "how many memories there are, and where"),
    "inject": Command("memories", "put memories into a chat request (JSON on standard input)"),
    "import": Command("moving", "take in exports, conversations, text and Markdown", "import_"),
    "export": Command("moving", "write everything as JSON lines"),
    "copy": Command("moving", "copy all memories from one backend to another"),
    "verify": Command("moving", "compare what two backends hold"),
    "backup": Command("moving", "copy the primary store to a new file, while it is in use"),
    "config": Command("keeping", "check, show, set, unset, path: the configuration"),
    "plugins": Command("keeping", "what is installed, and what it offers"),
    "doctor": Command("keeping", "look for anything that is wrong, with advice"),
    "engine": Command("keeping", "what finds memories: words, embeddings, vectors, reranking"),
    "reindex": Command("keeping", "embed everything that has no vector yet"),
    "models": Command("keeping", "list, fetch, path: the files of models that plugins use"),
    "maintain": Command("keeping", "do the background work now"),
    "status": Command("keeping", "which backends work, how far replicas are, what waits"),
    "journal": Command("keeping", "list, retry, drop: what has not arrived yet"),
    "reconcile": Command("keeping", "make a replica what the primary is, settle conflicts"),
    "new-plugin": Command("keeping", "write a distribution for a store of your own", "new_plugin"),
}

GROUPS: Final = {
    "start": "Start here",
    "memories": "Memories",
    "moving": "Moving",
    "keeping": "Keeping",
}
