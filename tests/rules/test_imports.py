"""Who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE_MAY_IMPORT = {
    *("torch", "attrs", "pluggy", "yaml", "safetensors", "rich", "typer", "numpy", "lazy_loader"),
}
FOUNDATION = {
    *(
        "conformance",
        "console",
        "evaluation",
        "export",
        "launchers",
        "paper",
        "sampling",
        "training",
    ),
}
"""Plugins that define kinds or do the work of a run: others may build on them."""
LAZY_ONLY = {
    "scipy",
    "sklearn",
    "matplotlib",
    "torchmetrics",
    "diffusers",
    "xformers",
    "tensorboard",
    "PIL",
}
STANDARD = set(sys.stdlib_module_names) | {"typing_extensions"}


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path, *, top_level: bool) -> list[tuple[str, int]]:
    """(absolute module, line) of every import; relative ones as elbowroom.…"""
    tree = ast.parse(path.read_text())
    nodes = _eager(tree) if top_level else list(ast.walk(tree))
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is None:  # from . import a, b
            package = _absolute(path, node)
            found += [(f"{package}.{alias.name}", node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((_absolute(path, node), node.lineno))
    return found


def _eager(tree: ast.Module) -> list[ast.AST]:
    """What runs on import: not inside functions, not under TYPE_CHECKING."""
    found: list[ast.AST] = []
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        found.append(node)
        todo += list(ast.iter_child_nodes(node))
    return found


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    package = ["elbowroom", *(package[1:] if package[0] == "core" else package)]
    package = package[: len(package) - (node.level - 1)]
    return ".".join([*package, node.module] if node.module else package)


@pytest.mark.parametrize("path", modules("core"), ids=lambda p: str(p.relative_to(ROOT)))
def test_core_imports_its_few_libraries_and_itself(path):
    """Core never imports a plugin or contrib, and heavy libraries only inside functions."""
    for name, line in imports(path, top_level=False):
        assert not name.startswith(("elbowroom.plugins", "elbowroom.contrib")), f"{path}:{line}"
        top = name.split(".")[0]
        assert top in CORE_MAY_IMPORT | LAZY_ONLY | STANDARD | {"elbowroom"}, (
            f"{path}:{line} {name}"
        )
    for name, line in imports(path, top_level=True):
        assert name.split(".")[0] not in LAZY_ONLY, f"{path}:{line} imports {name} at once"


@pytest.mark.parametrize("path", modules("plugins"), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_plugin_imports_elbowroom_and_its_own_folder(path):
    """A plugin imports its own folder and the plugins that others build on, never contrib."""
    own = path.relative_to(ROOT).parts[1]
    for name, line in imports(path, top_level=False):
        assert not name.startswith("elbowroom.contrib"), f"{path}:{line}"
        if name.startswith("elbowroom.plugins."):
            assert name.split(".")[2] in {own, *FOUNDATION}, f"{path}:{line} imports {name}"


ROOMS = ("cli", "config", "contracts", "files", "objective", "randomness", "registry", "runs")
PUBLIC = {"elbowroom", "elbowroom.api", "elbowroom.errors", *(f"elbowroom.{r}" for r in ROOMS)}
ONES_OWN = ("elbowroom.plugins.", "elbowroom.contrib.")


@pytest.mark.parametrize(
    "path", modules("plugins") + modules("contrib"), ids=lambda p: str(p.relative_to(ROOT))
)
def test_plugins_import_public_names_only(path):
    """What an author needs is public, or it is not needed: ours use nothing that others cannot."""
    for name, line in imports(path, top_level=False):
        if name.split(".")[0] == "elbowroom" and not name.startswith(ONES_OWN):
            assert name in PUBLIC, f"{path}:{line} imports {name}"


@pytest.mark.parametrize("folder", ["core", "plugins"])
def test_nothing_imports_contrib(folder):
    """contrib is opt-in."""
    for path in modules(folder):
        for name, line in imports(path, top_level=False):
            assert "contrib" not in name.split("."), f"{path}:{line}"


def test_xformers_is_imported_in_one_file_only():
    """One file knows xformers, and imports it lazily."""
    files = {
        path
        for folder in ("core", "plugins", "contrib")
        for path in modules(folder)
        if any(name.split(".")[0] == "xformers" for name, _ in imports(path, top_level=False))
    }
    assert len(files) <= 1
    for path in files:
        assert not any(n.split(".")[0] == "xformers" for n, _ in imports(path, top_level=True))


def test_core_has_no_circle():
    """Following what runs on import, no core module leads back to itself."""
    graph = {}
    for path in modules("core"):
        parts = path.relative_to(ROOT / "core").with_suffix("").parts
        name = ".".join(["elbowroom", *(parts[:-1] if parts[-1] == "__init__" else parts)])
        graph[name] = {target for target, _ in imports(path, top_level=True)}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail, name])
        if name in done or name not in graph:
            return
        for target in graph[name]:
            if target != name and target != "elbowroom":
                visit(target, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_importing_elbowroom_and_listing_plugins_does_not_import_torch():
    """The package, its contracts and every plugin's hooks load without torch."""
    code = (
        "import sys, elbowroom\n"
        "from elbowroom import Weighting, Schedule, Process, Sampler, TimeSampler, hookimpl\n"
        "from elbowroom.registry.components import installed\n"
        "installed()\n"
        "heavy = {'torch', 'numpy', 'diffusers', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_file_switches_on_the_kind_of_process():
    """Components are chosen by object: nobody asks which process or weighting it is by name."""
    for folder in ("core", "plugins"):
        for path in modules(folder):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                    asked = ast.dump(node.args[1])
                    assert "Masked" not in asked and "'Gaussian'" not in asked, path
