"""The wheel, built from a copy of the tree: no build folder is left behind or reused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"core": "elbowroom", "plugins": "elbowroom/plugins", "contrib": "elbowroom/contrib"}
"""Folder of the repository -> folder of the wheel."""


def copy_sources(folder: Path) -> Path:
    """All that a build needs, in a new folder there."""
    source = folder / "source"
    source.mkdir()
    for name in (*FOLDERS, "pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    return source


def build_wheel(folder: Path) -> Path:
    """The path of a fresh wheel in ``folder``."""
    source = copy_sources(folder)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, source]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise RuntimeError(f"the wheel does not build:\n{built.stdout}\n{built.stderr}")
    (wheel,) = folder.glob("*.whl")
    return wheel
