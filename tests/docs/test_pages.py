"""The examples of every page run, from top to bottom, in an empty folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers.page import blocks, run_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXTRA = {"lightning", "accelerate"}
WITHOUT_EXAMPLES = {"changelog", "stability", "architecture", "directory", "performance"}
"""Pages that list facts."""
PAGES = sorted(
    path
    for path in DOCS.rglob("*.md")
    if "decisions" not in path.parts and "examples" not in path.parts and path.stem != "results"
)


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """An empty working folder whose files can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(DOCS / "examples" / "elbowroom-min-snr"))
    yield
    for name in ("my_network", "my_plugin"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.extra] * (path.stem in EXTRA))
        for path in [*PAGES, ROOT / "README.md"]
    ],
)
def test_a_pages_examples_run(page, empty):
    """Code runs as it is, commands at small sizes; what cannot run is parsed."""
    if page.stem in EXTRA:
        pytest.importorskip(page.stem)
    ran = run_page(page)
    assert ran or page.stem in WITHOUT_EXAMPLES, "a page has an example"


@pytest.mark.parametrize("path", [*PAGES, DOCS / "results.md"], ids=lambda path: path.stem)
def test_commands_are_written_with_a_prompt(path):
    """A command line without ``$`` would be neither run nor parsed."""
    for language, text, _ in blocks(path):
        if language == "console":
            assert text.lstrip().startswith("$ "), text


def test_every_page_is_in_the_navigation():
    """Zensical does not report pages that are left out."""
    text = (DOCS / "site" / "mkdocs.yml").read_text("utf-8")
    named = set(re.findall(r": ([\w./-]+\.md)$", text, re.MULTILINE))
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    there |= {f"notebooks/{path.stem}.md" for path in (DOCS / "notebooks").glob("*.ipynb")}
    there = {path for path in there if not path.startswith("decisions/")}
    generated = {path for path in named if path.startswith("reference/")}
    assert named - generated - {"contributing.md", "security-policy.md"} == there


def test_decisions_are_numbered_once():
    """A number stands for one decision, and each has its three parts or is older than the form."""
    numbers = [path.name[:4] for path in (DOCS / "decisions").glob("*.md")]
    assert len(numbers) == len(set(numbers))


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted((DOCS / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_a_notebook_runs(path, tmp_path):
    """From top to bottom in an empty folder; the committed file has its outputs and is small."""
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, 4)
    assert path.stat().st_size < 300_000
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    client.NotebookClient(
        notebook, timeout=500, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()


def test_yaml_blocks_are_yaml():
    """Also those that are only shown."""
    for page in [*PAGES, ROOT / "README.md"]:
        for language, text, _ in blocks(page):
            if language == "yaml":
                yaml.safe_load(text)
