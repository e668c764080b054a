"""References: files and modules named in a config, without a package."""

from __future__ import annotations

import hashlib
import sys
import typing
from pathlib import Path

import pytest
from elbowroom import PluginError, Weighting
from elbowroom.registry.components import Registry

SOURCE = """\
from __future__ import annotations

import attrs
from elbowroom import Weighting


@attrs.frozen
class MinSNR(Weighting):
    gamma: float = 5.0

    def __call__(self, level):
        return (self.gamma / level.snr).clamp(max=1) / level.elbo_weight
"""


@pytest.fixture(scope="module")
def empty():
    """A registry without any plugin."""
    return Registry.load([], {})


@pytest.fixture
def file(tmp_path):
    """my.py with a weighting of seven lines."""
    path = tmp_path / "my.py"
    path.write_text(SOURCE)
    return path


def test_a_class_in_a_file_needs_no_package(empty, file):
    """./my.py:MinSNR is found from the config's folder, and its hash is in its owner."""
    component = empty.find("weighting", "./my.py:MinSNR", file.parent)
    found = component.load()
    assert issubclass(found, Weighting)
    assert found().gamma == 5.0
    assert component.owner.path == str(file)
    assert component.owner.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert component.owner.distribution is None
    assert str(component.owner).startswith(f"{file} (sha256 {component.owner.sha256[:12]}")


@pytest.mark.parametrize("form", ["my.py:MinSNR", "./my.py:MinSNR", "../here/my.py:MinSNR"])
def test_every_way_to_write_a_path_finds_the_same_class(empty, tmp_path, monkeypatch, form):
    """Relative forms, the absolute one, ~ and the working directory lead to one class."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "my.py").write_text(SOURCE)
    absolute = empty.find("weighting", f"{folder}/my.py:MinSNR").load()
    assert empty.find("weighting", form, folder).load() is absolute
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    assert empty.find("weighting", "~/my.py:MinSNR").load() is absolute
    monkeypatch.chdir(folder)
    assert empty.find("weighting", form).load() is absolute


def test_a_file_components_name_holds_from_any_folder(empty, file, tmp_path_factory, monkeypatch):
    """What a run writes down about a file finds it again from elsewhere."""
    name = empty.find("weighting", "./my.py:MinSNR", file.parent).name
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert empty.find("weighting", name).name == name


def test_an_edited_file_is_read_again(empty, file):
    """A change in the file gives the new class and the new hash."""
    before = empty.find("weighting", str(file) + ":MinSNR")
    file.write_text(SOURCE.replace("5.0", "7.0"))
    after = empty.find("weighting", str(file) + ":MinSNR")
    assert (before.load()().gamma, after.load()().gamma) == (5.0, 7.0)
    assert before.owner.sha256 != after.owner.sha256


def test_a_files_type_hints_can_be_read(empty, file):
    """Postponed annotations resolve, so the class's options have a schema."""
    found = empty.find("weighting", f"{file}:MinSNR").load()
    assert typing.get_type_hints(found)["gamma"] is float


def test_nothing_is_left_beside_the_file(empty, file):
    """Loading a file writes no bytecode and puts no folder on the import path."""
    path = list(sys.path)
    empty.find("weighting", f"{file}:MinSNR").load()
    assert [p.name for p in file.parent.iterdir()] == ["my.py"]
    assert sys.path == path


def test_files_of_one_name_do_not_mix(empty, tmp_path):
    """Two files called my.py in two folders are two modules, even with the same content."""
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "my.py").write_text(SOURCE)
        found.append(empty.find("weighting", "my.py:MinSNR", tmp_path / name).load())
    assert found[0] is not found[1]


