"""What every injector does."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from memspine.conformance.clauses import clause
from memspine.conformance.injector.requests import (
    BLOCK,
    ODD_REQUESTS,
    OTHER_BLOCK,
    Sample,
    leaves,
    objects,
    occurrences,
    samples_for,
)
from memspine.conformance.subject import Place
from memspine.contracts import Injector

Case = tuple[Sample, Mapping[str, Any], dict[str, Any]]


def cases(place: Place, injector: Injector) -> Iterator[Case]:
    """Each sample with each of its options, and what injecting makes of it."""
    for sample in samples_for(injector, place.subject.settings.requests):
        for options in sample.options:
            yield sample, options, injector.inject(sample.request, BLOCK, options=options)


def words(text: str) -> str:
    """A text without regard to its blanks."""
    return " ".join(text.split())


@clause("IN-1")
async def test_nothing_handed_over_is_changed(place: Place, injector: Injector) -> None:
    """Request and options are afterwards what they were, whatever is called."""
    for sample, options, injected in cases(place, injector):
        for request in (sample.request, injected):
            before = copy.deepcopy((request, options))
            injector.query_text(request)
            injector.texts(request)
            injector.inject(request, BLOCK, options=options)
            injector.without(request, BLOCK)
            assert (request, options) == before


@clause("IN-2")
async def test_the_block_is_placed_once(place: Place, injector: Injector) -> None:
    """To the last character, in one place."""
    for sample, options, injected in cases(place, injector):
        assert occurrences(injected, BLOCK) == 1, (sample.request, options)


@clause("IN-3")
async def test_everything_else_is_kept(place: Place, injector: Injector) -> None:
    """Every field, known or not, and every text, in order."""
    for sample, _, injected in cases(place, injector):
        assert sample.request.keys() <= injected.keys()
        rest = leaves(injected)
        for leaf in leaves(sample.request):
            kept = (
                leaf in other if isinstance(leaf, str) and isinstance(other, str) else leaf == other for other in rest
            )
            assert any(kept), f"{leaf!r} is not there any more, or not in its place"
        untouched = [name for name in sample.request if occurrences({"": injected[name]}, BLOCK) == 0]
        assert {name: injected[name] for name in untouched} == {name: sample.request[name] for name in untouched}
        names = [set(one) for one in objects(injected)]
        assert all(any(set(one) <= other for other in names) for one in objects(sample.request))


@clause("IN-4")
async def test_the_same_gives_the_same(place: Place, injector: Injector) -> None:
    """Injecting again into an equal request gives an equal answer."""
    for sample, options, injected in cases(place, injector):
        assert injector.inject(copy.deepcopy(sample.request), BLOCK, options=options) == injected


@clause("IN-5")
async def test_the_answer_is_json(place: Place, injector: Injector) -> None:
    """It says the same after a round trip."""
    for sample, _, injected in cases(place, injector):
        for request in (injected, injector.without(injected, BLOCK), injector.without(sample.request, BLOCK)):
            assert json.loads(json.dumps(request)) == request


@clause("IN-6")
async def test_the_block_is_no_question(place: Place, injector: Injector) -> None:
    """Apart from the block itself, the user asks what they asked."""
    for sample, _, injected in cases(place, injector):
        asked = words(injector.query_text(injected).replace(BLOCK, ""))
        assert asked == words(injector.query_text(sample.request))


@clause("IN-7")
async def test_what_is_no_text_is_left_alone(place: Place, injector: Injector) -> None:
    """Images, tool calls and the like come out as they went in."""
    for sample, _, injected in cases(place, injector):
        kept = list(objects(injected))
        for part in objects(sample.request):
            if not any(
                name in part for name in ("text", "content", "messages", "parts", "contents", "input", "system")
            ):
                assert part in kept


@clause("IN-10")
async def test_the_question_is_the_users(place: Place, injector: Injector) -> None:
    """The last words of the user, and nobody else's."""
    for sample in samples_for(injector, place.subject.settings.requests):
        asked = words(injector.query_text(sample.request))
        assert words(sample.query) == asked
        assert [word for word in sample.foreign if word in asked] == []


@clause("IN-11")
async def test_no_words_are_no_question(place: Place, injector: Injector) -> None:
    """Where the user says nothing, nothing is asked."""
    silent = [sample for sample in samples_for(injector, place.subject.settings.requests) if not sample.query]
    assert silent, "the requests hold none in which the user says nothing"
    for request in (*(sample.request for sample in silent), {}, {"messages": []}, {"messages": None}):
        assert injector.query_text(request) == ""


@clause("IN-12")
async def test_texts_show_the_block(place: Place, injector: Injector) -> None:
    """The injected block stands in one of the texts, and they are in the order of the request."""
    for _, _, injected in cases(place, injector):
        shown = injector.texts(injected)
        assert sum(text.count(BLOCK) for text in shown) == 1
        rest = leaves(injected)
        assert all(any(text == leaf for leaf in rest) for text in shown)


@clause("IN-20")
async def test_taking_out_undoes_placing(place: Place, injector: Injector) -> None:
    """The request is equal to the one before."""
    for sample, _, injected in cases(place, injector):
        assert injector.without(injected, BLOCK) == sample.request


@clause("IN-21")
async def test_every_occurrence_is_taken_out(place: Place, injector: Injector) -> None:
    """Also of several, and only of this block."""
    for sample, options, injected in cases(place, injector):
        twice = injector.inject(injected, BLOCK, options=options)
        assert occurrences(twice, BLOCK) == 2
        assert injector.without(twice, BLOCK) == sample.request
        both = injector.inject(injected, OTHER_BLOCK, options=options)
        assert injector.without(both, BLOCK) == injector.inject(sample.request, OTHER_BLOCK, options=options)
        assert injector.without(sample.request, BLOCK) == sample.request


@clause("IN-30")
async def test_odd_requests_do_no_harm(injector: Injector) -> None:
    """Nothing raises; what cannot carry a block comes back equal."""
    for request in ODD_REQUESTS:
        before = copy.deepcopy(request)
        injected = injector.inject(request, BLOCK, options={})
        assert isinstance(injector.query_text(request), str)
        assert all(isinstance(text, str) for text in injector.texts(request))
        assert injector.without(request, BLOCK) == request == before
        assert occurrences(injected, BLOCK) <= 1
        if not occurrences(injected, BLOCK):
            assert injected == request


@clause("IN-31")
async def test_an_injector_says_what_it_takes(injector: Injector) -> None:
    """It has a name, and names its shape."""
    assert injector.name
    assert injector.shape
