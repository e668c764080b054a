"""The setuptools command of ``pip install -e .``, named in pyproject.toml and in no wheel.

setuptools writes an import hook that maps ``elbowroom`` to core/, plugins/ and contrib/. Type
checkers do not run it, and Python calls it last, so in a folder with a clone called ``elbowroom``
the clone is imported as an empty namespace package. A .pth file therefore adds the folder
``build/editable`` to the path, with

    elbowroom/__init__.py   loads core/__init__.py; a package takes precedence over a namespace
    elbowroom-stubs/        links to the sources, which type checkers read (PEP 561)

New folders of core/ are visible to type checkers after ``pip install -e .``.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).parents[2]
EDITABLE = ROOT / "build" / "editable"
LOADER = """\
import sys
from importlib.util import module_from_spec, spec_from_file_location

spec = spec_from_file_location(__name__, {path!r})
sys.modules[__name__] = module = module_from_spec(spec)
spec.loader.exec_module(module)
"""


def write_package() -> None:
    """Write the package that loads core/."""
    package = EDITABLE / "elbowroom"
    package.mkdir(parents=True, exist_ok=True)
    text = LOADER.format(path=str(ROOT / "core" / "__init__.py"))
    (package / "__init__.py").write_text(text, encoding="utf-8")


def link_sources() -> None:
    """Make the links; systems without links (some Windows) have no stub package."""
    stubs = EDITABLE / "elbowroom-stubs"
    shutil.rmtree(stubs, ignore_errors=True)
    stubs.mkdir(parents=True)
    try:
        for path in (*(ROOT / "core").iterdir(), ROOT / "plugins", ROOT / "contrib"):
            if path.is_dir() and (path / "__init__.py").exists():
                (stubs / path.name).symlink_to(path, target_is_directory=True)
            elif path.suffix in {".py", ".pyi"}:
                (stubs / path.name).symlink_to(path)
    except OSError:
        shutil.rmtree(stubs, ignore_errors=True)


class WithFolder:
    """setuptools' strategy, and the folder ``build/editable``."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual

    def __call__(self, wheel: Any, files: list[str], mapping: Any) -> None:
        self.usual(wheel, files, mapping)
        write_package()
        link_sources()
        wheel.writestr("__editable__.elbowroom-folder.pth", f"{EDITABLE}\n")

    def __enter__(self) -> WithFolder:
        self.usual.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.usual.__exit__(kind, error, where)


class EditableWheel(editable_wheel):  # type: ignore[misc]  # setuptools has no types
    """The command of ``pip install -e .``."""

    def _select_strategy(self, *arguments: Any, **options: Any) -> Any:
        return WithFolder(super()._select_strategy(*arguments, **options))
