"""A new plugin: its names, its files, and what is refused."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.new_plugin.new_plugin import kinds, new_plugin, plugin_files
from elbowroom.registry.kinds import KINDS as REGISTERED
from hypothesis import given, strategies as st

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,5}){0,3}", fullmatch=True)
LONGEST = "a" * 10 + "-" + "b" * 11
KINDS = kinds()


def test_every_kind_with_laws_can_be_begun():
    """There is a template for each kind of component that has laws."""
    assert set(REGISTERED) - set(KINDS) == {"launcher", "exporter", "section"}


@given(name=NAMES, kind=st.sampled_from(KINDS))
def test_whatever_the_name_the_files_can_be_read(name, kind):
    """No name makes a file that Python, TOML or YAML cannot read, or leaves a gap unfilled."""
    files, module = plugin_files(name, kind), f"elbowroom_{name.replace('-', '_')}"
    for path, text in files.items():
        if path.endswith(".py"):
            ast.parse(text)
        if path != ".github/workflows/ci.yml":
            assert "$" not in text.replace("$ pip", "").replace("$ elb", "").replace("$ pyt", "")
    if sys.version_info >= (3, 11):
        import tomllib

        project = tomllib.loads(files["pyproject.toml"])["project"]
        assert project["name"] == f"elbowroom-{name}"
        assert project["entry-points"]["elbowroom"] == {name: module}
    yaml.safe_load(files[".github/workflows/ci.yml"])
    defined = [
        node.name
        for node in ast.parse(files[f"src/{module}/{kind}.py"]).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]
    assert defined


def test_the_class_has_the_name_and_the_kind():
    """So it never shadows a name that its module needs, nor a keyword."""
    files = plugin_files("none", "time_sampler")
    assert "class NoneTimeSampler(" in files["src/elbowroom_none/time_sampler.py"]


@pytest.mark.parametrize("name", ["my", LONGEST])
@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_clean(tmp_path, kind, name):
    """By its own settings, ruff has nothing to say about a new package, short name or long."""
    folder = new_plugin(name, kind, tmp_path)
    for arguments in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--no-cache", "."],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_written_where_asked_with_its_licence(tmp_path):
    """The folder is made, with the parents it needs, and nothing else is left there."""
    folder = new_plugin("elbowroom-my-idea", "schedule", tmp_path / "a" / "b")
    assert folder == tmp_path / "a" / "b" / "elbowroom-my-idea"
    assert [path.name for path in folder.parent.iterdir()] == ["elbowroom-my-idea"]
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert (folder / ".gitignore").is_file()
    assert (folder / "src" / "elbowroom_my_idea" / "py.typed").is_file()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MinSNR", r"did you mean 'min-snr'\?"),
        ("min_snr", r"did you mean 'min-snr'\?"),
        ("5-minutes", "begins with a letter"),
        ("", "begins with a letter"),
        ("min--snr", r"did you mean 'min-snr'\?"),
        ("../escape", r"did you mean 'escape'\?"),
        ("a" * 33, "33 characters"),
        ("sigmoid", "supplied by elbowroom"),
    ],
)
def test_a_bad_name_is_refused_with_its_reason(tmp_path, name, said):
    """Names that are no names, too long or taken are refused, and nothing is written."""
    with pytest.raises(ElbowroomError, match=said):
        new_plugin(name, "weighting", tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_taken_name_of_another_kind_is_free(tmp_path):
    """Names are by kind: a data set may be called like a weighting."""
    assert new_plugin("sigmoid", "dataset", tmp_path).is_dir()


def test_an_unknown_kind_lists_the_kinds(tmp_path):
    """The nearest kind is offered."""
    with pytest.raises(ElbowroomError, match=r"did you mean 'time_sampler'\?.*metric"):
        new_plugin("mine", "time-samplers", tmp_path)


def test_an_existing_folder_is_never_touched(tmp_path):
    """A second call is an error, and what was there stays as it was."""
    folder = new_plugin("mine", "weighting", tmp_path)
    (folder / "README.md").write_text("my own words")
    with pytest.raises(ElbowroomError, match="exists already"):
        new_plugin("mine", "sampler", tmp_path)
    assert (folder / "README.md").read_text() == "my own words"


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    """A file in the way is named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ElbowroomError, match="cannot write"):
        new_plugin("mine", "weighting", tmp_path / "file")


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "elbowroom", *arguments],
        cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_command_says_what_it_wrote(tmp_path):
    """--json lists the files; an error is one message and exit code 2."""
    done = run("new-plugin", "mine", "--kind", "metric", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["folder"] == "elbowroom-mine"
    assert {"pyproject.toml", "LICENSE", "tests/test_plugin.py"} <= set(told["files"])
    again = run("new-plugin", "mine", "--kind", "metric", cwd=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert "Traceback" not in again.stderr
