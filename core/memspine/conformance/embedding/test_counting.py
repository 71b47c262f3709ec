"""The window of a source, and how much of it a text takes."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.embedding.test_source import ROLES, TEXTS, embed, same
from memspine.conformance.samples import CONTENTS
from memspine.contracts import EmbeddingSource

UNITS: Final = {
    "words": "Another remark about the weather of that day.",
    "long words": "Incomprehensibilities notwithstanding counterrevolutionaries.",
    "identifiers": "LH1234/x86_64-v3.2.1:0xDEADBEEF",
    "Chinese": "我昨天去了東京。",
    "Cyrillic": "Мы посадили грецкий орех прошлой весной.",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈✨",
    "punctuation": "?!…—«»;:.,",
}
"""What texts are made of whose tokens are more, or fewer, than their characters let one think."""

UNITS_MAX: Final = 1500
"""So many of each stay below a hundred thousand characters."""


def row(unit: str, count: int, ending: str = "") -> str:
    """A text of so many units, none of them like another, and its ending."""
    return "\n".join([*(f"{unit} {number}" for number in range(count)), ending])


@clause("ES-4")
async def test_the_window_is_a_number(source: EmbeddingSource) -> None:
    """0 is any number of tokens."""
    window = (await source.identity()).window_tokens
    assert isinstance(window, int)
    assert window >= 0


@clause("ES-22")
@pytest.mark.parametrize("name", UNITS)
async def test_what_is_beyond_the_window_does_no_harm(source: EmbeddingSource, name: str) -> None:
    """A text that is too long is answered with a unit vector, and the texts beside it with their own."""
    window = (await source.identity()).window_tokens
    units = 1
    while (await source.count_tokens([row(UNITS[name], units)]))[0] <= 2 * window and units < UNITS_MAX:
        units *= 2
    first, second = await embed(source, TEXTS[0], TEXTS[1])
    vectors = await embed(source, TEXTS[0], row(UNITS[name], units), TEXTS[1])
    assert len(vectors) == 3
    assert same([vectors[0], vectors[2]], [first, second])
    assert math.fsum(number * number for number in vectors[1]) == pytest.approx(1, abs=0.01)


@clause("ES-24")
async def test_every_text_is_counted(source: EmbeddingSource) -> None:
    """One number a text, in their order, the same alone, beside others and again."""
    texts = ["", "walnut", *TEXTS, TEXTS[0], " ".join(TEXTS) * 20]
    counts = await source.count_tokens(texts)
    assert [type(count) for count in counts] == [int] * len(texts)
    assert min(counts) >= 0
    assert tuple(await source.count_tokens(texts)) == tuple(counts)
    assert tuple(await source.count_tokens(texts[::-1])) == tuple(counts[::-1])
    assert [count for text in texts for count in await source.count_tokens([text])] == [*counts]
    assert tuple(await source.count_tokens([])) == ()
    many = await source.count_tokens([TEXTS[number % 5] for number in range(1000)])
    assert [*many] == [counts[2 + number % 5] for number in range(1000)]


@clause("ES-25")
async def test_the_number_rises(source: EmbeddingSource) -> None:
    """The longer the text the more tokens; of no script do more characters make fewer of them."""
    lengths = (1, 2, 5, 20, 100, 1000)
    for name, unit in UNITS.items():
        counts = await source.count_tokens([row(unit, length) for length in lengths])
        assert sorted(counts) == [*counts], name
        if name == "words":
            assert len(set(counts)) == len(lengths)


@clause("ES-25")
@pytest.mark.parametrize("name", CONTENTS)
async def test_any_text_is_counted(source: EmbeddingSource, name: str) -> None:
    """Every script, control characters, a hundred thousand characters."""
    (count,) = await source.count_tokens([CONTENTS[name]])
    assert count >= 0


ENDINGS: Final = tuple(f"The walnut was planted in the garden last {season}" for season in ("spring", "winter"))
"""What differs in its last word alone."""


def body(unit: str, units: int, fillers: int) -> str:
    """So many units, and so many words that are as short as words get."""
    return row(unit, units, "on " * fillers)


async def most(fits: Callable[[int], Awaitable[bool]], highest: int) -> int:
    """The highest number that fits."""
    low, high = 0, highest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if await fits(middle) else (low, middle - 1)
    return low


async def filling(source: EmbeddingSource, unit: str) -> str | None:
    """What fills the window to its last tokens, so that an ending still fits; None when not even the ending does."""
    window = (await source.identity()).window_tokens

    async def fits(units: int, fillers: int) -> bool:
        texts = [body(unit, units, fillers) + ending for ending in ENDINGS]
        return max(await source.count_tokens(texts)) <= window

    if not window:
        return body(unit, UNITS_MAX, 0)
    if not await fits(0, 0):
        return None
    units = await most(lambda number: fits(number, 0), UNITS_MAX)
    fillers = await most(lambda number: fits(units, number), 50)
    return body(unit, units, fillers)


@clause("ES-26")
@pytest.mark.parametrize("name", UNITS)
async def test_a_vector_stands_for_all_that_fits(source: EmbeddingSource, name: str) -> None:
    """Whatever the text is made of, in both roles: of what the window is said to take the last word counts."""
    text = await filling(source, UNITS[name])
    if text is None:
        return  # a window of a few words: what fits into it is too short to be told apart
    for role in ROLES:
        vectors = [(await embed(source, text + ending, role=role))[0] for ending in ENDINGS]
        assert [*vectors[0]] != [*vectors[1]], f"the end of {len(text)} characters was not read as a {role}"
