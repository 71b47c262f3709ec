"""What `memspine quickstart` does: a shipped conversation goes into a store of its own, and questions are asked.

Everything is in one folder, configuration, memories and secret: the user's own are neither read nor written.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from memspine import times
from memspine.cli.codes import InputError
from memspine.cli.indexing import Indexed, index_imported
from memspine.cli.output import Output
from memspine.config import Config, load_config
from memspine.manager import MemoryManager
from memspine.model import MemoryType, NewMemory
from memspine.plugins import Plugins
from memspine.results import InjectionResult, SearchResult

QUESTIONS: Final = (
    "Which workshop quoted me for a new hanger, and how much was it?",
    "On which day do I start at the archive, now that they moved it?",
    "Which objects does `parse_invoice()` return?",
)
BY_MEANING: Final = "Who is my veterinarian?"
"""Asked where there is an embedding source: the memories that answer it have no word in common with it."""
SHAPE: Final = "openai.chat"
_ANSWERS: Final = 2
_FILE: Final = "memspine.toml"


@attrs.frozen(kw_only=True)
class Story:
    """What happened, in the order in which it is told."""

    config: Config
    memories: int
    sessions: int
    seconds: float
    indexed: Indexed | None
    answers: tuple[tuple[str, SearchResult], ...]
    request: Mapping[str, Any]
    injected: InjectionResult

    @property
    def off(self) -> tuple[str, ...]:
        """What did not take part in the answers, and why."""
        return tuple(dict.fromkeys(reason for _, result in self.answers for reason in result.trace.degraded))


def prepare(folder: Path, *, plugin: str, source: str | None = None) -> Path:
    """Write the configuration of the quickstart into a folder. Raises InputError when there is one already."""
    path = folder / _FILE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_configuration(plugin, source))
    except FileExistsError:
        raise InputError(f"{path}: is there already; name another folder") from None
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror or error}") from error
    return path


async def tell(path: Path, plugins: Plugins, out: Output) -> Story:
    """Do it all with the configuration that `prepare` wrote."""
    # The data folder holds the secret that signs injected blocks: here it is not the user's.
    environ = {**os.environ, "MEMSPINE_DATA": str(path.parent.absolute())}
    config = load_config(path, plugins=plugins, environ=environ)
    memories, ids = conversation()
    async with MemoryManager(config, plugins=plugins, background=False) as memory:
        started = time.perf_counter()
        await memory.create_many(memories, ids=ids)
        seconds = time.perf_counter() - started
        indexed = await index_imported(memory, out)
        questions = QUESTIONS if indexed is None or indexed.reasons else (*QUESTIONS, BY_MEANING)
        answers = tuple([(question, await memory.search(question, limit=_ANSWERS)) for question in questions])
        request = chat_request(QUESTIONS[0])
        injected = await memory.inject(request, shape=SHAPE, limit=3)
    return Story(
        config=config,
        memories=len(memories),
        sessions=len({memory.session for memory in memories}),
        seconds=seconds,
        indexed=indexed,
        answers=answers,
        request=request,
        injected=injected,
    )


def conversation() -> tuple[list[NewMemory], list[str]]:
    """The turns of the shipped conversation, and their ids."""
    import importlib.resources

    text = importlib.resources.files("memspine").joinpath("data", "conversation.json").read_text(encoding="utf-8")
    turns = json.loads(text)["conversations"][0]["memories"]
    memories = [
        NewMemory(
            content=turn["text"],
            type=MemoryType.EPISODIC,
            session=turn["session"],
            metadata={"speaker": turn["speaker"]},
            created_at=times.from_text(turn["time"]),
        )
        for turn in turns
    ]
    return memories, [turn["id"] for turn in turns]


def chat_request(question: str) -> dict[str, Any]:
    """A request to a language model, as an application would send it."""
    return {
        "model": "any-model",
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": question},
        ],
    }


def _configuration(plugin: str, source: str | None) -> str:
    lines = ["# Written by `memspine quickstart`."]
    if source is not None:
        lines += ["[embedding]", f"source = {json.dumps(source)}", ""]
    lines += ["[backends.quickstart]", f"plugin = {json.dumps(plugin)}"]
    if plugin == "sqlite":
        lines.append('path = "memories.db"  # beside this file')
    return "\n".join([*lines, ""])
