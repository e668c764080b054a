"""The plugin author's guide says what is so."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import yaml
from elbowroom.registry.component import import_target
from elbowroom.registry.components import Registry, installed
from elbowroom.registry.hooks import PLUGIN_API, Hooks
from elbowroom.registry.kinds import KINDS
from elbowroom.registry.plugin import all_hooks

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "examples" / "elbowroom-min-snr"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE)
PYTHON = [source for language, source in BLOCKS if language == "python"]


installed()  # adds the kinds of plugins


def signatures():
    """Each hook as the guide must write it: name and arguments."""
    for name in all_hooks():
        hook = getattr(Hooks, name, None)  # those of a plugin's kind take no arguments
        taken = [] if hook is None else list(inspect.signature(hook).parameters)[1:]
        yield f"{name}({', '.join(taken)})"


def test_every_hook_is_documented_with_its_exact_arguments():
    """The guide's tables list all hooks and nothing else."""
    documented = re.findall(r"^\| `(\w+\([^`]*\))` \|", GUIDE, flags=re.MULTILINE)
    assert sorted(documented) == sorted(signatures())


def test_every_kind_is_documented_with_its_contract():
    """The guide's table of kinds has each kind, and the class it derives from can be imported."""
    rows = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|", GUIDE, flags=re.MULTILINE)
    assert {kind for kind, _ in rows} == set(KINDS)
    for kind, written in rows:
        module, _, name = written.rpartition(".")
        assert import_target(f"{module}:{name}") is import_target(KINDS[kind].contract)


def test_the_guide_shows_the_command_as_it_is():
    """The command in the guide is the example's file."""
    command = ROOT / "docs" / "examples" / "elbowroom-levels" / "levels_command.py"
    assert command.read_text(encoding="utf-8") in PYTHON


def test_the_guide_shows_the_example_as_it_is():
    """The plugin in the guide is the example's file, and the metadata agrees."""
    assert (EXAMPLE / "my_plugin.py").read_text(encoding="utf-8") in PYTHON
    (shown,) = [source for language, source in BLOCKS if language == "toml"]
    lines = (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    assert set(shown.split("\n")) <= {*lines, ""}


def test_the_guide_speaks_of_this_plugin_api():
    """The version in the guide is the version of the hooks."""
    assert f"is API {PLUGIN_API[0]}.{PLUGIN_API[1]}." in " ".join(GUIDE.split())


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_the_guides_code_runs(number, monkeypatch, capsys):
    """Every block of Python in the guide runs where the example is importable."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    exec(compile(PYTHON[number], f"docs/plugins.md block {number}", "exec"), {"__name__": "guide"})


def test_the_guides_ideas_work_from_a_file(tmp_path):
    """The two classes to try, put in my.py, are what the guide's config names."""
    (tmp_path / "my.py").write_text(PYTHON[0] + PYTHON[1])
    config = yaml.safe_load(next(source for language, source in BLOCKS if language == "yaml"))
    empty = Registry.load([], {})
    weighting = empty.find("weighting", config["weighting"].pop("name"), tmp_path).load()
    assert weighting(**config["weighting"]).gamma == 3
    assert empty.find("schedule", config["schedule"], tmp_path).load()


def test_an_idea_is_short():
    """A weighting to try takes seven lines, a schedule four."""
    for source, most in zip(PYTHON, (7, 4), strict=False):
        assert len([line for line in source.splitlines() if line.strip()]) <= most


def test_every_link_inside_the_guide_leads_somewhere():
    """Anchors are headings and paths exist."""
    headings = {
        re.sub(r"[^\w -]", "", h).lower().replace(" ", "-")
        for h in re.findall(r"^#+ (.*)$", GUIDE, flags=re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", GUIDE):
        if target.startswith("#"):
            assert target[1:] in headings
        else:
            assert (ROOT / "docs" / target.partition("#")[0]).exists(), target
