"""README and docs: their commands and code blocks run, their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.helpers.command import elbowroom

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = [ROOT / "README.md", ROOT / "docs" / "tour.md"]
"""Pages whose commands are run as they stand."""


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def commands(path: Path) -> list[str]:
    """The elbowroom lines of a page's console blocks; make targets are what CI runs."""
    lines = [line for block in blocks(path, "console") for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ elbowroom")]


SMALLER = {
    "train": (
        *("train.steps=2", "train.batch_size=8", "train.evaluate_every=2", "sampler.steps=4"),
        *("denoiser.width=32", "denoiser.depth=1", "denoiser.channels=32"),
    ),
    "sample": ("--count", "2"),
    "compare": ("--dry-run",),
}
"""What is added to long commands so that a test can wait for them."""


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_commands_run(page, tmp_path, monkeypatch):
    """The commands of a page, one after the other in any folder, do what they say."""
    monkeypatch.chdir(tmp_path)
    assert commands(page)
    for command in commands(page):
        _, name, *rest = shlex.split(command, comments=True)
        ran = elbowroom(name, *rest, *SMALLER.get(name, ()))
        assert ran.code == 0, f"{command}: {ran.err}"


def test_the_readme_names_both_make_targets():
    """The two commands are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"$ make {target}" in (ROOT / "README.md").read_text()
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_readmes_config_is_a_config(tmp_path):
    """The YAML of the README is explained, and swapping its one word works."""
    (text,) = blocks(ROOT / "README.md", "yaml")
    for process in ("masked", "gaussian"):
        path = tmp_path / "config.yaml"
        path.write_text(text.replace("process: masked", f"process: {process}"))
        assert elbowroom("explain", path, "--json").json["config"]["process"]["name"] == process


def test_the_readmes_config_is_the_preset():
    """It is the preset it says it is."""
    (text,) = blocks(ROOT / "README.md", "yaml")
    preset = yaml.safe_load((ROOT / "plugins" / "datasets" / "presets" / "digits.yaml").read_text())
    shown = yaml.safe_load(text)
    assert {key: preset[key] for key in shown} == shown


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_python_blocks_run(page):
    """Each Python block of a page runs."""
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), {"__name__": "example"})


def test_the_readmes_plugin_is_fifteen_lines():
    """The plugin is as short as its heading says."""
    (plugin,) = blocks(ROOT / "README.md", "python")
    code = [line for line in plugin.splitlines() if line.strip() and not line.startswith("#")]
    assert len(code) <= 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Every relative link of a page points to a file or folder."""
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_every_command_is_in_the_readme():
    """The command table names every command there is."""
    import typer
    from elbowroom.cli import app

    readme = (ROOT / "README.md").read_text()
    for name in typer.main.get_command(app).list_commands(None):
        assert f"`elbowroom {name}" in readme, name
