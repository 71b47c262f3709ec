"""Fixtures shared by all tests."""

import os
import signal
from typing import NoReturn

import pytest


def pytest_configure():
    """Interruptions reach the commands that tests start, also where a shell has its background jobs ignore them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _away_from_the_users_files(tmp_path, monkeypatch):
    """No test reads or writes the configuration and the memories of whoever runs it."""
    monkeypatch.delenv("MEMSPINE_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "home" / name.lower()))


@pytest.fixture(scope="session")
def without_shared():
    """What a test calls that lacks a file of ../shared: it is skipped, but fails in CI, where that would hide it."""

    def without_shared(reason: str) -> NoReturn:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}; in CI nothing is skipped for that", pytrace=False)
        pytest.skip(reason)

    return without_shared
