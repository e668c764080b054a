"""Where type checkers find an editable install: setuptools' command, as pyproject.toml names it.

``pip install -e .`` leads Python to core/, plugins/ and contrib/ by a finder, which is code and no
type checker runs it. What they do read are stub packages (PEP 561). So beside the finder goes a
file that names the folder ``build/typed``, in which ``elbowroom-stubs`` is made of links to the
sources themselves. Python cannot import a name with a hyphen: nothing changes for it. Files that
are new are seen at once, new folders of core/ with the next ``pip install -e .``.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).parents[1]
TYPED = ROOT / "build" / "typed"


def link_sources() -> None:
    """Make ``elbowroom-stubs`` anew; without links (on some Windows) there is none."""
    stubs = TYPED / "elbowroom-stubs"
    shutil.rmtree(stubs, ignore_errors=True)
    stubs.mkdir(parents=True)
    for path in (*(ROOT / "core").iterdir(), ROOT / "plugins", ROOT / "contrib"):
        if path.is_dir() and (path / "__init__.py").exists():
            (stubs / path.name).symlink_to(path, target_is_directory=True)
        elif path.suffix == ".py":
            (stubs / path.name).symlink_to(path)
    (stubs / "__init__.pyi").symlink_to(ROOT / "core" / "__init__.py")  # what makes it a package


class WithTypes:
    """setuptools' own way to lead Python to the sources, and the file for type checkers."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual

    def __call__(self, wheel: Any, files: list[str], mapping: Any) -> None:
        self.usual(wheel, files, mapping)
        try:
            link_sources()
        except OSError:
            return
        wheel.writestr("__editable__.elbowroom-types.pth", f"{TYPED}\n")

    def __enter__(self) -> WithTypes:
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
    """The command behind ``pip install -e .``."""

    def _select_strategy(self, *arguments: Any, **options: Any) -> Any:
        return WithTypes(super()._select_strategy(*arguments, **options))
