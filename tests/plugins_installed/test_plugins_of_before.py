"""Plugins scaffolded before core had rooms, installed by pip and otherwise untouched."""

from __future__ import annotations

import os

import pytest


@pytest.mark.parametrize("kind", ["process", "weighting"])
def test_a_plugin_of_before_passes_its_own_tests(environment, kind):
    """Its deep imports still work, and what moved is named in the warnings."""
    package = environment.folder / "sources" / f"elbowroom-old-{kind}"
    told = environment.run(
        *("-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib"),
        *("-c", os.devnull, "--rootdir", str(package), str(package / "tests")),
    ).stdout
    assert "passed" in told and "failed" not in told and "skipped" not in told
    assert "elbowroom.registry.registry is elbowroom.installed now" in told
