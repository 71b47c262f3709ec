"""A pytest plugin that skips what it must not: the kit has to notice."""

import pytest

from memspine.conformance.clauses import cited_clauses


def pytest_collection_modifyitems(items):
    for item in items:
        if "MB-10" in cited_clauses(item.function):
            item.add_marker(pytest.mark.skip(reason="not today"))
