"""The page on sampling says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
from elbowroom.contracts.sampler import Sampler
from elbowroom.plugins.conformance import check_sampler
from elbowroom.plugins.diffusers import samplers as of_diffusers
from elbowroom.plugins.samplers import samplers
from elbowroom.registry.component import import_target

PAGE = (Path(__file__).parents[2] / "docs" / "sampling.md").read_text("utf-8")
COMMON = {field.name for field in attrs.fields(Sampler)}


def test_every_sampler_is_listed_with_its_options():
    """The table names each sampler and exactly the options it adds."""
    for name, target in {**samplers(), **of_diffusers()}.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
        fields = [f for f in attrs.fields(import_target(target)) if f.init]
        added = {f.name for f in fields} - COMMON
        last = row.split("|")[-2].split("no `grid`")[0]
        assert set(re.findall(r"`(\w+)`", last)) == added, name
        assert ("no `grid`" in row) == ("grid" not in {f.name for f in fields})


def test_the_example_of_a_sampler_is_one():
    """The sampler written on the page works as it stands."""
    code = PAGE.split("```python")[-1].split("```")[0]
    names: dict = {}
    exec(code, names)
    check_sampler(names["Euler"](256))
