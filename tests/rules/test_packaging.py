"""The wheel: whole, typed, announced."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.helpers.built_wheel import FOLDERS, ROOT, build_wheel, copy_sources

NOT_SHIPPED = {".pyc"}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


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


def test_an_editable_install_leads_type_checkers_to_every_module(tmp_path):
    """The folder that its .pth names has a stub package in which each module is the source."""
    source = copy_sources(tmp_path)
    build = f"from setuptools.build_meta import build_editable; build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    typed = zipfile.ZipFile(wheel).read("__editable__.elbowroom-types.pth").decode().strip()
    for folder, target in FOLDERS.items():
        for path in (source / folder).rglob("*.py"):
            inside = Path(target, path.relative_to(source / folder)).relative_to("elbowroom")
            assert Path(typed, "elbowroom-stubs", inside).resolve() == path.resolve()
    assert Path(typed, "elbowroom-stubs", "__init__.pyi").exists()


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


def test_the_top_level_holds_folders_and_no_code():
    """core/, plugins/, contrib/, tests/ and docs/ are where code lives; pyproject.toml says how."""
    assert not list(ROOT.glob("*.py"))
