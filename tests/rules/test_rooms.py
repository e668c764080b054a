"""The rooms of core: a module imports from its own room and from earlier ones only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core"
ROOMS = (
    "errors",
    "files",
    "randomness",
    "contracts",
    "objective",
    "registry",
    "config",
    "runs",
    "api",
    "cli",
)


def room_of(path: Path) -> str:
    return path.relative_to(CORE).with_suffix("").parts[0]


def modules() -> list[Path]:
    return [path for path in sorted(CORE.rglob("*.py")) if room_of(path) in ROOMS]


def imported_rooms(path: Path) -> list[tuple[str, int]]:
    """(room, line) of every import of core, inside functions too; not under TYPE_CHECKING."""
    found: list[tuple[str, int]] = []
    package = ["elbowroom", *path.relative_to(CORE).parts[:-1]]
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        todo += ast.iter_child_nodes(node)
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            names = (
                [source] if source != "elbowroom" else [f"{source}.{a.name}" for a in node.names]
            )
        for name in names:
            parts = name.split(".")
            if parts[0] == "elbowroom" and len(parts) > 1:
                found.append((parts[1], node.lineno))  # type: ignore[attr-defined]
    return found


def test_the_root_of_core_has_four_files():
    """Everything else is in a room."""
    files = {path.name for path in CORE.glob("*.py")}
    assert files == {"__init__.py", "__main__.py", "api.py", "errors.py"}


def test_every_folder_of_core_is_a_room():
    folders = {path.name for path in CORE.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert folders <= set(ROOMS)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(CORE)))
def test_a_module_imports_from_its_own_room_and_earlier_ones(path):
    own = room_of(path)
    for room, line in imported_rooms(path):
        assert room in ROOMS, f"{path.relative_to(ROOT)}:{line} imports {room}, which is no room"
        assert ROOMS.index(room) <= ROOMS.index(own), (
            f"{path.relative_to(ROOT)}:{line}: {own} comes before {room}"
        )
