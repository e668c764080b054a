"""The wheel: whole, typed, announced."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"core": "elbowroom", "plugins": "elbowroom/plugins", "contrib": "elbowroom/contrib"}
NOT_SHIPPED = {".pyc"}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel built from a copy of the tree (so that no build folder is left behind)."""
    import shutil

    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in (*FOLDERS, "pyproject.toml", "README.md", "LICENSE"):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", out, source]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-2000:]
    return next(out.glob("*.whl"))


def test_the_wheel_contains_every_file_of_the_package(wheel):
    """Each module and data file of core, plugins and contrib is in the wheel."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    for folder, target in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix not in NOT_SHIPPED:
                name = f"{target}/{path.relative_to(ROOT / folder).as_posix()}"
                assert name in inside, f"{name} is missing from the wheel"


def test_the_wheel_contains_nothing_else(wheel):
    """Tests and docs are not installed."""
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"elbowroom"}


def test_the_wheel_is_typed_and_licensed(wheel):
    """py.typed, the licence and the extras are there."""
    archive = zipfile.ZipFile(wheel)
    assert "elbowroom/py.typed" in archive.namelist()
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    described = email.message_from_bytes(archive.read(name))
    assert described["License-Expression"] == "Apache-2.0"
    assert {"xformers", "hf", "fid", "docs", "dev"} <= set(described.get_all("Provides-Extra"))


def test_every_plugin_folder_is_announced():
    """Each folder of plugins/ is an entry point, and each entry point resolves."""
    announced = {
        entry.value: entry
        for entry in metadata.entry_points(group="elbowroom")
        if entry.value.startswith("elbowroom.plugins.")
    }
    folders = {path.parent.name for path in (ROOT / "plugins").glob("*/__init__.py")}
    assert {f"elbowroom.plugins.{name}" for name in folders} == set(announced)
    for entry in announced.values():
        entry.load()


def test_the_command_is_installed():
    """The elbowroom script is the command line's main."""
    (script,) = (e for e in metadata.entry_points(group="console_scripts") if e.name == "elbowroom")
    assert script.value == "elbowroom.cli:main"
