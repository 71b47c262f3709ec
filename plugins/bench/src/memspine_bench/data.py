"""Conversations with questions: read, checked as a whole, and turned into what a manager stores.

A message becomes the memory that `memspine import` makes of a file with this one conversation, but for its id.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs

from memspine import times
from memspine.errors import InvalidMemoryError, shorten
from memspine.model import CONTENT_LENGTH_MAX, MemoryType, NewMemory
from memspine_bench.errors import DataError

# What is a field of the memory, or is put together anew; everything else stays as metadata.
_TAKEN: Final = frozenset({"id", "session", "speaker", "time", "text", "source"})
Table = Mapping[str, Any]

NO_CATEGORY: Final = "(none)"


@attrs.frozen(kw_only=True)
class Message:
    """One message: its id and session in the file, and the memory that it becomes."""

    id: str
    session: str
    memory: NewMemory


@attrs.frozen(kw_only=True)
class Question:
    """One question, and the ids of the messages that answer it."""

    id: str
    text: str
    category: str
    gold: frozenset[str]


@attrs.frozen(kw_only=True)
class Conversation:
    """One conversation. `without_gold` counts the questions that were left out because nothing answers them."""

    id: str
    messages: tuple[Message, ...]
    questions: tuple[Question, ...]
    without_gold: int = 0
    cut: int = 0
    """How many texts were longer than a memory may be, and were cut."""

    @property
    def sessions(self) -> dict[str, str]:
        """The session of each message."""
        return {message.id: message.session for message in self.messages}


@attrs.frozen(kw_only=True)
class DataFile:
    """Conversations, and the file that they are from; `sha256` is of its bytes, both are empty without a file."""

    name: str
    sha256: str
    conversations: tuple[Conversation, ...]

    @classmethod
    def of(cls, conversations: Iterable[Conversation]) -> DataFile:
        """Conversations of no file."""
        return cls(name="", sha256="", conversations=tuple(conversations))


def read_data(path: str | Path) -> DataFile:
    """The conversations of a file. Raises DataError with everything that is wrong with it, OSError."""
    content = Path(path).read_bytes()
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError([f"{path}: not JSON in UTF-8: {error}"]) from error
    try:
        conversations = parse_conversations(document)
    except DataError as error:
        raise DataError([f"{path}: {problem}" for problem in error.problems]) from None
    return DataFile(name=Path(path).name, sha256=hashlib.sha256(content).hexdigest(), conversations=conversations)


def parse_conversations(document: object) -> tuple[Conversation, ...]:
    """The conversations of a parsed document. Raises DataError with everything that is wrong with it."""
    found = document.get("conversations") if isinstance(document, Mapping) else None
    if not isinstance(found, list) or not found:
        raise DataError(['expected an object with an array "conversations" that is not empty'])
    checks = [_Check(item, place=place) for place, item in enumerate(found, 1)]
    problems = [problem for check in checks for problem in check.problems]
    problems += repeated("conversation id", [check.id for check in checks])
    conversations = tuple(check.conversation() for check in checks)
    if not problems and not any(conversation.questions for conversation in conversations):
        problems = ["no question has gold ids, so there is nothing to measure"]
    if problems:
        raise DataError(problems)
    return conversations


def first(conversations: Sequence[Conversation], *, count: int | None, questions: int | None) -> list[Conversation]:
    """The first conversations, each with its first questions; None for all."""
    return [attrs.evolve(conversation, questions=conversation.questions[:questions]) for conversation in conversations][
        :count
    ]


class _Check:
    """Reads one conversation and collects what is wrong with it."""

    def __init__(self, item: object, *, place: int) -> None:
        self.problems: list[str] = []
        table = item if isinstance(item, Mapping) else {}
        self.id = _word(table.get("id")) or str(place)
        self._where = f"conversation {place} (id {shorten(self.id)})"
        self._cut = 0
        self._messages: list[Message] = []
        self._questions: list[Question] = []
        if not isinstance(item, Mapping):
            self._refuse("", item, "an object")
            return
        self._messages = [
            message
            for where, number, found in self._objects(table, "memories", least=1)
            if (message := self._message(found, where=where, place=number))
        ]
        self._questions = [
            question
            for where, _, found in self._objects(table, "questions", least=0)
            if (question := self._question(found, where=where))
        ]
        self._check_ids(table)

    def conversation(self) -> Conversation:
        """What was read; to be used only if there are no problems."""
        questions = tuple(question for question in self._questions if question.gold)
        return Conversation(
            id=self.id,
            messages=tuple(self._messages),
            questions=questions,
            without_gold=len(self._questions) - len(questions),
            cut=self._cut,
        )

    def _refuse(self, where: str, value: object, expected: str) -> None:
        self.problems.append(f"{self._where}{where}: {shorten(value)} cannot be used; expected {expected}")

    def _objects(self, table: Table, key: str, *, least: int) -> Iterator[tuple[str, int, Table]]:
        """Where each item stands, its number, and the item."""
        items = table.get(key)
        if not isinstance(items, list) or len(items) < least:
            self._refuse(f", {key}", items, "an array" if not least else "an array that is not empty")
            return
        for number, item in enumerate(items, 1):
            where = f", {key} item {number}"
            if isinstance(item, Mapping):
                yield f"{where} (id {shorten(item.get('id'))})", number, item
            else:
                self._refuse(where, item, "an object")

    def _message(self, item: Table, *, where: str, place: int) -> Message | None:
        count = len(self.problems)
        id = self._name(item, "id", where, least=1)
        session, speaker = self._name(item, "session", where), self._name(item, "speaker", where)
        text, created_at = self._text(item, where), self._time(item.get("time"), where)
        if len(self.problems) > count:
            return None
        self._cut += len(text) > CONTENT_LENGTH_MAX
        metadata = {name: value for name, value in item.items() if name not in _TAKEN}
        if speaker:
            metadata["speaker"] = speaker
        # By its place: the id of the file would tell what the questions are compared with.
        metadata["source"] = f"{self.id}/{place}"
        memory = NewMemory(
            content=text[:CONTENT_LENGTH_MAX],
            type=MemoryType.EPISODIC,
            session=session,
            metadata=metadata,
            created_at=created_at,
        )
        return Message(id=id, session=session, memory=memory)

    def _question(self, item: Table, *, where: str) -> Question | None:
        count = len(self.problems)
        id, text = self._name(item, "id", where, least=1), self._text(item, where)
        category = self._name(item, "category", where) or NO_CATEGORY
        gold = item.get("gold")
        ids = [_word(one) for one in gold] if isinstance(gold, list) else [None]
        if None in ids:
            self._refuse(f"{where}, gold", gold, "an array of ids")
        if len(self.problems) > count:
            return None
        return Question(id=id, text=text, category=category, gold=frozenset(filter(None, ids)))

    def _name(self, item: Table, key: str, where: str, *, least: int = 0) -> str:
        """A short text, which may be written as a whole number; nothing is the empty text."""
        value = item.get(key)
        word = "" if value is None or value == "" else _word(value)
        if word is None or len(word) < least:
            self._refuse(
                f"{where}, {key}", value, "text or a whole number" if least else "text, a whole number or null"
            )
        return word or ""

    def _text(self, item: Table, where: str) -> str:
        text = item.get("text")
        if isinstance(text, str) and text.strip():
            return text
        self._refuse(f"{where}, text", text, "text that is not empty")
        return ""

    def _time(self, value: object, where: str) -> datetime | None:
        if value is None or value == "":
            return None
        try:
            time = datetime.fromisoformat(value)  # type: ignore[arg-type] # what is no text is the TypeError below
            # The format says nothing about offsets: a time without one is read as `memspine import` reads it.
            return times.canonical(time if time.utcoffset() is not None else time.replace(tzinfo=UTC))
        except (ValueError, TypeError, InvalidMemoryError):
            self._refuse(f"{where}, time", value, "a date and time such as 2026-01-02T03:04:05Z, or null")
            return None

    def _check_ids(self, table: Table) -> None:
        # From the table: what cannot be used is there all the same, and its own problem is told already.
        memories, questions = _ids(table, "memories"), _ids(table, "questions")
        problems = [*repeated("memory id", memories), *repeated("question id", questions)]
        self.problems += (f"{self._where}: {problem}" for problem in problems)
        known = set(memories)
        for question in self._questions:
            if unknown := sorted(id for id in question.gold if id not in known):
                listed = ", ".join(map(shorten, unknown))
                self.problems.append(
                    f"{self._where}, question {shorten(question.id)}: no memory has the gold id {listed}"
                )


def _ids(table: Table, key: str) -> list[str]:
    """The ids of all items that have one."""
    items = table.get(key)
    tables = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    return [word for item in tables if (word := _word(item.get("id")))]


def repeated(what: str, ids: Iterable[str]) -> list[str]:
    """One problem for each id that is there more than once."""
    return [f"{what} {shorten(id)} is there {count} times" for id, count in Counter(ids).items() if count > 1]


def _word(value: object) -> str | None:
    """A text that is not empty, also of a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None
