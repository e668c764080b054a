"""Text: the characters of a file or a folder, or the pieces a tokenizer makes of them."""

from __future__ import annotations

from collections.abc import Mapping

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.text"


@hookimpl
def datasets() -> Mapping[str, str]:
    """Name -> class, loaded when a config asks for it."""
    return {"text": f"{_HERE}.dataset:Text"}


@hookimpl
def presets() -> dict[str, str]:
    """Configs shipped as package data."""
    return {"text": f"{_HERE}:presets/text.yaml"}
