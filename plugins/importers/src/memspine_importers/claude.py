"""Claude: `conversations.json`, an array of conversations with their `chat_messages`, and `memories.json`, what Claude
remembers. Both are told apart by what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from memspine.contracts import BadLine, ImportSource, Note, SourceItem
from memspine.model import MemoryType, NewMemory
from memspine_importers.documents import DocumentError, begins_with, elements, outline
from memspine_importers.folders import file_names, head_of, streams
from memspine_importers.shared import Rising, divided, list_of, mapping_of, moment, text_of, with_source

_FILES: Final = ("conversations*.json", "memories.json")
_OTHER_FILES: Final = ("projects*.json", "projects/*.json")
_SPEAKERS: Final = {"human": "user", "assistant": "assistant"}
_TEXTS: Final = ("text", "voice_note")
_HEADING: Final = re.compile(r"\*\*([^*\n]+)\*\*")


def recognise(source: ImportSource) -> bool:
    """Whether the file, folder or archive holds conversations or memories as Claude writes them."""
    head = head_of(source, *_FILES)
    names = outline(head)[2]
    return begins_with(head, b"[") and ({"uuid", "chat_messages"} <= names or "conversations_memory" in names)


def read(source: ImportSource) -> Iterator[SourceItem]:
    """Messages and attached texts, conversation by conversation, and the paragraphs of what Claude remembers."""
    reader = _Reader()
    for file, stream in streams(source, *_FILES):
        first = reader.number
        try:
            for element in elements(stream):
                yield from reader.items(file, element.value)
        except DocumentError as error:
            done = reader.number - first
            yield BadLine(reader.number + 1, f"{file}after {done} entries: {error}; expected the export as it came")
    for number, name in enumerate(file_names(source, *_OTHER_FILES), reader.number + 1):
        yield Note(number, f"{name} was not read: only conversations and memories are")


@attrs.define
class _Reader:
    """The place in the export, and whose it is: one account's, although a team's export holds those of many."""

    number: int = 0
    _account: str = ""

    def items(self, file: str, value: Any) -> Iterator[SourceItem]:
        """What is in one element of the array."""
        self.number += 1
        where = f"{file}conversation {self.number}"
        entry = mapping_of(value)
        remembered = text_of(entry.get("conversations_memory")), mapping_of(entry.get("project_memories"))
        messages = entry.get("chat_messages")
        if not isinstance(messages, list) and not any(remembered):
            if "conversations_memory" not in entry:
                yield BadLine(self.number, f'{where} cannot be used; expected an object with an array "chat_messages"')
            return
        account = text_of(mapping_of(entry.get("account")).get("uuid")) or text_of(entry.get("account_uuid"))
        self._account = self._account or account
        if account not in ("", self._account):
            refused = "is of another account than what stands before it, and was left out: two people's memories"
            yield BadLine(self.number, f"{where} {refused} would be mixed; divide the export by account")
        elif isinstance(messages, list):
            yield from _Conversation(self.number, where, entry).items(messages)
        else:
            yield from self._remembered(*remembered)

    def _remembered(self, text: str, projects: Mapping[str, Any]) -> Iterator[SourceItem]:
        texts = {"": text, **{name: text_of(value) for name, value in projects.items()}}
        for project, whole in texts.items():
            heading = ""
            for paragraph in filter(None, (part.strip() for part in whole.split("\n\n"))):
                if titled := _HEADING.fullmatch(paragraph):
                    heading = titled[1]
                    continue
                source = f"memory/{project}".rstrip("/")
                metadata = with_source("claude", source, {}, project=project, heading=heading)
                memory = NewMemory(content=paragraph, metadata=metadata)
                yield from divided(self.number, memory, identity=("memory", project, paragraph), where="memory: ")


@attrs.define
class _Conversation:
    """One conversation of the array."""

    number: int
    where: str
    value: Mapping[str, Any]
    _clock: Rising = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._clock = Rising(moment(self.value.get("created_at")))

    @property
    def id(self) -> str:
        """What the product calls it."""
        return text_of(self.value.get("uuid")) or str(self.number)

    def items(self, messages: list[Any]) -> Iterator[SourceItem]:
        """Its messages, and what was left out."""
        for place, message in enumerate(messages, 1):
            if isinstance(message, dict):
                yield from self._message(place, message)
            else:
                yield BadLine(self.number, f"{self.where}, message {place}: cannot be used; expected an object")

    def _message(self, place: int, message: Mapping[str, Any]) -> Iterator[SourceItem]:
        sender = text_of(message.get("sender"))
        if sender not in _SPEAKERS:
            known = " or ".join(_SPEAKERS)
            yield BadLine(self.number, f"{self.where}, message {place}: sender {sender[:40]!r}; expected {known}")
            return
        for kind in _left_out(message):
            yield Note(self.number, f"a part of a message of the kind {kind[:40]!r} was left out")
        if message.get("created_at") is not None and moment(message["created_at"]) is None:
            yield Note(self.number, "a time that cannot be read was left out")
        id = text_of(message.get("uuid")) or str(place)
        text, attachments = _text(message), [mapping_of(entry) for entry in list_of(message.get("attachments"))]
        files = [*attachments, *(mapping_of(entry) for entry in list_of(message.get("files")))]
        names = [name for file in files if (name := text_of(file.get("file_name")))]
        if names and not text and not any(text_of(entry.get("extracted_content")) for entry in attachments):
            yield Note(self.number, "a message of files or images alone was left out")
        yield from self._memory(id, message, text, place=place, attachments=names)
        for number, entry in enumerate(attachments, 1):
            name = text_of(entry.get("file_name"))
            content = text_of(entry.get("extracted_content"))
            yield from self._memory(id, message, content, place=place, part=f"attachment {number}", file=name)

    def _memory(
        self, id: str, message: Mapping[str, Any], text: str, *, place: int, part: str = "", **fields: Any
    ) -> Iterator[SourceItem]:
        if not text.strip():
            return
        source = f"{self.id}/{id}" + (f"/{part}" if part else "")
        speaker, title = _SPEAKERS[text_of(message.get("sender"))], text_of(self.value.get("name"))
        memory = NewMemory(
            content=text,
            type=MemoryType.EPISODIC,
            session=f"claude/{self.id}",
            metadata=with_source("claude", source, {}, speaker=speaker, title=title, **fields),
            created_at=self._clock.next(moment(message.get("created_at"))),
        )
        identity = (self.id, id, part) if part else (self.id, id)
        yield from divided(self.number, memory, identity=identity, where=f"{self.where}, message {place}: ")


def _text(message: Mapping[str, Any]) -> str:
    """The blocks of text; where there are none, `text`, which older exports have alone."""
    blocks = [mapping_of(block) for block in list_of(message.get("content"))]
    texts = [text_of(block.get("text")) for block in blocks if block.get("type") in _TEXTS]
    if blocks:
        return "\n\n".join(text.strip() for text in texts if text.strip())
    return text_of(message.get("text"))


def _left_out(message: Mapping[str, Any]) -> Iterator[str]:
    for block in list_of(message.get("content")):
        kind = text_of(mapping_of(block).get("type"))
        if kind not in _TEXTS:
            yield kind or "unknown"
