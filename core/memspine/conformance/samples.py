"""Times, owners and texts that the tests share."""

from __future__ import annotations

import os
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from memspine.model import MemoryFilter, Scope

START: Final = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
"""When the tests begin."""

ALICE: Final = Scope.of_owner("alice")
BOB: Final = Scope.of_owner("bob")
EVERYONE: Final = Scope.everyone()
ALL: Final = MemoryFilter()

SETTINGS: Final = settings(
    deadline=None,
    print_blob=True,
    database=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
"""Hypothesis as the kit runs it: without files, without deadlines, repeatable where CI runs it."""


def at(seconds: float) -> datetime:
    """So many seconds after the start."""
    return START + timedelta(seconds=seconds)


CONTENTS: Final[dict[str, str]] = {
    "CRLF": "first\r\nsecond\rthird\nfourth",
    "trailing blanks": "  indented, and blanks behind  \t\n\n",
    "front matter": "---\nid: 1\n---\n\n---\n# heading\n---",
    "decomposed-looking": "q\u0323\u0307 \u0928\u093c \u2126 cafe\u200d\u0301",
    "100 000 characters": "äb𝄞 " * 25_000,
    "Chinese": "我昨天去了東京",
    "Japanese": "東京で会いましょう。ガギグ",
    "Korean": "서울에서 만나요",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 ✨",
    "right to left": "שלום \u202e עולם \u202c مرحبا",
    "controls": "tab\tbell\x07escape\x1bunit\x1fdelete\x7fnext\x85line\u2028paragraph\u2029",
    "byte order mark": "\ufeffstart",
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "one blank": " ",
    "SQL": "'; DROP TABLE memories; --",
    "wiki link": "[[note]] ![[image.png|100]] #tag ^block %% hidden %%",
}
"""Contents that some store, somewhere, did not give back as they were."""

METADATA: Final[dict[str, dict[str, Any]]] = {
    "empty": {},
    "beyond a double's integers": {"n": 2**53 + 1, "m": -(2**63), "big": 2**64 + 1},
    "one as float": {"n": 1.0, "m": -0.5, "tiny": 5e-324, "huge": 1.7976931348623157e308},
    "empty string beside null": {"empty": "", "nothing": None, "false": False, "zero": 0},
    "nested": {"a": [{"b": [[], {}, [None]]}, "c"], "d": {"e": {"f": {"": "empty name"}}}},
    "odd names": {"a.b": 1, "a b": 2, "$c": 3, "": 4, "ключ": 5, "_id": 6, "%": 7, '"': 8},
    "text of numbers": {"n": "1", "b": "true", "d": "2026-01-02", "null": "null"},
    "emoji and quotes": {"e": "👍🏽", "q": "\"'\\", "line": "a\r\nb"},
    "names of fields": {"id": "x", "owner": "y", "revision": 9, "content": "z"},
}
"""Metadata that some store, somewhere, did not give back as it was."""

PROBES: Final[tuple[str, ...]] = (
    '"', "-", "a AND", "(", "", "   ", "AND", "NOT x", "*", "x:y", "title:foo", "multi-agent", "a-b", "{a}", "C++",
    "user@example.com", "#tag", "50%", "a=b", "a/b", "~", "1.5", "a,b", "don't", "`x`", "foo*", "NEAR(a b)", "^x", "_",
    "👍", "\ufffd", "'; DROP TABLE memories; --", "' OR 1=1 --", "%", "a\\", "[a-z]+", "$where", "x OR y", "\n\t",
    "rowid", "content:secret", "the of", "東京", '"""', "a" * 5000, " ".join(f"w{n}" for n in range(400)), "@nasa",
    "---", "{!lucene}", "?q=1&x", "<b>", "\\u0000",
)  # fmt: skip
"""Questions that are query syntax somewhere."""

NEAR_OWNERS: Final = (
    "a.b", "ab", "A", " a", "a ", "a%", "%", "_", "*", "a*", "a/b", "a/../b", "á", "aa", "a\n", "'a'", '"a"', "a--",
    "0", "null", "a\u0301b", "?", "[a]",
)  # fmt: skip
"""Owners that are not `a`, whatever a store thinks of prefixes, cases, blanks and wildcards."""

_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")


def _is_nfc(text: str) -> bool:
    return unicodedata.is_normalized("NFC", text)


def texts(*, min_size: int = 0, max_size: int = 60) -> st.SearchStrategy[str]:
    """Text as the kernel hands it over: NFC, without NUL and lone surrogates."""
    return st.text(_CHARACTERS, min_size=min_size, max_size=max_size).filter(_is_nfc)


def metadata() -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts(max_size=20)
    )
    values = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=8), inner, max_size=3),
        max_leaves=8,
    )
    return st.dictionaries(texts(max_size=12), values, max_size=4)
