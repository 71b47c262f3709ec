"""The block of memories that a request carries: delimited, labelled as data, escaped, within its budget to the token.

Its fence holds a tag that only this installation can make (HMAC-SHA-256 of owner and session), so that a block of
ours is known again and nothing else is taken for one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence

import attrs

from memspine.model import Memory
from memspine.results import Hit
from memspine.text import TokenCounter

_LINE_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@attrs.frozen
class Fence:
    """The opening and closing line of the blocks of one owner and session."""

    tag: str

    @classmethod
    def of(cls, *, secret: bytes, owner: str, session: str) -> Fence:
        """The same for the same three, unguessable without the secret: 16 hex digits of the HMAC."""
        message = f"{owner}\0{session}".encode()
        return cls(hmac.new(secret, message, hashlib.sha256).hexdigest()[:16])

    @property
    def opening(self) -> str:
        """The first line."""
        return f'<memory-context tag="{self.tag}">'

    @property
    def closing(self) -> str:
        """The last line."""
        return f'</memory-context tag="{self.tag}">'

    def find(self, text: str) -> tuple[str, ...]:
        """The blocks with this tag that stand in a text, as they stand there."""
        # By hand, because a regular expression takes quadratic time when many blocks are opened and none is closed.
        blocks = []
        start = text.find(self.opening)
        while start >= 0 and (end := text.find(self.closing, start)) >= 0:
            end += len(self.closing)
            blocks.append(text[start:end])
            start = text.find(self.opening, end)
        return tuple(blocks)


@attrs.frozen
class Block:
    """A block and the memories that it holds; `text` is empty when none fitted. `tokens` counts the whole text."""

    text: str
    hits: tuple[Hit, ...]
    tokens: int


def render_block(
    hits: Sequence[Hit], *, fence: Fence, heading: str, limit: int, max_tokens: int, count_tokens: TokenCounter
) -> Block:
    """The best of the hits that fit, at most `limit`, in their order, a line each. The whole text never exceeds
    `max_tokens`.

    A hit that does not fit is passed over and smaller ones are tried.
    """
    lines: list[str] = []
    kept: list[Hit] = []
    for hit in hits:
        if len(kept) >= limit:
            break
        text = _assemble([*lines, render_line(hit.memory)], fence=fence, heading=heading)
        if count_tokens(text) <= max_tokens:
            lines.append(render_line(hit.memory))
            kept.append(hit)
    if not kept:
        return Block("", (), 0)
    text = _assemble(lines, fence=fence, heading=heading)
    return Block(text, tuple(kept), count_tokens(text))


def render_line(memory: Memory) -> str:
    """One memory on one line, with its date and speaker, unable to close the fence or to start a line of its own."""
    speaker = memory.metadata.get("speaker")
    who = f"{escape(speaker)}: " if isinstance(speaker, str) and speaker else ""
    return f"- [{memory.created_at:%Y-%m-%d}] {who}{escape(memory.content)}"


def escape(text: str) -> str:
    """Text on one line: markup characters escaped, line breaks shown as ⏎, control and direction marks left out."""
    one_line = _CONTROLS.sub("", _LINE_BREAKS.sub(" ⏎ ", text.strip()))
    return one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _assemble(lines: Sequence[str], *, fence: Fence, heading: str) -> str:
    return "\n".join((fence.opening, heading, *lines, fence.closing))
