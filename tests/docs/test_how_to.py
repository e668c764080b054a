"""How-to pages that say they run do, from top to bottom, in an empty folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.test_tutorials import execute

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A folder to work in, whose files can be imported, as a script's own folder's can."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("my_network", None)


def test_the_page_about_own_networks_runs(empty):
    """A loop of one's own, samples, measurements, a run that every command takes."""
    assert execute(PAGES / "own-network.md") >= 5


@pytest.mark.parametrize("page", ["one-over-t", "from-md4", "from-diffusers", "look-inside"])
def test_a_page_that_answers_with_code_runs(page, empty):
    """Verdicts, weights and schedules on the page are those of the code."""
    assert execute(PAGES / f"{page}.md") >= 2


@pytest.mark.extra
@pytest.mark.parametrize("library", ["lightning", "accelerate"])
def test_a_page_about_anothers_trainer_runs(library, empty):
    """Their loop, our objective, and a run at the end."""
    pytest.importorskip(library)
    assert execute(PAGES / f"{library}.md") >= 3
