import pytest

from .services import serving


@pytest.fixture(scope="session")
def plain():
    """A service that speaks nothing but the plain protocol, and keeps the fields it is given."""
    with serving("plain") as service:
        yield service


@pytest.fixture(scope="session")
def forgetful():
    """A service with ids and times of its own, which tells no revisions."""
    with serving("forgetful") as service:
        yield service


@pytest.fixture(scope="session")
def capable():
    """A service that can do everything."""
    with serving("capable") as service:
        yield service
