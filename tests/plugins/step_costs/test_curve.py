"""The curve of a model: its area is the bound, and it is kept with the evaluation."""

from __future__ import annotations

import json

import pytest
import torch
from elbowroom import EvaluationProtocol, evaluate_run
from elbowroom.config.sections import load_config
from elbowroom.plugins.step_costs.costs import StepCosts
from elbowroom.training.run import train

from tests.helpers.tiny_run import tiny_config

QUIET = {"console", "tensorboard"}


@pytest.mark.parametrize("process", ["masked", "gaussian", "elbowroom.contrib.uniform:Uniform"])
def test_its_area_is_the_bounds_diffusion_term(tmp_path, process):
    """A sum over fine steps, of plain losses or of divergences, is what bpd measures apart."""
    config = load_config(tiny_config(process, steps=3))
    train(config, tmp_path / "run", without=QUIET)
    protocol = EvaluationProtocol(
        metrics=({"name": "curve", "looks": 48}, {"name": "bpd", "split": "validation"})
    )
    report = evaluate_run(tmp_path / "run", protocol=protocol)
    found = {name: one["value"] for name, one in report.measurements.items()}
    assert found["curve_bits_per_dim"] == pytest.approx(
        found["bits_per_dim_diffusion"], rel=0.08, abs=0.05
    )
    record = json.loads((report.folder / "figures.json").read_text())
    costs = StepCosts.of_record(record["details"]["curve"])
    assert costs.total(range(len(costs.log_snr))) > 0
    again = StepCosts.of_record(json.loads(json.dumps(costs.record())))
    assert torch.equal(again.table(), costs.table())


def test_a_sampler_takes_the_grid_of_its_own_run(tmp_path):
    """Evaluate once, then sample by the grid that was made from it."""
    import elbowroom as er

    train(tiny_config(steps=2), tmp_path / "run", without=QUIET)
    report = evaluate_run(
        tmp_path / "run",
        protocol=EvaluationProtocol(metrics=({"name": "curve", "levels": 16, "looks": 8},)),
    )
    grid = {"name": "tightest", "curve": str(report.folder / "figures.json")}
    loaded = er.load_run(tmp_path / "run", [f"sampler.grid={json.dumps(grid)}", "sampler.steps=3"])
    levels = loaded.model.sampler.levels(loaded.model)
    assert len(levels.t) == 4
    assert (levels.log_snr.diff() > 0).all()
