"""The wheel: whole, typed, announced."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import lazy_loader
import pytest
from elbowroom.registry.plugin import all_hooks

from tests.helpers.built_wheel import FOLDERS, ROOT, build_wheel, copy_sources


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_contains_every_file_of_the_package(wheel):
    """Each module and data file of core, plugins and contrib is in the wheel."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    for folder, target in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc" and path.parent.name != "packaging":
                name = f"{target}/{path.relative_to(ROOT / folder).as_posix()}"
                assert name in inside, f"{name} is missing from the wheel"


def test_the_wheel_contains_nothing_else(wheel):
    """Tests, docs and the build command are not installed."""
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"elbowroom"}
    assert not any("packaging" in name for name in zipfile.ZipFile(wheel).namelist())


def test_the_wheel_is_typed_and_licensed(wheel):
    """py.typed, the licence and the extras are there."""
    archive = zipfile.ZipFile(wheel)
    assert "elbowroom/py.typed" in archive.namelist()
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    described = email.message_from_bytes(archive.read(name))
    assert described["License-Expression"] == "Apache-2.0"
    assert {"xformers", "hf", "fid", "docs", "dev"} <= set(described.get_all("Provides-Extra"))


@pytest.fixture(scope="session")
def editable(tmp_path_factory):
    """A clone called elbowroom, and the folder its editable wheel is unpacked to."""
    folder = tmp_path_factory.mktemp("editable")
    source = copy_sources(folder).rename(folder / "elbowroom")
    build = f"from setuptools.build_meta import build_editable; build_editable({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return source, folder / "site"


def test_an_editable_install_has_every_module_for_type_checkers(editable):
    """The folder that its .pth names has a stub package in which each module is the source."""
    source, site = editable
    typed = (site / "__editable__.elbowroom-folder.pth").read_text().strip()
    for folder, target in FOLDERS.items():
        for path in (source / folder).rglob("*.py"):
            inside = Path(target, path.relative_to(source / folder)).relative_to("elbowroom")
            assert Path(typed, "elbowroom-stubs", inside).resolve() == path.resolve()
    assert Path(typed, "elbowroom-stubs", "__init__.pyi").exists()


def test_an_editable_install_is_imported_in_the_folder_that_holds_the_clone(editable):
    """There the clone is a folder called elbowroom without an ``__init__.py``."""
    source, site = editable
    script = source.parent / "script.py"
    show = "import elbowroom, elbowroom.plugins, elbowroom.errors as errors"
    libraries = str(Path(lazy_loader.__file__).parents[1])
    script.write_text(
        f"import site, sys; site.addsitedir({str(site)!r})\n"
        f"sys.path.append({libraries!r})\n{show}\n"
        "print(elbowroom.__file__, elbowroom.plugins.__file__, errors.__file__, sep='\\n')"
    )
    command = [sys.executable, "-S", script]  # -S: this test's own installation is not seen
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    files = ("core/__init__.py", "plugins/__init__.py", "core/errors.py")
    assert told.split() == [str(source / name) for name in files]


def test_every_plugin_folder_is_announced():
    """Each folder of plugins/ is an entry point, and each entry point resolves."""
    announced = {
        entry.value: entry
        for entry in metadata.entry_points(group="elbowroom")
        if entry.value.startswith("elbowroom.plugins.")
    }
    folders = {path.parent.name for path in (ROOT / "plugins").glob("*/__init__.py")}
    assert folders == {name.split(".")[2] for name in announced}
    for entry in announced.values():
        entry.load()


def test_the_command_is_installed():
    """The elbowroom script is the command line's main."""
    (script,) = (e for e in metadata.entry_points(group="console_scripts") if e.name == "elbowroom")
    assert script.value == "elbowroom.cli:main"


def test_the_top_level_holds_folders_and_no_code():
    """Code is in core/, plugins/, contrib/, tests/ and docs/; setup.py finds the packages."""
    assert [path.name for path in ROOT.glob("*.py")] == ["setup.py"]


def test_no_module_of_a_plugin_is_named_like_a_hook():
    """Importing such a module would replace the hook's function in the plugin's package."""
    hooks = set(all_hooks())
    for plugin in (*(ROOT / "plugins").iterdir(), ROOT / "contrib"):
        inside = (*plugin.glob("*.py"), *(path.parent for path in plugin.glob("*/__init__.py")))
        assert not {path.stem for path in inside} & hooks, plugin
