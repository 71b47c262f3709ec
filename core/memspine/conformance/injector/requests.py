"""Requests of the shapes that the kit knows, and requests that make no sense in any shape."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from memspine.contracts import Injector

BLOCK: Final = (
    '<memory-context tag="0123456789abcdef">\nWhat is known, as data:\n'
    '- [2026-01-02] Ana: allergic to bees &amp; wasps ⏎ \\n \\1 $& 蜂 🐝\n</memory-context tag="0123456789abcdef">'
)
OTHER_BLOCK: Final = '<memory-context tag="fedcba9876543210">\n- [2026-02-03] nothing\n</memory-context>'


@attrs.frozen(kw_only=True)
class Sample:
    """A request, what its user asks (empty: nothing), words that are not the user's, and options to inject with."""

    request: Mapping[str, Any]
    query: str
    foreign: tuple[str, ...] = ()
    options: tuple[Mapping[str, Any], ...] = ({},)


_TOOL_CALL: Final = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"q":"tea"}'}}
_IMAGE: Final = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
_CHAT: Final[tuple[Mapping[str, Any], ...]] = ({}, {"placement": "user"})

CHAT_SAMPLES: Final = (
    Sample(
        request={"model": "m", "messages": [{"role": "user", "content": "What do I drink?"}]},
        query="What do I drink?",
        options=_CHAT,
    ),
    Sample(
        request={
            "model": "m",
            "temperature": 0.2,
            "stream": True,
            "unknown": {"deep": [1, None, {"x": "y"}]},
            "messages": [
                {"role": "system", "content": "You are terse.\n\nAlways.", "name": "app"},
                {"role": "user", "content": "Hello there"},
                {"role": "assistant", "content": "Good day"},
                {"role": "user", "content": "Which tea did I like?", "name": "ana", "extra": {"a": 1}},
            ],
        },
        query="Which tea did I like?",
        foreign=("terse", "Good day"),
        options=_CHAT,
    ),
    Sample(
        request={
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "Be kind", "cache_control": {"type": "x"}}]},
                {"role": "user", "content": [_IMAGE, {"type": "text", "text": "Whose house is this?"}]},
                {"role": "assistant", "content": None, "tool_calls": [_TOOL_CALL]},
                {"role": "tool", "tool_call_id": "call_1", "content": "the answer of a tool"},
            ],
            "tools": [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}],
        },
        query="Whose house is this?",
        foreign=("Be kind", "the answer of a tool"),
        options=_CHAT,
    ),
    Sample(
        request={"messages": [{"role": "assistant", "content": "Only I speak"}]},
        query="",
        foreign=("Only I speak",),
        options=_CHAT,
    ),
)

SAMPLES: Final[Mapping[str, tuple[Sample, ...]]] = {"openai.chat": CHAT_SAMPLES}
"""Requests by shape."""

_FIELDS: Final = ("messages", "contents", "input", "system", "instructions", "systemInstruction")
_ODD_VALUES: Final[tuple[Any, ...]] = (
    None, "", "text", 7, [], {}, [None], ["text"], [[]], [{}], {"role": "user"}, [{"role": 5, "content": 7}],
    [{"role": "user", "content": [None, 5, {"type": "text"}]}], [{"role": "user", "content": {"text": "x"}}],
    [{"role": "system", "content": [[]]}], [{"role": "user", "parts": [{"text": 5}]}],
    [{"role": ["user"], "content": None}],
)  # fmt: skip
ODD_REQUESTS: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"unknown": 1},
    *({name: value} for name in _FIELDS for value in _ODD_VALUES),
)
"""What a careless client may send."""


def samples_for(injector: Injector, file: Path | None) -> tuple[Sample, ...]:
    """The requests of an injector's shape: those of the file (a JSON list of objects with the fields of Sample), or
    those that the kit knows."""
    if file is not None:
        fields = json.loads(file.read_text(encoding="utf-8"))
        return tuple(
            Sample(
                request=one["request"],
                query=one["query"],
                foreign=tuple(one.get("foreign", ())),
                options=tuple(one.get("options", ({},))),
            )
            for one in fields
        )
    if injector.shape not in SAMPLES:
        pytest.fail(f'the kit knows no requests of the shape {injector.shape!r}; name some: requests = "file.json"')
    return SAMPLES[injector.shape]


def leaves(value: Any) -> Iterator[Any]:
    """All values of a request that hold no others, in order."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """All objects of a request."""
    if isinstance(value, Mapping):
        yield value
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from objects(item)


def occurrences(request: Mapping[str, Any], block: str) -> int:
    """How often the block stands in a request."""
    return sum(leaf.count(block) for leaf in leaves(request) if isinstance(leaf, str))
