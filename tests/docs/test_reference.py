"""The generated reference has every public name, once."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path

import elbowroom as er
from elbowroom.registry.kinds import KINDS

from tests.rules.test_rooms import ROOMS

SITE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "site" / "reference.py"))


def names(page: str) -> list[str]:
    return re.findall(r"^        - (\w+)$", page, flags=re.MULTILINE)


def test_every_room_has_a_page():
    """In the rooms' order but for the verbs, which come first, and each with a text of its own."""
    assert set(ROOMS) <= set(SITE["TITLES"])
    assert all(names(SITE["public_names"](room)) for room in SITE["TITLES"])


def test_every_public_name_is_on_one_page():
    """A contract's page, or that of its room."""
    pages = [SITE["contract"](kind) for kind in KINDS.values()]
    pages += [SITE["public_names"](room) for room in SITE["TITLES"] if room != "cli"]
    shown = Counter(name for page in pages for name in names(page))
    assert all(shown[name] == 1 for name in er.__all__), [n for n in er.__all__ if shown[n] != 1]


def test_a_contracts_page_begins_with_the_contract():
    """Its page says who supplies such components, too."""
    for kind in KINDS.values():
        page = SITE["contract"](kind)
        assert names(page)[0] == kind.contract.rpartition(":")[2]
        assert f"hook `{kind.hook}`" in page


def test_every_command_has_its_place():
    """Those of plugins too, with their options."""
    page = SITE["commands"]()
    for name in ("train", "sample", "plugins", *er.installed().commands()):
        assert f"## `elbowroom {name}`" in page
    assert "| `--resume` |" in page
