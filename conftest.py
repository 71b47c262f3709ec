"""Fixtures shared by all tests."""

import pytest


@pytest.fixture(autouse=True)
def _away_from_the_users_files(tmp_path, monkeypatch):
    """No test reads or writes the configuration and the memories of whoever runs it."""
    monkeypatch.delenv("MEMSPINE_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "home" / name.lower()))
