"""Core knows no component and no plugin by name: what a name means, the registry says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from elbowroom.registry.components import OURS, installed
from elbowroom.registry.kinds import KINDS

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core"

MEANT_OTHERWISE = {
    ("config/messages.py", "text"): "what a str is called in messages",
    ("registry/component.py", "reference"): "a module of the registry",
    ("registry/plugin.py", "diffusers"): "the library, which no plugin should import to be listed",
    ("registry/plugin.py", "torchmetrics"): "another such library",
    ("contracts/dataset.py", "train"): "a split of the data",
    ("runs/load.py", "train"): "the section whose averages a checkpoint holds",
    ("contracts/observer.py", "training"): "a phase of a run",
    ("runs/folder.py", "training"): "a word of a message",
}
"""Texts that are the name of something else, too."""

DEFAULTS = {
    ("config/sections.py", "elbo"),
    ("config/sections.py", "stratified"),
    ("config/sections.py", "batch"),
    ("config/sections.py", "shared"),
}
"""The defaults of a config."""


def names() -> set[str]:
    """Of our components and plugins; a kind's own words (``weighting``) are everybody's."""
    found = installed()
    components = (c for kind in KINDS for c in found.components(kind).values())
    ours = {c.name for c in components if c.owner.distribution == OURS}
    ours |= {plugin.name for plugin in found.plugins if plugin.distribution == OURS}
    return ours - set(KINDS) - {kind.hook for kind in KINDS.values()}


def texts(path: Path) -> Iterator[tuple[str, int]]:
    """Every text in a module and its line, docstrings aside."""
    tree = ast.parse(path.read_text())
    words = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in words:
            yield node.value, node.lineno


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda p: str(p.relative_to(CORE)))
def test_core_names_no_component_and_no_plugin(path):
    """But for the defaults of a config."""
    known, place = names(), path.relative_to(CORE).as_posix()
    for text, line in texts(path):
        fine = {*MEANT_OTHERWISE, *DEFAULTS}
        assert text not in known or (place, text) in fine, f"core/{place}:{line} names {text!r}"