@pytest.mark.parametrize(
    ("source", "attribute", "message"),
    [
        (SOURCE, "MinSNRR", "no class 'MinSNRR' (did you mean 'MinSNR'?); its classes: MinSNR"),
        (SOURCE, "Weighting", "it imports it: write elbowroom.contracts.weighting:Weighting"),
        (SOURCE, "attrs", "defines no class 'attrs'"),
        ("def x(): pass\n", "x", "defines no class 'x'"),
        ("x = 1\n", "X", "its classes: none"),
        ("def f(:\n", "X", "SyntaxError: invalid syntax"),
        ("\n1 / 0\n", "X", "ZeroDivisionError: division by zero (FILE, line 2)"),
        ("raise SystemExit\n", "X", "SystemExit"),
        ("import sibling_of_my\n", "X", "a file must stand alone"),
        ("\xff\xfe\n", "X", "SyntaxError"),
        ("a\0b\n", "X", "null bytes"),
        ("X = 3\n", "X", "defines no class 'X'"),
        ("class X: pass\n", "X", "does not derive from elbowroom.Weighting"),
        ("from elbowroom import Weighting\nclass X(Weighting): pass\n", "X", "is abstract"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_sentence(
    empty, tmp_path, source, attribute, message
):
    """Every fault of a file is an error for people that names the file and the cause."""
    path = tmp_path / "my.py"
    path.write_bytes(source.encode("latin-1"))
    (tmp_path / "sibling_of_my.py").write_text("")
    before = set(sys.modules)
    with pytest.raises(PluginError) as raised:
        empty.find("weighting", f"./my.py:{attribute}", tmp_path).load()
    assert message.replace("FILE", str(path)) in str(raised.value)
    assert "my.py" in str(raised.value)
    if "cannot be loaded" in str(raised.value):
        assert not {name for name in set(sys.modules) - before if "elbowroom_file" in name}


@pytest.mark.parametrize("name", ["./gone.py:X", "./folder.py:X"])
def test_a_file_that_cannot_be_read_says_where_it_was_looked_for(empty, tmp_path, name):
    """A missing file and a folder are errors with the place they were looked up from."""
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(PluginError, match="cannot read") as raised:
        empty.find("weighting", name, tmp_path)
    assert f"looked up from {tmp_path}" in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "./my.py",
        "./my.py:",
        ":X",
        "a b:X",
        "a:b:c",
        "./my.py:1x",
        ":",
        "./my.py:a.b",
        "os:path.join",
    ],
)
def test_a_malformed_reference_shows_the_two_forms(empty, file, name):
    """What is neither file.py:Class nor package.module:Class is answered with both forms."""
    with pytest.raises(PluginError, match=r"write ./file.py:Class or package.module:Class"):
        empty.find("weighting", name, file.parent)


# -- modules


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An importable package that no distribution owns."""
    folder = tmp_path / "package_of_a_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in ("package_of_a_test", "package_of_a_test.part"):
        sys.modules.pop(name, None)


def test_a_class_in_a_module_is_named_by_its_import_path(empty, package):
    """package.module:Class is imported, and owned by its file."""
    component = empty.find("weighting", "package_of_a_test.part:MinSNR")
    assert component.load().__module__ == "package_of_a_test.part"
    assert component.name == "package_of_a_test.part:MinSNR"
    assert component.owner.path == str(package / "part.py")
    assert component.owner.sha256 == hashlib.sha256(SOURCE.encode()).hexdigest()


def test_a_module_of_an_installed_distribution_is_owned_by_it(empty):
    """For code in an installed package the owner has the distribution and version too."""
    owner = empty.find("launcher", "pluggy._manager:PluginManager").owner
    assert owner.distribution == "pluggy"
    assert owner.version == __import__("pluggy").__version__
    assert Path(owner.path).name == "_manager.py"


def test_a_module_without_a_file_can_be_named(empty):
    """A built-in module has no file, and no hash."""
    assert empty.find("launcher", "builtins:int").owner.sha256 is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module.x:Y", "for a file write ./no_such_module/x.py:Y"),
        ("json.no_such:Y", "No module named 'json.no_such'"),
        ("json:JSONDecoderr", "defines no class 'JSONDecoderr'"),
    ],
)
def test_a_module_that_cannot_be_loaded_says_why(empty, name, message):
    """A missing module or class is an error with the cause."""
    with pytest.raises(PluginError, match=message):
        empty.find("weighting", name)
