"""What every embedding source does."""

from __future__ import annotations

import asyncio
import math
import sys
from array import array
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final, get_args

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import CONTENTS
from memspine.conformance.subject import Place
from memspine.contracts import EmbeddingSource, Role, Vectors
from memspine.errors import ClosedError, EmbeddingError, Trouble
from memspine.resources import ProviderContext, SharedResources

ROLES: Final[tuple[Role, ...]] = ("document", "query")
SAME: Final = 0.99
BLANKS: Final = ("", " ", "\n\t", "…", "!?", "-")
TEXTS: Final = (
    "The walnut was planted in the garden last spring.",
    "Our train to Lisbon leaves at seven in the morning.",
    "She is allergic to penicillin and to bee stings.",
    "The invoice for the new printer was paid in March.",
    "He practises the cello every evening after supper.",
)


def rows(vectors: Vectors) -> list[Sequence[float]]:
    """The vectors of an answer, read as the contract says they are written."""
    assert len(vectors.data) % (4 * vectors.dimension) == 0
    numbers = array("f")
    numbers.frombytes(vectors.data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return [numbers[start : start + vectors.dimension] for start in range(0, len(numbers), vectors.dimension)]


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """How near two vectors are."""
    norms = math.sqrt(math.fsum(a * a for a in left)) * math.sqrt(math.fsum(b * b for b in right))
    return math.fsum(a * b for a, b in zip(left, right, strict=True)) / norms


def same(left: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> bool:
    """Whether two answers hold the same vectors in the same order."""
    return len(left) == len(right) and all(cosine(a, b) >= SAME for a, b in zip(left, right, strict=True))


async def embed(source: EmbeddingSource, *texts: str, role: Role = "document") -> list[Sequence[float]]:
    """The vectors of these texts."""
    return rows(await source.embed(texts, role=role))


@clause("ES-1")
async def test_the_identity_stays(place: Place) -> None:
    """It is the same before and after embedding, and after opening again."""
    seen = []
    for _ in range(2):
        async with place.open() as source:
            seen.append(await source.identity())
            await embed(source, *TEXTS)
            seen.append(await source.identity())
    assert seen == [seen[0]] * 4


@clause("ES-2")
async def test_the_identity_is_complete(source: EmbeddingSource) -> None:
    """Every name says something, and the dimension is a number of numbers."""
    identity = await source.identity()
    assert all((identity.plugin, identity.model, identity.revision, identity.prompt_scheme))
    assert identity.dimension >= 1


@clause("ES-3")
async def test_the_dimension_is_that_of_the_identity(source: EmbeddingSource) -> None:
    """Whatever is embedded in whatever role."""
    dimension = (await source.identity()).dimension
    for role in ROLES:
        assert (await source.embed(TEXTS, role=role)).dimension == dimension


@clause("ES-10")
@pytest.mark.parametrize("count", [1, 2, 5])
async def test_every_text_has_its_vector(source: EmbeddingSource, count: int) -> None:
    """As many vectors as texts, of four bytes a number, without anything between them."""
    for role in ROLES:
        vectors = await source.embed(TEXTS[:count], role=role)
        assert len(vectors.data) == count * vectors.dimension * 4
        assert len(vectors) == count
    repeated = await embed(source, TEXTS[0], TEXTS[0])
    assert len(repeated) == 2


@clause("ES-10")
async def test_numbers_are_little_endian(source: EmbeddingSource) -> None:
    """Read as little-endian float32, a vector has norm 1."""
    (vector,) = await embed(source, TEXTS[0])
    assert math.fsum(number * number for number in vector) == pytest.approx(1, abs=0.01)


@clause("ES-11")
async def test_vectors_are_in_the_order_of_the_texts(source: EmbeddingSource) -> None:
    """Each text has the vector that it has alone, wherever in a batch it stands."""
    alone = [(await embed(source, text))[0] for text in TEXTS]
    assert same(await embed(source, *TEXTS), alone)
    assert same(await embed(source, *TEXTS[::-1]), alone[::-1])
    longer = (*TEXTS[:2], "a word", TEXTS[2] * 20, *TEXTS[3:])
    batch = await embed(source, *longer)
    assert same([*batch[:2], *batch[4:]], [*alone[:2], *alone[3:]])


@clause("ES-12")
async def test_numbers_are_finite(source: EmbeddingSource) -> None:
    """No text gives anything but numbers."""
    texts = [*TEXTS, *(text for text in CONTENTS.values() if text.strip())]
    for role in ROLES:
        for vector in await embed(source, *texts, role=role):
            assert all(map(math.isfinite, vector))


@clause("ES-13")
async def test_vectors_have_norm_one(source: EmbeddingSource) -> None:
    """Long and short texts, documents and queries."""
    for role in ROLES:
        for vector in await embed(source, *TEXTS, "walnut", " ".join(TEXTS) * 20, role=role):
            assert math.sqrt(math.fsum(n * n for n in vector)) == pytest.approx(1, abs=0.001)


@clause("ES-14")
async def test_the_same_text_gives_the_same_vector(place: Place) -> None:
    """Now, later, and after opening again."""
    answers = []
    for _ in range(2):
        async with place.open() as source:
            answers += [[await embed(source, *TEXTS, role=role) for _ in range(2)] for role in ROLES]
    for first, again in zip(answers[:2], answers[2:], strict=True):
        assert all(same(first[0], other) for other in (first[1], *again))


@clause("ES-15")
async def test_nothing_gives_nothing(source: EmbeddingSource) -> None:
    """An empty batch is answered without vectors."""
    for role in ROLES:
        vectors = await source.embed([], role=role)
        assert (vectors.dimension, vectors.data) == ((await source.identity()).dimension, b"")


@clause("ES-16")
async def test_a_batch_has_no_limit(source: EmbeddingSource) -> None:
    """Two thousand and one texts, each with its own vector."""
    texts = [f"Note {number} about the {TEXTS[number % 5]}" for number in range(2001)]
    vectors = await embed(source, *texts)
    assert len(vectors) == len(texts)
    for place in (0, 99, 100, 512, 1024, 2000):
        assert same(await embed(source, texts[place]), [vectors[place]])


@clause("ES-17")
@pytest.mark.parametrize("name", [name for name, text in CONTENTS.items() if text.strip()])
async def test_any_text_is_answered(source: EmbeddingSource, name: str) -> None:
    """Every script, control characters, a hundred thousand characters."""
    for role in ROLES:
        (vector,) = await embed(source, CONTENTS[name], role=role)
        assert math.fsum(n * n for n in vector) == pytest.approx(1, abs=0.01)


@clause("ES-18")
@pytest.mark.parametrize("text", BLANKS)
async def test_a_text_without_words_is_answered_or_refused(source: EmbeddingSource, text: str) -> None:
    """A unit vector, or EmbeddingError for the batch; alone and beside others, whose vectors stay theirs."""
    for role in ROLES:
        alone = await embed(source, TEXTS[0], TEXTS[1], role=role)
        for batch in ([text], [TEXTS[0], text, TEXTS[1]]):
            try:
                vectors = rows(await source.embed(batch, role=role))
            except EmbeddingError:
                continue
            assert len(vectors) == len(batch)
            for vector in vectors:
                assert math.fsum(n * n for n in vector) == pytest.approx(1, abs=0.01)
            assert len(batch) == 1 or same([vectors[0], vectors[2]], alone)


@clause("ES-19")
async def test_roles_differ_by_their_prompts_alone(source: EmbeddingSource) -> None:
    """Both are accepted, and without a prompt scheme they say the same."""
    documents, queries = [await embed(source, *TEXTS, role=role) for role in ROLES]
    assert len(documents) == len(queries)
    if (await source.identity()).prompt_scheme == "none":
        assert same(documents, queries)


@clause("ES-20")
async def test_a_query_is_nearest_to_what_says_the_same(source: EmbeddingSource) -> None:
    """Of documents about different things the one with the words of the query."""
    documents = await embed(source, *TEXTS)
    for place, query in enumerate(await embed(source, *TEXTS, role="query")):
        scores = [cosine(query, document) for document in documents]
        assert scores.index(max(scores)) == place


@clause("ES-21")
async def test_the_texts_are_not_changed(source: EmbeddingSource) -> None:
    """A list of texts is afterwards what it was."""
    texts = [*TEXTS, TEXTS[0]]
    await source.embed(texts, role="document")
    await source.count_tokens(texts)
    assert texts == [*TEXTS, TEXTS[0]]


async def refusal(source: EmbeddingSource, batch: Sequence[str], *, role: Role) -> EmbeddingError | None:
    """The error of a batch that is refused."""
    try:
        await source.embed(batch, role=role)
    except EmbeddingError as error:
        return error
    return None


@clause("ES-23")
@pytest.mark.parametrize("text", BLANKS)
async def test_an_error_says_its_kind(source: EmbeddingSource, text: str) -> None:
    """A source that refuses a text without words says that the text is of no use, not that it may pass."""
    for role in ROLES:
        for batch in ([text], [TEXTS[0], text]):
            error = await refusal(source, batch, role=role)
            if error is not None:
                assert error.kind in get_args(Trouble)
                assert error.kind == "invalid"
                assert str(error)


@clause("ES-30")
async def test_a_source_lives_in_its_context(place: Place) -> None:
    """Constructing it touches no file, and after leaving every call raises ClosedError."""
    async with AsyncExitStack() as stack:
        context = ProviderContext(
            "kit", config_folder=place.folder, data_folder=place.folder, resources=SharedResources(), stack=stack
        )
        manager = place.subject.construct(place.folder, context)
        assert list(place.folder.rglob("*")) == []
        async with manager as source:
            await embed(source, TEXTS[0])
    calls = (
        source.identity(),
        source.embed(TEXTS, role="document"),
        source.embed([], role="query"),
        source.count_tokens(TEXTS),
        source.count_tokens([]),
    )
    for call in calls:
        with pytest.raises(ClosedError):
            await call


@clause("ES-31")
async def test_many_tasks_have_their_own_answers(source: EmbeddingSource) -> None:
    """Batches that run at once are not mixed up, nor are numbers of tokens."""
    alone, numbers = await embed(source, *TEXTS), await source.count_tokens(TEXTS)
    batches, counts = await asyncio.gather(
        asyncio.gather(*(embed(source, *TEXTS[n % 5 :]) for n in range(20))),
        asyncio.gather(*(source.count_tokens(TEXTS[n % 5 :]) for n in range(20))),
    )
    for number, batch in enumerate(batches):
        assert same(batch, alone[number % 5 :])
        assert [*counts[number]] == [*numbers[number % 5 :]]


@clause("ES-32")
async def test_a_cancelled_call_does_no_harm(source: EmbeddingSource) -> None:
    """After a cancellation the source answers as before."""
    alone = await embed(source, *TEXTS)
    for turns in (0, 1, 2, 5):
        task = asyncio.ensure_future(source.embed(TEXTS * 20, role="document"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert same(await embed(source, *TEXTS), alone)
