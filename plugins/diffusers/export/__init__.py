"""Export to diffusers: a folder that ``from_pretrained`` loads, and the classes that load it."""

from __future__ import annotations

from typing import Any

from elbowroom.errors import require_package

_HOMES = {
    "ElbowroomModel": "model",
    "ElbowroomPipeline": "pipeline",
    "ElbowroomScheduler": "scheduler",
}


def __getattr__(name: str) -> Any:
    """Import the classes lazily: importing diffusers takes seconds."""
    if name in _HOMES:
        from importlib import import_module

        require_package("diffusers", name, "diffusers")
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
