"""How long a text is for a model whose tokeniser is elsewhere, and how much the known models read.

Of text that somebody wrote, the estimate is never too low: measured against OpenAI's cl100k, it is 1.1 to 1.9 times the
count in languages of Latin, Greek and Cyrillic letters (English 1.7), 2 to 3.3 times in others, 1.4 to 2.7 times for
code, numbers and keys. Letters thrown together at random are counted too low (0.86). Too high costs an additional
chunk; too low costs a refused text, or one that the provider silently cuts.
"""

from __future__ import annotations

import re
from typing import Final

WINDOW_TOKENS_UNKNOWN: Final = 512
"""What a model reads of which nothing is known: the smallest window in common use."""

# By the first pattern that the name of the model holds. Open models stand here with what servers give them unless told
# otherwise, which may be less than they were trained for.
_WINDOWS: Final = (
    ("text-embedding-3-", 8191),
    ("text-embedding-ada-002", 8191),
    ("embed-v4", 128_000),
    ("voyage-", 32_000),
    ("gemini-embedding", 2048),
    ("mistral-embed", 8192),
    ("jina-embeddings-v", 8192),
    ("nomic-embed-text-v2", 512),
    ("nomic-embed", 2048),
    ("embeddinggemma", 2048),
    ("qwen3-embedding", 2048),
    ("bge-m3", 2048),
    ("snowflake-arctic-embed2", 2048),
    ("snowflake-arctic-embed-l-v2", 2048),
    ("snowflake-arctic-embed-m-v2", 2048),
    ("all-minilm", 256),
)

_LETTERS_PER_TOKEN: Final = 3
_LETTERS_PER_RARE_TOKEN: Final = 2
_COMMON_WORD_LENGTH_MAX: Final = 6
_SPECIAL_TOKENS: Final = 2  # one at each end

# Words as they are usually written; then letters and digits mixed, as in keys and hashes; then Cyrillic, whose letters
# are single tokens at worst; then everything else by its bytes. Single spaces belong to the word behind them.
_PIECE: Final = re.compile(
    r"(?P<word>(?<![A-Za-z0-9])[A-Za-z]?[a-z]+(?![A-Za-z0-9]))|(?P<ascii>[A-Za-z0-9]+|[\x21-\x7e])"
    r"|(?P<letters>[\u0400-\u045f]+)|(?P<space>[ \t\n\r\f\v]+)|(?P<other>.)",
    re.DOTALL,
)


def estimated_tokens(text: str) -> int:
    """How many tokens a text takes, those at its ends included; too high rather than too low."""
    return _SPECIAL_TOKENS + sum(map(_piece_tokens, _PIECE.finditer(text)))


def beginning_of(text: str, tokens_max: int) -> str:
    """As much of a text as `tokens_max` tokens hold; the same text if it is no longer."""
    left = tokens_max - _SPECIAL_TOKENS
    for piece in _PIECE.finditer(text):
        count = _piece_tokens(piece)
        if count > left:
            # A character of what pieces are made of takes a token at most; of anything else it is one piece.
            inside = left if piece.lastgroup != "other" else 0
            return text[: piece.start() + max(inside, 0)]
        left -= count
    return text


def _piece_tokens(piece: re.Match[str]) -> int:
    length = piece.end() - piece.start()
    match piece.lastgroup:
        case "word":
            per_token = _LETTERS_PER_TOKEN if length <= _COMMON_WORD_LENGTH_MAX else _LETTERS_PER_RARE_TOKEN
            return -(-length // per_token)
        case "space":
            return length - 1
        case "other":
            return len(piece[0].encode("utf-8", "replace"))
        case _:
            return length


def window_of(model: str) -> int:
    """How many tokens of a text the model reads, as far as its name tells."""
    name = model.lower()
    return next((window for pattern, window in _WINDOWS if pattern in name), WINDOW_TOKENS_UNKNOWN)
