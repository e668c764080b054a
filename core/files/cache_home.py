"""The folder of caches."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$ELBOWROOM_CACHE``, or the user's cache folder."""
    if root := os.environ.get("ELBOWROOM_CACHE"):
        return Path(root).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "elbowroom"
