"""The page on evaluation says what is there: metrics, options, measurements, commands."""

from __future__ import annotations

import re
from pathlib import Path

import elbowroom
import pytest
from elbowroom.config.schema import options_of
from elbowroom.plugins.compare.command import compare
from elbowroom.plugins.evaluation.command import evaluate
from elbowroom.registry.components import installed

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text("utf-8")


def documented():
    """Metric -> the options its row names."""
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| (.*)\|$", PAGE, re.MULTILINE)
    return {name: set(re.findall(r"`([a-z_]+)`", options)) for name, options in rows}


def test_every_built_in_metric_and_its_options_are_documented():
    """The table is the registry's own content."""
    ours = {
        name: set(options_of(found.load()))
        for name, found in installed().components("metric").items()
        if found.owner.distribution == "elbowroom" or found.owner.plugin == "metrics"
    }
    assert documented() == ours


@pytest.mark.parametrize(("name", "command"), [("evaluate", evaluate), ("compare", compare)])
def test_every_option_on_the_page_exists(name, command):
    """What the page writes after a command is understood by it."""
    import inspect

    known = {f"--{p.replace('_', '-')}" for p in inspect.signature(command).parameters}
    start = PAGE.index("## A grid of runs")
    part = PAGE[:start] if name == "evaluate" else PAGE[start:]
    others = re.compile(rf"elbowroom (?!{name}\b)[a-z-]+ ")  # lines of another command
    said = " ".join(line for line in part.splitlines() if not others.search(line))
    not_ours = {"--no-deps", "--nproc-per-node"}  # of pip and torchrun
    assert set(re.findall(r"--[a-z-]{3,}", said)) - not_ours <= known


def test_the_python_on_the_page_is_public():
    """Every ``er.name`` on the page is a name of the package."""
    names = set(re.findall(r"\ber\.([a-zA-Z_]+)", PAGE))
    assert names >= {"EvaluationProtocol", "evaluate", "compare"}
    assert all(hasattr(elbowroom, name) for name in names)
