"""README: its config, its make targets, its links. Its examples run in test_pages.py."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import yaml

from tests.helpers.command import elbowroom

ROOT = Path(__file__).parents[2]
GENERATED = runpy.run_path(str(ROOT / "docs" / "site" / "reference.py"))["pages"]()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


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


def test_the_readmes_plugin_is_fifteen_lines():
    """The plugin is as short as its heading says."""
    _, plugin = blocks(ROOT / "README.md", "python")
    code = [line for line in plugin.splitlines() if line.strip() and not line.startswith("#")]
    assert len(code) <= 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Every relative link of a page points to a file or folder."""
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        made = target.rpartition("reference/")[2].removesuffix(".md") in GENERATED
        if "://" not in target and not made:
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_the_readme_is_short():
    """Two screens and links; the example in Python has six lines."""
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 120
    example, _ = blocks(ROOT / "README.md", "python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 6
