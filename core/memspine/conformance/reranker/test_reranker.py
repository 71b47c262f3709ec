"""What every reranker does."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final, get_args

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import CONTENTS, PROBES
from memspine.conformance.subject import Place
from memspine.contracts import Reranker
from memspine.errors import ClosedError, RerankError, Trouble
from memspine.resources import ProviderContext, SharedResources

SAME: Final = 0.05
BLANKS: Final = ("", " ", "\n\t", "…", "!?", "-")
TEXTS: Final = (
    "The walnut was planted in the garden last spring.",
    "Our train to Lisbon leaves at seven in the morning.",
    "She is allergic to penicillin and to bee stings.",
    "The invoice for the new printer was paid in March.",
    "He practises the cello every evening after supper.",
)
QUESTIONS: Final = (
    "When was the walnut planted in the garden?",
    "When does our train to Lisbon leave in the morning?",
    "Is she allergic to penicillin or to bee stings?",
    "Was the invoice for the new printer paid?",
    "Does he practise the cello in the evening?",
)
"""One for each of the texts, in its words."""
HALF: Final = "In the morning she walked to the garden."
"""What has something to do with the first two questions, and answers neither."""


def same(left: Sequence[float], right: Sequence[float], *, spread: float) -> bool:
    """Whether two answers hold the same scores in the same order."""
    return len(left) == len(right) and all(abs(a - b) <= SAME * spread for a, b in zip(left, right, strict=True))


async def judged(reranker: Reranker, question: str = QUESTIONS[0]) -> tuple[Sequence[float], float]:
    """The scores of the texts, and what lies between the best and the worst of them."""
    scores = await reranker.rerank(question, TEXTS)
    assert len(scores) == len(TEXTS)
    return scores, max(scores) - min(scores)


@clause("RR-1")
@pytest.mark.parametrize("count", [1, 2, 5])
async def test_every_text_has_its_score(reranker: Reranker, count: int) -> None:
    """As many scores as texts, also for texts that are there twice."""
    for question in QUESTIONS:
        assert len(await reranker.rerank(question, TEXTS[:count])) == count
    assert len(await reranker.rerank(QUESTIONS[0], [TEXTS[0]] * 3)) == 3


@clause("RR-1")
async def test_scores_are_in_the_order_of_the_texts(reranker: Reranker) -> None:
    """The text that answers has the highest score wherever it stands."""
    for shift in range(len(TEXTS)):
        texts = [*TEXTS[shift:], *TEXTS[:shift]]
        scores = await reranker.rerank(QUESTIONS[0], texts)
        assert texts[scores.index(max(scores))] == TEXTS[0]


@clause("RR-2")
async def test_scores_are_finite_numbers(reranker: Reranker) -> None:
    """No text and no question gives anything else."""
    texts = [*TEXTS, *(text for text in CONTENTS.values() if text.strip())]
    for question in (QUESTIONS[0], TEXTS[1] * 50, "東京"):
        scores = await reranker.rerank(question, texts)
        assert all(isinstance(score, int | float) and math.isfinite(score) for score in scores)


@clause("RR-3")
async def test_a_score_does_not_depend_on_the_others(reranker: Reranker) -> None:
    """Each text has the score that it has alone, in any order, beside longer texts and beside itself."""
    for question in QUESTIONS[:2]:
        scores, spread = await judged(reranker, question)
        alone = [(await reranker.rerank(question, [text]))[0] for text in TEXTS]
        half = await reranker.rerank(question, [HALF])
        assert same((await reranker.rerank(question, [*TEXTS, HALF]))[-1:], half, spread=spread)
        assert same(scores, alone, spread=spread)
        assert same(await reranker.rerank(question, TEXTS[::-1]), alone[::-1], spread=spread)
        longer = (*TEXTS[:2], "a word", TEXTS[2] * 20, TEXTS[0], *TEXTS[3:])
        batch = await reranker.rerank(question, longer)
        kept = [*batch[:2], batch[4], *batch[5:]]
        assert same(kept, [*alone[:2], alone[0], *alone[3:]], spread=spread)


@clause("RR-4")
async def test_the_same_gives_the_same(place: Place) -> None:
    """Now, later, and after opening again."""
    answers = []
    for _ in range(2):
        async with place.open() as reranker:
            answers += [await judged(reranker, QUESTIONS[0]), await judged(reranker, QUESTIONS[0])]
    first, spread = answers[0]
    assert all(same(first, scores, spread=spread) for scores, _ in answers)


@clause("RR-5")
async def test_nothing_gives_nothing(reranker: Reranker) -> None:
    """No texts are answered without scores, whatever is asked."""
    for question in (QUESTIONS[0], "", "東京"):
        assert len(await reranker.rerank(question, [])) == 0


@clause("RR-6")
async def test_a_call_has_no_limit(reranker: Reranker) -> None:
    """A thousand texts, each with its own score."""
    scores, spread = await judged(reranker)
    texts = [TEXTS[number % 5] for number in range(1000)]
    many = await reranker.rerank(QUESTIONS[0], texts)
    assert same(many, [scores[number % 5] for number in range(1000)], spread=spread)


@clause("RR-7")
@pytest.mark.parametrize("name", [name for name, text in CONTENTS.items() if text.strip()])
async def test_any_text_is_judged(reranker: Reranker, name: str) -> None:
    """Every script, control characters, a hundred thousand characters, as a text and as a question."""
    assert len(await reranker.rerank(QUESTIONS[0], [TEXTS[1], CONTENTS[name]])) == 2
    assert len(await reranker.rerank(CONTENTS[name], TEXTS[:2])) == 2


@clause("RR-7")
async def test_no_question_is_syntax(reranker: Reranker) -> None:
    """What means something to a query language is a question like any other."""
    questions = [probe for probe in PROBES if any(map(str.isalpha, probe))]
    for question in (*questions, 'a "walnut', "walnut AND (garden", '{"query": "walnut'):
        assert len(await reranker.rerank(question, TEXTS[:2])) == 2


@clause("RR-8")
async def test_the_words_of_the_question_count(reranker: Reranker) -> None:
    """Of texts about different things the one that says what was asked is judged highest."""
    for place, question in enumerate(QUESTIONS):
        scores, spread = await judged(reranker, question)
        assert scores.index(max(scores)) == place
        assert spread > 0


@clause("RR-9")
async def test_the_texts_are_not_changed(reranker: Reranker) -> None:
    """A list of texts is afterwards what it was."""
    texts = [*TEXTS, TEXTS[0]]
    await reranker.rerank(QUESTIONS[0], texts)
    assert texts == [*TEXTS, TEXTS[0]]


@clause("RR-10")
@pytest.mark.parametrize("text", BLANKS)
async def test_a_text_without_words_is_judged_or_refused(reranker: Reranker, text: str) -> None:
    """Alone, beside others, whose scores stay theirs, and as the question."""
    scores, spread = await judged(reranker)
    for batch in ([text], [TEXTS[1], text, TEXTS[0]]):
        try:
            answer = await reranker.rerank(QUESTIONS[0], batch)
        except RerankError:
            continue
        assert len(answer) == len(batch)
        assert all(map(math.isfinite, answer))
        assert len(batch) == 1 or same([answer[2], answer[0]], scores[:2], spread=spread)
    try:
        answer = await reranker.rerank(text, TEXTS)
    except RerankError:
        return
    assert len(answer) == len(TEXTS)
    assert all(map(math.isfinite, answer))


async def refusal(reranker: Reranker, question: str, texts: Sequence[str]) -> RerankError | None:
    """The error of a call that is refused."""
    try:
        await reranker.rerank(question, texts)
    except RerankError as error:
        return error
    return None


@clause("RR-11")
@pytest.mark.parametrize("text", BLANKS)
async def test_an_error_says_its_kind(reranker: Reranker, text: str) -> None:
    """A reranker that refuses a text without words says that the text is of no use, not that it may pass."""
    for question, texts in ((QUESTIONS[0], [text]), (QUESTIONS[0], [TEXTS[0], text]), (text, [TEXTS[0]])):
        error = await refusal(reranker, question, texts)
        if error is not None:
            assert error.kind in get_args(Trouble)
            assert error.kind == "invalid"
            assert str(error)


@clause("RR-20")
async def test_a_reranker_lives_in_its_context(place: Place) -> None:
    """Constructing it touches no file, and after leaving every call raises ClosedError."""
    async with AsyncExitStack() as stack:
        context = ProviderContext(
            "kit", config_folder=place.folder, data_folder=place.folder, resources=SharedResources(), stack=stack
        )
        manager = place.subject.construct(place.folder, context)
        assert list(place.folder.rglob("*")) == []
        async with manager as reranker:
            await judged(reranker)
    for texts in (TEXTS, ()):
        with pytest.raises(ClosedError):
            await reranker.rerank(QUESTIONS[0], texts)


@clause("RR-21")
async def test_many_tasks_have_their_own_answers(reranker: Reranker) -> None:
    """Calls that run at once are not mixed up, neither questions nor texts."""
    alone = [await judged(reranker, question) for question in QUESTIONS]
    calls = [reranker.rerank(QUESTIONS[n % 5], TEXTS[n % 3 :]) for n in range(30)]
    for number, answer in enumerate(await asyncio.gather(*calls)):
        scores, spread = alone[number % 5]
        assert same(answer, scores[number % 3 :], spread=spread)


@clause("RR-22")
async def test_a_cancelled_call_does_no_harm(reranker: Reranker) -> None:
    """After a cancellation the reranker answers as before."""
    scores, spread = await judged(reranker)
    for turns in (0, 1, 2, 5):
        task = asyncio.ensure_future(reranker.rerank(QUESTIONS[1], TEXTS * 20))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert same((await judged(reranker))[0], scores, spread=spread)
