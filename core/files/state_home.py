"""Where what must last is kept between runs: unlike a cache, it cannot be made again."""

from __future__ import annotations

import os
from pathlib import Path


def state_home() -> Path:
    """``$ELBOWROOM_STATE``, or the user's usual folder for state."""
    if root := os.environ.get("ELBOWROOM_STATE"):
        return Path(root).expanduser()
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "elbowroom"
