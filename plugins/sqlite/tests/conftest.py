import math

import pytest

from memspine_sqlite import postings


@pytest.fixture(params=["dictionaries", "arrays"])
def lists(request, monkeypatch):
    """The kinds of posting lists, one after the other, however long they are."""
    if request.param == "arrays":
        pytest.importorskip("numpy")
    monkeypatch.setattr(postings, "_SHORT", math.inf if request.param == "dictionaries" else -1)
