"""The page about denoisers says what the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from elbowroom.plugins.denoisers.dit import DiT
from elbowroom.plugins.denoisers.uvit import UViT
from elbowroom.plugins.diffusers.unet import UNet

PAGE = (Path(__file__).parents[2] / "docs" / "denoisers.md").read_text(encoding="utf-8")


def written(value):
    """A default as a config has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("network", [UViT, DiT, UNet])
def test_every_option_is_documented_with_its_default(network):
    """The tables name exactly the options of each network, in order, with their defaults."""
    section = PAGE.split(f"\n## `{network.__name__.lower()}`\n")[1].split("\n## ")[0]
    options = section.split("| preset |")[0]
    table = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", options, flags=re.MULTILINE)
    parameters = list(inspect.signature(network).parameters.values())[1:]
    assert table == [(p.name, written(p.default)) for p in parameters]


def test_the_example_runs():
    """The Python example on the page runs as it stands."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(example, "docs/denoisers.md", "exec"), {})
