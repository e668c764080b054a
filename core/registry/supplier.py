"""The name and supplier of a built component, for messages."""

from __future__ import annotations

import sys
from typing import Any

from .components import Component, installed
from .reference import name_of, owner_of


def component_label(kind: str, component: object) -> str:
    """``weighting 'min-snr' of elbowroom-min-snr 1.0.0``, or its class and file."""
    cls = type(component)
    for name, known in installed().components(kind).items():
        if _is(known, cls):
            return f"{_words(kind)} {name!r} of {known.owner}"
    module = sys.modules.get(cls.__module__)
    owner = "" if module is None else f" of {owner_of(module)}"
    return f"{_words(kind)} {name_of(cls).rpartition(':')[2]}{owner}"


def _is(known: Component, cls: type[Any]) -> bool:
    if isinstance(known.target, str):
        return known.target == f"{cls.__module__}:{cls.__qualname__}"
    return known.target is cls


def _words(kind: str) -> str:
    return {"dataset": "data set"}.get(kind, kind.replace("_", " "))
