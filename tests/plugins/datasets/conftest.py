"""Small real files of every format, and a cache of one's own for each test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """No test reads or writes the user's data and caches."""
    monkeypatch.setenv("ELBOWROOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ELBOWROOM_DATA", str(tmp_path / "data"))
