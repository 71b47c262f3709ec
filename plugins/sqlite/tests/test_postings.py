import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine.contracts import VectorHit
from memspine.model import KeywordMatch, KeywordStatistics, Neighbour
from memspine_sqlite import bulk
from memspine_sqlite.postings import DictPostings

from .tools import START

# Numbers of rows that lie side by side, and some that lie so far apart that no array could go from one to the other.
rows = st.one_of(st.integers(1, 60), st.sampled_from([10**6, 10**9, 10**12, 2**54]))
documents = st.dictionaries(rows, st.integers(0, 255), max_size=30).map(
    lambda codes: [r << 8 | n for r, n in codes.items()]
)


@st.composite
def questions(draw):
    """The texts of the lists of some terms of two owners, all their documents, and those that are dead."""
    every = draw(documents)
    mine, other = every[::2], every[1::2]
    texts = []
    for _ in range(draw(st.integers(0, 5))):
        alike = []
        for owned in (mine, other):
            held = draw(st.lists(st.sampled_from(owned), max_size=12)) if owned else []
            alike.append(json.dumps(sorted(held), separators=(",", ":")))
        texts.append(alike)
    dead = draw(st.sets(st.sampled_from(every), max_size=3)) if every else set()
    return texts, every, dead


@given(questions(), st.integers(0, 12), st.data())
def test_both_kinds_of_lists_say_the_same(question, limit, data):
    """Lists as dictionaries and as arrays give the same documents, numbers and scores, to the last bit."""
    arrays = pytest.importorskip("memspine_sqlite.arrays", exc_type=ImportError)
    texts, every, dead = question
    one, other = DictPostings.of(texts, dead=dead), arrays.ArrayPostings.of(texts, dead=dead)
    allowed = data.draw(st.sets(st.sampled_from(every))) if every else set()
    statistics = KeywordStatistics(
        documents=len(every) + 3, total_length=0, document_frequencies=one.document_frequencies
    )
    for left, right in ((one, other), (one.within(allowed), other.within(allowed))):
        assert left.document_frequencies == right.document_frequencies
        assert set(left.documents) == set(right.documents)
        assert len(left.documents) == len(right.documents)
        assert left.best(statistics, limit=limit) == right.best(statistics, limit=limit)
        assert list(left.frequencies([*every, 5])) == list(right.frequencies([*every, 5]))


@pytest.mark.parametrize("kind", [KeywordMatch, Neighbour, VectorHit])
def test_values_made_at_once_are_those_made_one_by_one(kind):
    """A value that was made with others is equal to one that was made alone, has its hash and cannot be changed."""
    fields = [field.name for field in attrs.fields(kind)]
    columns = {name: [(START, name, number) for number in range(3)] for name in fields}
    made = bulk.made(kind, 3, **columns)
    alone = [kind(**{name: columns[name][number] for name in fields}) for number in range(3)]
    assert made == alone
    assert list(map(hash, made)) == list(map(hash, alone))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(made[0], fields[0], None)
