"""The fixtures of the kit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memspine.conformance.options import CONTRACTS
from memspine.conformance.session import KitSession
from memspine.conformance.subject import Opening, Place

if TYPE_CHECKING:
    from memspine.conformance.importer.samples import Product


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Without a contract there is nothing to prove, which must not look like success."""
    if not config.getoption("--memspine-contract"):
        raise pytest.UsageError(f"name what to prove: --memspine-contract {' | '.join(CONTRACTS)}")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A fresh folder to open the plugin under test in."""
    kit = request.config.pluginmanager.get_plugin("memspine-kit")
    assert isinstance(kit, KitSession)
    folder = tmp_path / "store"
    folder.mkdir()
    return Place(kit.subject, folder)


@pytest.fixture
def store(place: Place) -> Opening:
    """The backend or vector store under test, opened while the test runs."""
    return Opening(place)


@pytest.fixture
def source(place: Place) -> Opening:
    """The embedding source under test, opened while the test runs."""
    return Opening(place)


@pytest.fixture
def reranker(place: Place) -> Opening:
    """The reranker under test, opened while the test runs."""
    return Opening(place)


@pytest.fixture
def injector(place: Place) -> Opening:
    """The injector under test, opened while the test runs."""
    return Opening(place)


@pytest.fixture
def product(place: Place) -> Product:
    """The importer under test, with exports of its product."""
    from memspine.conformance.importer.samples import Product

    return Product.of(place)


@pytest.fixture
def crowd(request: pytest.FixtureRequest) -> int:
    """How many memories of strangers the clause about crowds adds."""
    return int(request.config.getoption("--memspine-crowd"))
