"""Whether questions find their memories, through the manager and a store, by the measures of eval_retrieval.py."""

from contextlib import ExitStack

import pytest

from memspine.blocking import MemoryManager

from .corpus import NO_DATA, conversations, memory_of
from .stores import Layout, build, settings

STRANGERS = Layout({f"stranger {n}": 1_000 for n in range(150)})
MEASURES = ("any@5", "any@10", "all@10")


class System:
    """One conversation in the memory of one owner."""

    def __init__(self, memory, owner):
        self.memory = memory
        self.owner = owner

    def index(self, turns):
        """Store every turn."""
        new = [memory_of(turn) for turn in turns]
        self.memory.create_many(new, ids=[turn["id"] for turn in turns], owner=self.owner)

    def search(self, text, k):
        """The ids of the best memories."""
        return [hit.memory.id for hit in self.memory.search(text, limit=k, owner=self.owner).hits]


@pytest.fixture(scope="module")
def crowded(workshop):
    """A store with 150 000 memories of others."""
    return build(workshop / "crowded.db", STRANGERS)


@pytest.mark.parametrize("kind", ["short", "long"])
def test_quality(bench, evaluation, workshop, request, without_shared, *, kind):
    """The keyword leg finds what it should, and the same when strangers share the store."""
    chosen = conversations(kind)
    if evaluation is None or chosen is None:
        bench.missing(f"quality-{kind}", f"strangers-{kind}", reason=NO_DATA)
        without_shared(NO_DATA)
    crowd = request.getfixturevalue("crowded")
    alone = evaluate(evaluation, chosen, lambda n: workshop / f"{kind}-{n}.db")
    among = evaluate(evaluation, chosen, lambda n: crowd)
    beside = " · ".join(
        f"{name} {' / '.join(map(str, values))}"
        for name, values in (
            ("FTS5 bm25, OR", baseline(evaluation, chosen, stop=False)),
            ("without stop words", baseline(evaluation, chosen, stop=True)),
        )
    )
    bench.record(f"quality-{kind}", measured=alone, baseline=beside)
    bench.record(
        f"strangers-{kind}",
        measured=among,
        baseline=" / ".join(map(str, alone)),
        shift=max(abs(one - other) for one, other in zip(alone, among, strict=True)),
    )


def evaluate(evaluation, chosen, place):
    """The measures, every conversation with the owner and the store of its number."""
    with ExitStack() as stack:
        count = iter(range(len(chosen)))

        def make():
            n = next(count)
            memory = stack.enter_context(MemoryManager(settings(place(n)), background=False))
            return System(memory, f"{chosen[0]['memories'][0]['session']} {n}")

        return measures(evaluation.evaluate(chosen, make))


def baseline(evaluation, chosen, *, stop):
    """The measures of a baseline, whose databases are in memory and are closed with it."""
    made = []

    def make():
        made.append(evaluation.Fts(stop=stop))
        return made[-1]

    result = measures(evaluation.evaluate(chosen, make))
    for system in made:
        system.db.close()
    return result


def measures(result):
    return tuple(result["all"][name] for name in MEASURES)
