"""Texts to measure with: the conversations beside the repository where they are, else the one that is shipped."""

import functools
import importlib.util
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import memspine
from memspine.model import CONTENT_LENGTH_MAX, NewMemory

from .table import ROOT

SHARED = ROOT.parent / "shared"
NO_DATA = "the conversations are not in ../shared/data"
_BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)


def _evaluation():
    file = SHARED / "tools" / "eval_retrieval.py"
    if not file.exists():
        return None
    spec = importlib.util.spec_from_file_location("eval_retrieval", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EVALUATION = _evaluation()


def conversations(kind: str) -> list[dict] | None:
    """The conversations of the "short" or the "long" file, None where it is not."""
    file = SHARED / "data" / f"conversations-{kind}.json"
    return json.loads(file.read_text(encoding="utf-8"))["conversations"] if file.exists() else None


def _shipped() -> list[dict]:
    file = memspine.__spec__.submodule_search_locations[0]
    return json.loads((ROOT / file / "data" / "conversation.json").read_text(encoding="utf-8"))["conversations"]


@functools.cache
def turns() -> list[tuple[str, str]]:
    """Speaker and text of short turns."""
    return [(m["speaker"], m["text"]) for c in conversations("short") or _shipped() for m in c["memories"]]


@functools.cache
def questions() -> list[str]:
    """What people ask about such conversations."""
    chosen = (conversations("short") or _shipped()) + (conversations("long") or [])
    return [question["text"] for conversation in chosen for question in conversation["questions"]]


def new_memories(count: int, *, start: int = 0) -> Iterator[NewMemory]:
    """Turns over and over, each with a word of its own, so that the vocabulary grows as it does in life."""
    for n in range(start, start + count):
        speaker, text = turns()[n % len(turns())]
        yield NewMemory(
            content=f"{text} ref{n}",
            session=f"s{n // 20}",
            metadata={"speaker": speaker},
            created_at=_BEGINNING + timedelta(minutes=n),
        )


def memory_of(turn: dict) -> NewMemory:
    """A turn of a conversation as a memory; times without an offset are UTC."""
    time = datetime.fromisoformat(turn["time"]) if turn["time"] else None
    return NewMemory(
        content=turn["text"][:CONTENT_LENGTH_MAX],
        session=turn["session"],
        metadata={"speaker": turn["speaker"]},
        created_at=time.replace(tzinfo=time.tzinfo or UTC) if time else None,
    )
