"""What the docs say is somewhere, is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.rules.test_rooms import ROOMS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
FOLDERS = ("core", "plugins", "contrib", "tests", "docs")
PLACE = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./+-]*)(?::([A-Za-z_][\w.]*))?`")
MAY_IMPORT = (
    "elbowroom.plugins.conformance",
    "elbowroom.cli",
    "elbowroom.plugins",
    "elbowroom.contrib",
    "elbowroom.registry",
    "elbowroom.runs",
)


def title(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def places(page: Path) -> list[tuple[str, str]]:
    """(path, name in it or nothing) of everything a page writes as a place in the tree."""
    found = PLACE.findall(page.read_text("utf-8"))
    return [(path, name) for path, name in found if "KIND" not in path and "VERSION" not in path]


def names_in(file: Path) -> set[str]:
    """Functions, classes, their members, and variables: ``Training.step``."""
    return set(_names(ast.parse(file.read_text("utf-8")).body, ""))


def _names(body: list[ast.stmt], before: str):
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield before + node.name
        if isinstance(node, ast.ClassDef):
            yield from _names(node.body, f"{before}{node.name}.")
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (before + one.id for one in targets if isinstance(one, ast.Name))


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_places_in_the_tree_are_there(page):
    """Each file or folder exists, and the file has the name that stands after it."""
    for path, name in places(page):
        assert (ROOT / path).exists(), f"{title(page)} speaks of {path}"
        assert not name or name in names_in(ROOT / path), f"{title(page)}: no {name} in {path}"


def test_the_architecture_is_checked():
    """Its walks are made of such places."""
    assert sum(bool(name) for _, name in places(ROOT / "docs" / "architecture.md")) > 30


def test_the_tree_has_every_room():
    """The page's tree is that of core, file and folder, in the rooms' order."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    tree = re.search(r"^core/ .*?(?=^plugins/)", page, flags=re.DOTALL | re.MULTILINE)
    assert tree is not None
    shown = re.findall(r"^  (\w+)(?:/|\.pyi?) ", tree[0], flags=re.MULTILINE)
    folders = [room for room in ROOMS if room not in ("api", "errors")]
    assert [name for name in shown if name in folders] == folders
    assert set(shown) == {*ROOMS, "__init__"}


def imported(source: str) -> set[str]:
    """The modules that lines of Python import from, prompts and dots of a session aside."""
    return set(re.findall(r"^\s*(?:>>> )?(?:from|import) (elbowroom[\w.]*)", source, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_examples_import_public_names(page):
    """Code to be copied uses what will not move."""
    blocks = re.findall(r"^```py\w*\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    for name in imported("\n".join(blocks)):
        assert name == "elbowroom" or name.startswith(MAY_IMPORT), f"{title(page)}: {name}"
