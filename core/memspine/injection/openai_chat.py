"""Requests of the shape of OpenAI's chat completions: `{"messages": [{"role": …, "content": …}], …}`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs

from memspine.contracts import Context

_SYSTEM_ROLES = ("system", "developer")
# Between a block and the text beside it: also beside empty text, so that taking the block out tells the two apart.
_GAP = "\n\n"
_TEXT_PARTS = ("text", "input_text", "output_text")


@attrs.frozen
class OpenAIChatConfig:
    """This injector has no options."""


class OpenAIChatInjector:
    """Puts the block behind the application's own words in the first system message, or before the user's.

    Option `placement`: "system" (default; a system message is made when there is none), or "user" for models
    without a system role (the block goes in front of the last user message, inside it, so that roles still alternate).
    """

    name = "openai.chat"
    shape = "openai.chat"

    def query_text(self, request: Mapping[str, Any]) -> str:
        """The texts of the last user message, joined by blanks."""
        for message in reversed(_messages(request)):
            if message.get("role") == "user":
                return " ".join(_texts(message)).strip()
        return ""

    def texts(self, request: Mapping[str, Any]) -> tuple[str, ...]:
        """All texts of all messages."""
        return tuple(text for message in _messages(request) for text in _texts(message))

    def inject(self, request: Mapping[str, Any], block: str, *, options: Mapping[str, Any]) -> dict[str, Any]:
        """A new request with the block placed; a request without messages comes back as it was."""
        messages = list(_messages(request))
        if not messages:
            return dict(request)
        if options.get("placement") == "user":
            place = next((n for n in reversed(range(len(messages))) if _takes_text(messages[n], ("user",))), None)
            if place is None:
                messages.append({"role": "user", "content": block})
            else:
                messages[place] = _with_text(messages[place], block, before=True)
        else:
            place = next((n for n, m in enumerate(messages) if _takes_text(m, _SYSTEM_ROLES)), None)
            if place is None:
                messages.insert(0, {"role": "system", "content": block})
            else:
                messages[place] = _with_text(messages[place], block, before=False)
        return {**request, "messages": messages}

    def without(self, request: Mapping[str, Any], block: str) -> dict[str, Any]:
        """A new request in which the block stands nowhere; messages and parts that held nothing else are gone."""
        messages = _messages(request)
        if not messages:
            return dict(request)
        cleaned = (_without_text(message, block) for message in messages)
        return {**request, "messages": [message for message in cleaned if message is not None]}


@asynccontextmanager
async def open_injector(config: OpenAIChatConfig, context: Context) -> AsyncIterator[OpenAIChatInjector]:
    """Open the injector: there is nothing to configure and nothing to open."""
    del config, context
    yield OpenAIChatInjector()


def _messages(request: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    messages = request.get("messages")
    if not isinstance(messages, list | tuple) or not all(isinstance(message, Mapping) for message in messages):
        return ()
    return messages


def _texts(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    if isinstance(content, list | tuple):
        return [part["text"] for part in content if _is_text_part(part)]
    return []


def _is_text_part(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str)


def _takes_text(message: Mapping[str, Any], roles: Sequence[str]) -> bool:
    return message.get("role") in roles and isinstance(message.get("content"), str | list | tuple)


def _with_text(message: Mapping[str, Any], block: str, *, before: bool) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": f"{block}{_GAP}{content}" if before else f"{content}{_GAP}{block}"}
    part = {"type": "text", "text": block}
    return {**message, "content": [part, *content] if before else [*content, part]}


def _without_text(message: Mapping[str, Any], block: str) -> dict[str, Any] | None:
    """The message without the block; None for a message that was made for it and holds nothing else."""
    content = message.get("content")
    if isinstance(content, str):
        left = _removed(content, block)
        is_ours = not left and content.startswith(block) and content.endswith(block)
        return None if is_ours else {**message, "content": left}
    if isinstance(content, list | tuple):
        kept = [_without_block(part, block) for part in content if not (_is_text_part(part) and part["text"] == block)]
        return {**message, "content": kept}
    return dict(message)


def _without_block(part: Any, block: str) -> Any:
    return {**part, "text": _removed(part["text"], block)} if _is_text_part(part) and block in part["text"] else part


def _removed(text: str, block: str) -> str:
    for spaced in (f"{block}{_GAP}", f"{_GAP}{block}", block):
        text = text.replace(spaced, "")
    return text
