"""The page about data says what is true."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import attrs
import pytest
from elbowroom.plugins import datasets, text as text_plugin
from elbowroom.plugins.datasets.shrink import Shrinkable

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text()


ALL = {**datasets.datasets(), **text_plugin.datasets()}


@pytest.mark.parametrize(("name", "place"), ALL.items())
def test_every_data_set_and_option_is_in_the_table(name: str, place: str):
    """The table has a row for each data set, with exactly its own options."""
    module, _, attribute = place.partition(":")
    kind = getattr(import_module(module), attribute)
    (row,) = re.findall(rf"^\| `{name}` \|.*$", PAGE, re.MULTILINE)
    listed = re.findall(r"`([\w-]+)`", row.rstrip("|").rpartition("|")[2])
    shared = {f.name for f in attrs.fields(Shrinkable)} if issubclass(kind, Shrinkable) else set()
    assert set(listed) == {f.name for f in attrs.fields(kind)} - shared
