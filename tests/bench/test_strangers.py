"""Whether memories of others change what is found, by the measures of eval_retrieval.py."""

from contextlib import ExitStack

import pytest

from memspine.blocking import MemoryManager

from .corpus import NO_DATA, conversations, memory_of
from .goals import KINDS, MEASURES
from .models import SHIPPED
from .stores import Layout, build, settings

STRANGERS = Layout({f"stranger {n}": 1_000 for n in range(150)})
WAYS = {"strangers": None, "strangers-hybrid": SHIPPED}


class System:
    """One conversation in the memory of one owner; with `has_turns` it is there already, and is embedded."""

    def __init__(self, memory, owner, *, has_turns):
        self.memory = memory
        self.owner = owner
        self.has_turns = has_turns

    def index(self, turns):
        """Store every turn, or give it a vector."""
        if self.has_turns:
            report = self.memory.reindex()
            assert report.complete, report.troubles
        else:
            new = [memory_of(turn) for turn in turns]
            self.memory.create_many(new, ids=[turn["id"] for turn in turns], owner=self.owner)

    def search(self, text, k):
        """The ids of the best memories."""
        return [hit.memory.id for hit in self.memory.search(text, limit=k, owner=self.owner, preview=True).hits]


@pytest.fixture(scope="module")
def crowded(workshop):
    """A store with 150 000 memories of others."""
    return build(workshop / "crowded.db", STRANGERS)


@pytest.mark.parametrize("kind", KINDS)
def test_strangers(bench, evaluation, workshop, request, without_shared, *, kind):
    """Words alone, and words with meaning, find the same when strangers share the store."""
    chosen = conversations(kind)
    if evaluation is None or chosen is None:
        bench.missing(*(f"{way}-{kind}" for way in WAYS), reason=NO_DATA)
        without_shared(NO_DATA)
    crowd = request.getfixturevalue("crowded")
    for way, embedding in WAYS.items():
        alone = evaluate(evaluation, chosen, lambda n: workshop / f"{kind}-{n}.db", embedding=embedding)
        among = evaluate(evaluation, chosen, lambda n: crowd, embedding=embedding)
        bench.record(
            f"{way}-{kind}",
            measured=among,
            baseline=" / ".join(map(str, alone)),
            shift=max(abs(one - other) for one, other in zip(alone, among, strict=True)),
        )


def evaluate(evaluation, chosen, place, *, embedding):
    """The measures, every conversation with the owner and the store of its number."""
    with ExitStack() as stack:
        count = iter(range(len(chosen)))

        def make():
            n = next(count)
            memory = stack.enter_context(MemoryManager(settings(place(n), embedding=embedding), background=True))
            return System(memory, f"{chosen[0]['memories'][0]['session']} {n}", has_turns=embedding is not None)

        result = evaluation.evaluate(chosen, make)
    return tuple(result["all"][name] for name in MEASURES)
