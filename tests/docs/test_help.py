"""The help of every command has an example, and the example runs."""

from __future__ import annotations

import inspect
import re
import shlex

import pytest
import typer
from elbowroom.cli import app

from tests.helpers.command import elbowroom
from tests.helpers.page import run_small

GROUP = typer.main.get_command(app)
CONTEXT = GROUP.make_context("elbowroom", ["presets"])
NAMES = GROUP.list_commands(CONTEXT)


def help_of(name: str) -> str:
    return inspect.cleandoc(GROUP.get_command(CONTEXT, name).help or "")


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_command_runs(name, tmp_path, monkeypatch):
    """It is what a reader copies first."""
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"^Example: (elbowroom .*(?:\n.+)*)", help_of(name), re.MULTILINE)
    command = shlex.split(example)[1:]
    assert command[0] == name
    run_small(command)


def test_commands_are_grouped():
    """Each of ours is under a heading, in the order of use."""
    shown = elbowroom("--help").out
    headings = ["Start here", "Models", "Theory", "Plugins"]
    assert sorted(headings, key=shown.index) == headings
    assert "Commands ─" not in shown
    assert "Other packages" not in shown


@pytest.mark.parametrize("name", ["", *NAMES])
def test_help_shows_no_python_types(name):
    """Flags take no value, and other values have a name."""
    shown = elbowroom(*[name] * bool(name), "--help").out
    assert not re.search(r"<(bool|str|int|float|path|list)", shown)


@pytest.mark.parametrize("name", NAMES)
def test_help_begins_with_one_line(name):
    """The list of commands shows all of it."""
    first = help_of(name).splitlines()
    assert first[0].endswith(".")
    assert len(first) == 1 or not first[1]
