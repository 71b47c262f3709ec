"""What stands for the store in these tests."""

from __future__ import annotations

import pytest

from memspine.conformance.lexical.indexed import IndexedOpening
from memspine.conformance.subject import Opening, Place


@pytest.fixture
def store(place: Place) -> Opening:
    """The backend under test, or a backend whose keyword index the vector store under test keeps."""
    return Opening(place) if place.subject.contract == "backend" else IndexedOpening(place)
