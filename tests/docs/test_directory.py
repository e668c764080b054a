"""The directory of plugins lists what there is, and what it lists keeps the laws of its kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from elbowroom.plugins import conformance
from elbowroom.registry.component import import_target
from elbowroom.registry.components import OURS, installed
from elbowroom.registry.kinds import KINDS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "directory.md").read_text("utf-8")
OBSERVER = "observer"  # of plugins that register nothing

CHECKS: dict[str, Callable[[Any], object]] = {
    "weighting": lambda cls: conformance.check_weighting(cls()),
    "schedule": lambda cls: conformance.check_schedule(cls()),
    "time_sampler": lambda cls: conformance.check_time_sampler(cls()),
    "rate_schedule": lambda cls: conformance.check_rate_schedule(cls()),
    "normaliser": lambda cls: conformance.check_normaliser(cls()),
    "process": lambda cls: conformance.check_process(cls()),
    "sampler": lambda cls: conformance.check_sampler(cls()),
    "command": conformance.check_command,
}
"""Kind -> the laws of a component as it is without options; a new kind of package adds a line."""


def rows(heading: str) -> dict[str, set[str]]:
    """Name -> what it brings, of the table below a heading."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| \[?`([\w-]+)`(?:\]\([^)]*\))? \| ([\w, ]+) \|", section, re.MULTILINE)
    return {name: set(kinds.split(", ")) for name, kinds in found}


def test_every_plugin_of_ours_is_listed_with_what_it_brings():
    """No more and no fewer, and the kinds are those it registers."""
    ours = [plugin for plugin in installed().plugins if plugin.distribution == OURS]
    assert rows("With elbowroom") == {p.name: set(p.registers) or {OBSERVER} for p in ours}


def test_every_example_is_in_the_directory():
    """A package in docs/examples is one that people may find."""
    assert set(rows("Packages")) == {path.name for path in (DOCS / "examples").iterdir()}


def components(package: str) -> Iterator[tuple[str, str, Any]]:
    """(kind, name, component) of a package in docs/examples."""
    metadata = (DOCS / "examples" / package / "pyproject.toml").read_text("utf-8")
    announced = metadata.partition("[project.entry-points.elbowroom]\n")[2].partition("\n[")[0]
    for module in re.findall(r'^[\w-]+ = "([\w.]+)"$', announced, re.MULTILINE):
        plugin = import_module(module)
        for kind in KINDS.values():
            named = getattr(plugin, kind.hook, dict)()
            for name, place in named.items():
                target = import_target(place) if isinstance(place, str) else place
                yield kind.name, name, target


@pytest.mark.parametrize("package", rows("Packages"))
def test_a_listed_package_keeps_the_laws(package, monkeypatch):
    """Each component of the kinds the page says, and of no other."""
    monkeypatch.syspath_prepend(str(DOCS / "examples" / package))
    found = list(components(package))
    assert {kind for kind, _, _ in found} == rows("Packages")[package]
    for kind, name, component in found:
        assert kind in CHECKS, f"say in CHECKS how the {kind} {name} of {package} is checked"
        CHECKS[kind](component)
