"""Fixtures of the tests that start processes."""

import pytest

from .parts import Place


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the watching plugin."""
    return Place.made(tmp_path, monkeypatch)
