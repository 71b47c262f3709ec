"""ChatGPT: `conversations.json`, an array of conversations, each a tree of messages under `mapping`.

The messages from the root to `current_node` are those that are shown; all others were edited or answered again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from memspine.contracts import BadLine, ImportSource, Note, SourceItem
from memspine.model import MemoryType, NewMemory
from memspine_importers.documents import DocumentError, begins_with, elements, outline
from memspine_importers.folders import head_of, streams
from memspine_importers.shared import Rising, divided, list_of, mapping_of, moment, text_of, with_source

_FILES: Final = "conversations*.json"
_SPEAKERS: Final = ("user", "assistant")
_TEXTS: Final = ("text", "multimodal_text", "code")
# A mark of the product between private characters: its kind, and what it points to.
_MARK: Final = re.compile("\ue200(?P<kind>[^\ue200\ue201\ue202]*)(?:\ue202(?P<rest>[^\ue200\ue201]*))?\ue201")
_SOURCE_MARK: Final = re.compile(r"【\d+(?::\d+)?†[^】]{0,200}】")


def recognise(source: ImportSource) -> bool:
    """Whether the file, folder or archive holds conversations as ChatGPT writes them."""
    head = head_of(source, _FILES)
    names = outline(head)[2]
    return begins_with(head, b"[") and "mapping" in names and not names.isdisjoint({"title", "create_time"})


def read(source: ImportSource) -> Iterator[SourceItem]:
    """The messages that are shown, conversation by conversation."""
    number = 0
    for file, stream in streams(source, _FILES):
        try:
            for element in elements(stream):
                number += 1
                yield from _Conversation(number, f"{file}conversation {number}", element.value).items()
        except DocumentError as error:
            yield BadLine(number + 1, f"{file}after {number} conversations: {error}; expected the export as it came")


@attrs.define
class _Conversation:
    """One conversation of the array."""

    number: int
    where: str
    value: Any

    def items(self) -> Iterator[SourceItem]:
        """Its messages, and what was left out."""
        mapping = self.value.get("mapping") if isinstance(self.value, dict) else None
        if not isinstance(mapping, dict):
            yield BadLine(self.number, f'{self.where} cannot be used; expected an object with "mapping", its messages')
            return
        id = text_of(self.value.get("conversation_id")) or text_of(self.value.get("id")) or next(iter(mapping), "")
        shown = _shown(mapping, text_of(self.value.get("current_node")))
        if shown is None:
            yield Note(self.number, "the tree of a conversation is damaged: all is taken, in the order of its times")
            shown = sorted(mapping, key=lambda name: _time(_message(mapping[name])))
        clock = Rising(moment(self.value.get("create_time")))
        for name in shown:
            yield from self._node(id, name, mapping[name], clock)
        known = set(shown)
        for name in mapping:
            if name in known:
                continue
            if not isinstance(mapping[name], dict):
                yield self._bad(name, "expected an object")
            elif _text(_message(mapping[name])):
                yield Note(self.number, "a message that is not shown, edited or answered again, was left out")

    def _node(self, id: str, name: str, node: Any, clock: Rising) -> Iterator[SourceItem]:
        message = node.get("message") if isinstance(node, dict) else node
        if message is None and isinstance(node, dict):
            return
        if not isinstance(message, dict):
            yield self._bad(name, "expected an object")
            return
        text, attached = _text(message), _attached(message)
        if reason := _left_out(message, text=text, attached=attached):
            yield Note(self.number, reason)
            return
        if not text:
            return
        if _has_others(message):
            yield Note(self.number, "an image, a sound or another part of a message that is no text was left out")
        given = message.get("create_time")
        time = moment(given)
        if given is not None and time is None:
            yield Note(self.number, "a time that cannot be read was left out")
        message_id = text_of(message.get("id")) or name
        speaker = text_of(mapping_of(message.get("author")).get("role"))
        metadata = with_source(
            "chatgpt",
            f"{id}/{message_id}",
            {},
            speaker=speaker,
            title=text_of(self.value.get("title")),
            model=text_of(mapping_of(message.get("metadata")).get("model_slug")) if speaker == "assistant" else "",
            attachments=attached,
        )
        memory = NewMemory(
            content=text,
            type=MemoryType.EPISODIC,
            session=f"chatgpt/{id}",
            metadata=metadata,
            created_at=clock.next(time),
        )
        yield from divided(
            self.number, memory, identity=(id, message_id), where=f"{self.where}, message {message_id}: "
        )

    def _bad(self, name: str, expected: str) -> BadLine:
        return BadLine(self.number, f"{self.where}, message {name[:80]}: cannot be used; {expected}")


def _shown(mapping: Mapping[str, Any], current: str) -> list[str] | None:
    """The names of the nodes from the root to the current one; None if the way is broken."""
    node = current if current in mapping else _newest_leaf(mapping)
    way: dict[str, None] = {}
    while node:
        entry = mapping.get(node)
        if not isinstance(entry, dict) or node in way:
            return None
        way[node] = None
        node = text_of(entry.get("parent"))
    return list(reversed(way)) if way or not mapping else None


def _newest_leaf(mapping: Mapping[str, Any]) -> str:
    parents = {text_of(mapping_of(node).get("parent")) for node in mapping.values()}
    leaves = [name for name in mapping if name not in parents]
    return max(leaves, key=lambda name: _time(_message(mapping[name])), default="")


def _message(node: Any) -> Mapping[str, Any]:
    return mapping_of(mapping_of(node).get("message"))


def _time(message: Mapping[str, Any]) -> float:
    time = moment(message.get("create_time"))
    return 0.0 if time is None else time.timestamp()


def _left_out(message: Mapping[str, Any], *, text: str, attached: list[str]) -> str:
    """Why a message is no memory; empty if it is one, or if there is nothing in it."""
    metadata, content = mapping_of(message.get("metadata")), mapping_of(message.get("content"))
    kind = text_of(content.get("content_type"))
    if not text:
        if kind and kind not in _TEXTS:
            return f"a message of the kind {kind[:40]!r} was left out"
        return "a message of files or images alone was left out" if attached or _has_others(message) else ""
    role, recipient = text_of(mapping_of(message.get("author")).get("role")), text_of(message.get("recipient"))
    if metadata.get("is_visually_hidden_from_conversation"):
        return "a message that ChatGPT hides was left out"
    if role not in _SPEAKERS:
        return f"a message of {role[:40]!r}, neither of the user nor of the assistant, was left out"
    return "what was said to a tool was left out" if recipient not in ("", "all") else ""


def _text(message: Mapping[str, Any]) -> str:
    content = mapping_of(message.get("content"))
    if content.get("content_type", "text") not in _TEXTS:
        return ""
    parts = [_part_text(part) for part in list_of(content.get("parts"))] or [text_of(content.get("text"))]
    text = "\n\n".join(part for part in parts if part.strip())
    return _SOURCE_MARK.sub("", _MARK.sub(_without_mark, text)).strip()


def _part_text(part: Any) -> str:
    return part if isinstance(part, str) else text_of(mapping_of(part).get("text"))


def _has_others(message: Mapping[str, Any]) -> bool:
    parts = list_of(mapping_of(message.get("content")).get("parts"))
    return any(part is not None and not isinstance(part, str) and not _part_text(part) for part in parts)


def _without_mark(mark: re.Match[str]) -> str:
    """Nothing in place of a mark, but for the name that a mark of a thing or a person carries."""
    if mark["kind"] != "entity":
        return ""
    try:
        named = json.loads(mark["rest"] or "")
    except (ValueError, RecursionError):
        return ""
    return text_of(named[1]) if isinstance(named, list) and len(named) > 1 else ""


def _attached(message: Mapping[str, Any]) -> list[str]:
    attachments = list_of(mapping_of(message.get("metadata")).get("attachments"))
    return [name for entry in attachments if (name := text_of(mapping_of(entry).get("name")))]
