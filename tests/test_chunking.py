"""Cutting long texts: nothing is lost, nothing is added."""

from hypothesis import given
from hypothesis import strategies as st

from memspine.chunking import SEGMENT_LENGTH_MAX, halves, packed, segments

TEXTS = st.text(alphabet=st.sampled_from("ab é.!?\n。漢🙂"), max_size=1200)


@given(TEXTS)
def test_segments_are_the_text(text):
    """Put together, the segments of a text are that text; none is empty or longer than allowed."""
    found = segments(text)
    assert "".join(found) == text
    assert all(found)
    assert all(len(segment) <= SEGMENT_LENGTH_MAX for segment in found)


@given(st.one_of(st.text(alphabet="a ", min_size=2, max_size=9), st.text(min_size=2, max_size=300)))
def test_halves_are_the_text(text):
    """Both halves of a segment hold something, and together they are the segment."""
    first, second = halves(text)
    assert first
    assert second
    assert first + second == text


@given(st.lists(st.tuples(st.text(min_size=1, max_size=5), st.integers(0, 12)), max_size=40), st.integers(1, 20))
def test_packed_chunks_keep_to_the_limit(pieces, tokens_max):
    """Chunks are the pieces in order, and hold more than the limit only where a single piece does."""
    texts, counts = [text for text, _ in pieces], [count for _, count in pieces]
    chunks = packed(texts, counts, tokens_max=tokens_max)
    assert "".join(chunks) == "".join(texts)
    rest = list(zip(texts, counts, strict=True))
    for chunk in chunks:
        taken, tokens = "", 0
        while taken != chunk:
            text, count = rest.pop(0)
            taken, tokens = taken + text, tokens + count
        assert tokens <= tokens_max or taken == text


def test_sentences_stay_whole():
    """A chunk ends where a sentence does, when the sentences are short enough."""
    text = "The dog eats duck. The cat sleeps! Who sings?\nNobody."
    pieces = segments(text)
    assert packed(pieces, [len(piece.split()) for piece in pieces], tokens_max=7) == (
        "The dog eats duck. The cat sleeps! ",
        "Who sings?\nNobody.",
    )
