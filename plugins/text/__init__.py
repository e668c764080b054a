"""Text: characters of a file or folder, or tokens of a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.text"


@hookimpl
def datasets() -> Mapping[str, str]:
    """The data set ``text``."""
    return {"text": f"{_HERE}.dataset:Text"}


@hookimpl
def presets() -> dict[str, str]:
    """The preset ``text``."""
    return {"text": f"{_HERE}:presets/text.yaml"}
