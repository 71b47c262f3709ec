"""Embedding sources in use: what reaches an index, what is cached, what happens when a source fails."""

from __future__ import annotations

import asyncio
import math
import struct

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine.breaker import Breaker
from memspine.contracts import EmbeddingIdentity, Vectors
from memspine.embedding import EmbeddingCache
from memspine.embedding.cache import CacheKey
from memspine.errors import EmbeddingError

from .sources import Source, embedder, unit


class Clock:
    """A time that stands still until it is moved."""

    now = 1000.0

    def __call__(self):
        return self.now


BAD_ANSWERS = {
    "too few": lambda texts: Vectors(4, unit(1, 0, 0, 0) * (len(texts) - 1)),
    "too many": lambda texts: Vectors(4, unit(1, 0, 0, 0) * (len(texts) + 1)),
    "another dimension": lambda texts: Vectors(2, unit(1, 0) * len(texts)),
    "same bytes, another dimension": lambda texts: Vectors(2, unit(1, 0) * 2 * len(texts)),
    "zero": lambda texts: Vectors(4, bytes(16) * len(texts)),
    "not of norm 1": lambda texts: Vectors(4, struct.pack("<4f", 3, 4, 0, 0) * len(texts)),
    "NaN": lambda texts: Vectors(4, struct.pack("<4f", math.nan, 1, 0, 0) * len(texts)),
    "infinite": lambda texts: Vectors(4, struct.pack("<4f", math.inf, 1, 0, 0) * len(texts)),
    "half a float": lambda texts: Vectors(4, unit(1, 0, 0, 0) * len(texts) + b"\0\0"),
    "nothing": lambda _: None,
    "a list": lambda texts: [[1.0, 0.0, 0.0, 0.0]] * len(texts),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_nothing_bad_gets_through(name):
    """An answer that is not one finite vector of norm 1 a text is an error, in both roles; that a source answers so to
    any text is the source's trouble."""

    async def run():
        source = Source()
        source.answer = BAD_ANSWERS[name]
        use = embedder(source)
        with pytest.raises(EmbeddingError):
            await use.query_vector("a")
        use.breaker.succeed()
        with pytest.raises(EmbeddingError):
            await use.document_vectors(["a", "b"], chunk_tokens=0)
        assert use.breaker.pause_seconds > 0
        use.breaker.succeed()
        source.answer = None
        assert await use.query_vector("a") == source.vector("a")

    asyncio.run(run())


SOUND = EmbeddingIdentity(plugin="test", model="letters", revision="1", dimension=4)
BAD_IDENTITIES = {
    "nothing": None,
    "a name": "letters",
    "no dimension": attrs.evolve(SOUND, dimension=0),
    "half a dimension": attrs.evolve(SOUND, dimension=4.0),
    "true as dimension": attrs.evolve(SOUND, dimension=True),
    "no model": attrs.evolve(SOUND, model=""),
    "no revision": attrs.evolve(SOUND, revision=None),
    "half a character": attrs.evolve(SOUND, revision="\ud800"),
    "a negative window": attrs.evolve(SOUND, window_tokens=-1),
    "no window": attrs.evolve(SOUND, window_tokens=None),
}


@pytest.mark.parametrize("name", BAD_IDENTITIES)
def test_an_identity_is_checked(name):
    """A source that says nothing usable about its vectors is out of order, for questions and for documents; what it
    says later is asked anew."""

    async def run():
        source, said = Source(), [BAD_IDENTITIES[name]]
        sound = source.identity

        async def identity():
            return said[0] if said else await sound()

        source.identity = identity
        use = embedder(source)
        for call in (use.identity(), use.query_vector("a"), use.document_vectors(["a"], chunk_tokens=0)):
            use.breaker.succeed()
            with pytest.raises(EmbeddingError, match="identity") as caught:
                await call
            assert (caught.value.kind, use.breaker.pause_seconds > 0, use.is_loaded) == ("config", True, False)
        said.clear()
        use.breaker.succeed()
        assert await use.query_vector("a") == source.vector("a")

    asyncio.run(run())


BAD_COUNTS = {
    "too few": lambda texts: (1,) * (len(texts) - 1),
    "too many": lambda texts: (1,) * (len(texts) + 1),
    "nothing": lambda _: None,
    "a number": lambda _: 3,
    "halves": lambda texts: (0.5,) * len(texts),
    "negative": lambda texts: (-1,) * len(texts),
    "words": lambda texts: ("3",) * len(texts),
}


@pytest.mark.parametrize("name", BAD_COUNTS)
def test_token_counts_are_checked(name):
    """Anything else than one number a text, 0 or more, is the source's trouble, whenever it is counted."""

    async def run():
        async def count_tokens(texts):
            return BAD_COUNTS[name](texts)

        source = Source(window_tokens=16)
        source.count_tokens = count_tokens
        with pytest.raises(EmbeddingError, match="counts") as caught:
            await embedder(source).document_vectors(["a word " * 20], chunk_tokens=0)
        assert caught.value.kind == "config"
        source = Source()
        source.count_tokens = count_tokens
        source.answer = EmbeddingError("letters", "too long", expected="less", kind="too_long")
        with pytest.raises(EmbeddingError, match="counts"):
            await embedder(source).document_vectors(["a word " * 20], chunk_tokens=0)

    asyncio.run(run())


def test_equal_questions_share_one_call():
    """Questions that come while an equal one is being answered cost no call of their own, nor do later ones."""

    async def run():
        source = Source()
        source.seconds = 0.02
        use = embedder(source)
        answers = await asyncio.gather(*(use.query_vector("abc") for _ in range(20)))
        assert set(answers) == {source.vector("abc")}
        await use.query_vector("abc")
        assert len(source.asked) == 1

    asyncio.run(run())


def test_a_caller_that_gives_up_does_not_stop_the_others():
    """A question that is cancelled leaves its call to those who still wait, and to the cache."""

    async def run():
        source = Source()
        source.seconds = 0.05
        use = embedder(source)
        await use.identity()
        impatient = asyncio.create_task(use.query_vector("a"))
        patient = asyncio.create_task(use.query_vector("a"))
        await asyncio.sleep(0.01)
        impatient.cancel()
        assert await patient == source.vector("a")
        assert len(source.asked) == 1
        await use.close()

    asyncio.run(run())


@given(st.lists(st.tuples(st.sampled_from(["put", "get", "wait"]), st.integers(0, 6)), max_size=60))
def test_the_cache_is_least_recently_used(steps):
    """Whatever happens, the cache holds what was last used, no more than it may, and nothing that is too old."""
    clock = Clock()
    cache = EmbeddingCache(entries=3, seconds=10, clock=clock)
    identity = EmbeddingIdentity(plugin="p", model="m", revision="1", dimension=1)
    recent: list[int] = []
    made: dict[int, float] = {}
    for step, number in steps:
        key = CacheKey.of(identity, str(number), "query")
        if step == "wait":
            clock.now += number
        elif step == "put":
            cache.put(key, b"%d" % number)
            made[number] = clock.now
            recent = [*(n for n in recent if n != number), number][-3:]
        else:
            is_there = number in recent and clock.now - made[number] < 10
            assert cache.get(key) == (b"%d" % number if is_there else None)
            recent = [n for n in recent if n != number] + ([number] if is_there else [])
        assert len(cache) <= 3


def test_what_is_cached_is_told_apart():
    """Another text, role or identity is another entry."""
    one = EmbeddingIdentity(plugin="p", model="m", revision="1", dimension=1)
    two = EmbeddingIdentity(plugin="p", model="m", revision="2", dimension=1)
    keys = {CacheKey.of(i, t, r) for i in (one, two) for t in ("a", "b") for r in ("query", "document")}
    assert len(keys) == 8


def test_a_failing_source_is_left_alone_and_comes_back():
    """After a failure the source is not asked for a while, ever longer; after a success it is asked at once again."""

    async def run():
        clock, source = Clock(), Source()
        use = embedder(source, clock=clock)
        source.answer = ConnectionError("refused")
        pauses = []
        for _ in range(4):
            with pytest.raises(EmbeddingError, match="refused"):
                await use.query_vector("a")
            pauses.append(use.breaker.pause_seconds)
            asked = len(source.asked)
            with pytest.raises(EmbeddingError, match="left alone"):
                await use.query_vector("a")
            assert len(source.asked) == asked
            clock.now += use.breaker.pause_seconds
        assert pauses == sorted(set(pauses))
        source.answer = None
        assert await use.query_vector("a") == source.vector("a")
        assert use.breaker.pause_seconds == 0
        assert use.breaker.reason == ""

    asyncio.run(run())


def test_a_source_is_waited_for_as_long_as_it_asks():
    """Retry-After makes the pause longer, up to five minutes."""
    clock = Clock()
    breaker = Breaker(clock)
    for asked, pause in ((60, 60), (10_000, 300)):
        breaker.fail("429", pauses=breaker.pauses, retry_after_seconds=asked)
        assert breaker.pause_seconds == pause


def test_an_outage_counts_once():
    """However many calls were under way when the source failed, it is left alone as after one failure."""

    async def run():
        clock, source = Clock(), Source()
        use = embedder(source, clock=clock)
        await use.identity()
        source.answer, source.seconds = ConnectionError("refused"), 0.01
        for pause in (2, 4):
            failures = await asyncio.gather(*map(use.query_vector, "abcdefgh"), return_exceptions=True)
            assert all("refused" in str(failure) for failure in failures)
            assert use.breaker.pause_seconds == pause
            clock.now += pause

    asyncio.run(run())


def test_only_vectors_end_an_outage():
    """What a source still does while it cannot embed, counting tokens and taking nothing, makes no pause shorter."""

    async def run():
        clock, source = Clock(), Source(window_tokens=4)
        use = embedder(source, clock=clock)

        def answer(texts):
            if texts:
                raise ConnectionError
            return Vectors(4, b"")

        source.answer = answer
        pauses = []
        for _ in range(4):
            assert await use.document_vectors([], chunk_tokens=0) == []
            with pytest.raises(EmbeddingError, match="ConnectionError"):
                await use.document_vectors(["a b c d e f g h"], chunk_tokens=0)
            pauses.append(use.breaker.pause_seconds)
            clock.now += use.breaker.pause_seconds
        assert pauses == [2, 4, 8, 16]

    asyncio.run(run())


def test_a_bad_text_is_no_failure_of_the_source():
    """A text that the source does not take is told alone; the other texts of its batch get their vectors."""

    async def run():
        source = Source()

        def answer(texts):
            if any("bad" in text for text in texts):
                raise EmbeddingError("letters", "a word it does not like", expected="others")
            return Vectors(4, b"".join(source.vector(text) for text in texts))

        source.answer = answer
        use = embedder(source)
        found = await use.document_vectors(["a", "bad", "c"], chunk_tokens=0)
        assert found[0] == (source.vector("a"),)
        assert isinstance(found[1], EmbeddingError)
        assert found[2] == (source.vector("c"),)
        assert use.breaker.pause_seconds == 0

    asyncio.run(run())


@pytest.mark.parametrize("bad", [1, 2, 5])
def test_bad_texts_alone_are_no_failure_of_the_source(bad):
    """However many texts a source does not take, alone in a batch, it is not to blame while it takes a plain one."""

    async def run():
        source = Source()
        use = embedder(source)
        texts = [f"bad {n}" for n in range(bad)]

        def answer(texts):
            if any("bad" in text for text in texts):
                raise EmbeddingError("letters", "a word it does not like", expected="others")
            return Vectors(4, b"".join(map(source.vector, texts)))

        source.answer = answer
        found = await use.document_vectors(texts, chunk_tokens=0)
        assert [type(one) for one in found] == [EmbeddingError] * bad
        assert (use.breaker.pause_seconds, use.breaker.reason) == (0, "")
        assert await use.query_vector("a") == source.vector("a")

    asyncio.run(run())


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_source_that_takes_nothing_blames_no_text(count):
    """When a source does not even take a plain text, no text is blamed, however few there are, and it is left alone."""

    async def run():
        source = Source()
        use = embedder(source)
        source.answer = EmbeddingError("letters", "not today", expected="another day")
        with pytest.raises(EmbeddingError, match=r"takes no text: .*not today"):
            await use.document_vectors(["a"] * count, chunk_tokens=0)
        assert use.breaker.pause_seconds > 0

    asyncio.run(run())


def test_long_texts_are_cut_into_chunks():
    """A text beyond the limit gets a vector for each chunk, in order, and nothing of it is left out; the smaller of the
    window and of the configured length is the limit."""

    async def run():
        source = Source(window_tokens=6)
        use = embedder(source)
        text = "a b c. " * 7
        (vectors,) = await use.document_vectors([text], chunk_tokens=100)
        assert "".join(source.embedded()) == text
        assert all(len(chunk.split()) <= 6 for chunk in source.embedded())
        assert vectors == tuple(map(source.vector, source.embedded()))
        source.asked.clear()
        await use.document_vectors([text], chunk_tokens=3)
        assert all(len(chunk.split()) <= 3 for chunk in source.embedded())

    asyncio.run(run())


@given(st.text(alphabet="ab .", min_size=1, max_size=300), st.integers(1, 9))
def test_no_piece_is_counted_twice(text, tokens_max):
    """However often the pieces of a long text have to be halved, each is counted once, and none stays too long that can
    be cut."""

    async def run():
        source = Source(window_tokens=tokens_max)
        counted = []

        async def count_tokens(texts):
            counted.extend(texts)
            return tuple(map(len, texts))

        source.count_tokens = count_tokens
        await embedder(source).document_vectors([text], chunk_tokens=0)
        assert len(set(counted[1:])) == len(counted[1:])  # the first is the whole text
        assert "".join(source.embedded()) == text
        assert all(len(chunk) <= tokens_max for chunk in source.embedded())

    asyncio.run(run())


def test_a_text_that_is_still_too_long_is_cut_smaller():
    """Where the source refuses a chunk as too long, ever smaller ones are tried."""

    async def run():
        source = Source()

        def answer(texts):
            if any(len(text) > 80 for text in texts):
                raise EmbeddingError("letters", "too long", expected="less", kind="too_long")
            return Vectors(4, b"".join(source.vector(text) for text in texts))

        source.answer = answer
        text = "a b. " * 100
        found = await embedder(source).document_vectors(["c", text], chunk_tokens=0)
        assert len(found[0]) == 1
        assert len(found[1]) > 6
        assert sum(len(chunk) for chunk in source.asked[-1][1]) == len(text)

    asyncio.run(run())


def test_errors_of_a_plugin_become_ours():
    """Whatever a source raises is an EmbeddingError that names it and its cause."""

    async def run():
        for error in (ValueError("odd"), SystemExit(3), RuntimeError()):
            source = Source()
            source.answer = error
            with pytest.raises(EmbeddingError, match=type(error).__name__) as caught:
                await embedder(source).query_vector("a")
            assert caught.value.kind == "transient"

    asyncio.run(run())


def test_a_failed_opening_is_tried_again():
    """A source that could not be opened is opened at the next need."""

    async def run():
        clock, source = Clock(), Source()
        use = embedder(source, clock=clock)
        opened = source.open
        trouble = [OSError("no such model")]

        def open_or_fail():
            if trouble:
                raise trouble.pop()
            return opened()

        use._member._open = open_or_fail  # noqa: SLF001 - there is no public way to break a source
        with pytest.raises(EmbeddingError, match="no such model"):
            await use.identity()
        clock.now += 10
        assert (await use.identity()).model == "letters"

    asyncio.run(run())
