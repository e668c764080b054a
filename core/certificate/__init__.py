"""The certificate: is a weighting a variational bound, and how far is it one if not?"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:  # of the module that had this name before it became a room
    from elbowroom.registry.moved import from_room

    return from_room(__name__, name)
