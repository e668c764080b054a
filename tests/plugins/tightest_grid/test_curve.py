"""The curve of a model: its area is the bound, and it is kept with the evaluation."""

from __future__ import annotations

import json

import pytest
import torch
from elbowroom import EvaluationProtocol
from elbowroom.config.sections import load_config
from elbowroom.plugins.conformance import check_grid
from elbowroom.plugins.evaluation.run import evaluate_run
from elbowroom.plugins.tightest_grid.costs import StepCosts
from elbowroom.plugins.tightest_grid.tightest import Tightest
from elbowroom.plugins.training.run import train
from elbowroom.runs.load import load_run

from tests.helpers.tiny_run import tiny_config

QUIET = {"console", "tensorboard"}


@pytest.mark.parametrize("process", ["masked", "gaussian", "uniform"])
def test_its_area_is_the_bounds_diffusion_term(tmp_path, process):
    """A sum over fine steps, of plain losses or of divergences, is what bpd measures apart."""
    config = load_config(tiny_config(process, steps=3))
    train(config, tmp_path / "run", without=QUIET)
    protocol = EvaluationProtocol(
        metrics=({"name": "curve", "draws": 48}, {"name": "bpd", "split": "validation"})
    )
    report = evaluate_run(tmp_path / "run", protocol=protocol, trust=True)
    found = {name: one["value"] for name, one in report.measurements.items()}
    assert found["curve_bits_per_dim"] == pytest.approx(
        found["bits_per_dim_diffusion"], rel=0.08, abs=0.05
    )
    record = json.loads((report.folder / "figures.json").read_text())
    costs = StepCosts.of_record(record["details"]["curve"])
    assert costs.total(range(len(costs.log_snr))) > 0
    again = StepCosts.of_record(json.loads(json.dumps(costs.record())))
    assert torch.equal(again.table(), costs.table())


@pytest.mark.parametrize(
    "schedule",
    [{"name": "cosine", "eps": 0.0}, {"name": "polynomial", "exponent": 8, "eps": 0.0}],
)
def test_a_path_with_infinite_ends_has_a_curve_too(schedule, tmp_path):
    """eps: 0, where masks are all there is at t = 1, and none are left at 0."""
    import elbowroom as er

    model = er.assemble(
        data="toy",
        process="masked",
        schedule=schedule,
        denoiser={"name": "dit", "width": 16, "depth": 1},
        sampler={"name": "ancestral", "steps": 8},
    )
    report = er.evaluate(model, metrics=("curve", "bpd"), batch_size=2000)
    found = {name: one.value for name, one in report.measurements.items()}
    due = found["bits_per_dim_diffusion"]
    assert found["curve_bits_per_dim"] == pytest.approx(due, rel=0.03)
    assert found["grid_bits_per_dim"] == pytest.approx(due, rel=0.1)
    costs = StepCosts.of_record(report.details["curve"])
    assert costs.log_snr[0] < -20 and costs.log_snr[-1] > 20
    (tmp_path / "figures.json").write_text(json.dumps({"details": report.details}))
    check_grid(Tightest(str(tmp_path / "figures.json")), model.schedule)
    assert (Tightest(str(tmp_path / "figures.json")).times(300, model.schedule).diff() < 0).all()


@pytest.mark.parametrize(
    ("process", "schedule"),
    [
        ("gaussian", {"name": "linear-log-snr", "log_snr_max": 40.0, "log_snr_min": -10.0}),
        ("masked", {"name": "cosine", "eps": 1e-14}),
    ],
)
def test_far_ends_that_are_finite_stay(process, schedule):
    """Levels beyond which nothing changes are measured as any others."""
    import elbowroom as er

    model = er.assemble(
        data="toy", process=process, schedule=schedule, denoiser={"name": "dit", "width": 16}
    )
    report = er.evaluate(model, metrics=({"name": "curve", "draws": 8},), batch_size=2000)
    costs = StepCosts.of_record(report.details["curve"])
    due = model.schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(costs.log_snr[[0, -1]], due)
    assert report.measurements["curve_bits_per_dim"].value > 0


def test_only_a_grid_over_the_path_is_priced():
    """Schedulers of diffusers: with a grid as any sampler's, at levels of their own not at all."""
    import elbowroom as er

    def measured(**sampler):
        model = er.assemble(
            data="toy",
            process="gaussian",
            schedule={"name": "vp-cosine", "log_snr_max": 5.0},
            denoiser={"name": "dit", "width": 16},
            sampler=sampler,
        )
        asked = ({"name": "curve", "draws": 16},)
        return er.evaluate(model, metrics=asked, batch_size=2000).measurements

    ours = measured(name="ddim", steps=8, grid="log-snr")["grid_bits_per_dim"].value
    theirs = measured(name="diffusers", steps=9, grid="log-snr")["grid_bits_per_dim"].value
    assert theirs == pytest.approx(ours, rel=0.02)
    assert "grid_bits_per_dim" not in measured(name="diffusers", steps=9)


def test_a_sampler_takes_the_grid_of_its_own_run(tmp_path):
    """Evaluate once, then sample by the grid that was made from it."""

    train(tiny_config(steps=2), tmp_path / "run", without=QUIET)
    report = evaluate_run(
        tmp_path / "run",
        protocol=EvaluationProtocol(metrics=({"name": "curve", "levels": 16, "draws": 8},)),
    )
    path = str(report.folder / "figures.json")
    grid = {"name": "tightest", "curve": path}
    loaded = load_run(tmp_path / "run", [f"sampler.grid={json.dumps(grid)}", "sampler.steps=3"])
    levels = loaded.model.sampler.levels(loaded.model)
    assert len(levels.t) == 4
    assert (levels.log_snr.diff() > 0).all()


def test_it_says_what_the_samplers_own_grid_costs(tmp_path):
    """Its bound, above that of all levels."""
    config = load_config(tiny_config(steps=2))
    train(config, tmp_path / "run", without=QUIET)
    asked = EvaluationProtocol(metrics=({"name": "curve", "draws": 16},))
    found = {}
    for steps in (1, 2, 6):
        report = evaluate_run(tmp_path / "run", (f"sampler.steps={steps}",), asked)
        found[steps] = {name: one["value"] for name, one in report.measurements.items()}
    whole = found[1]["curve_bits_per_dim"]
    bounds = [found[steps]["grid_bits_per_dim"] for steps in (1, 2, 6)]
    assert bounds == pytest.approx(sorted(bounds, reverse=True), rel=0.05)
    assert bounds[-1] == pytest.approx(whole, rel=0.2)


def test_a_grid_that_is_not_there_yet_does_not_keep_the_curve_from_being_made(tmp_path):
    """A run whose sampler wants its own curve can be asked for it; one without a grid has none."""
    train(tiny_config(steps=2), tmp_path / "run", without=QUIET)
    asked = EvaluationProtocol(metrics=({"name": "curve", "levels": 16, "draws": 8},))
    for sampler in ("sampler.grid={name: tightest, curve: none.json}", "sampler=first-hitting"):
        report = evaluate_run(tmp_path / "run", (sampler,), asked, out=tmp_path / "out")
        assert not report.failed
        assert list(report.measurements) == ["curve_bits_per_dim"]


def test_slopes_at_the_measured_levels_are_those_measured():
    """A grid through some of the levels costs what the table says."""
    from elbowroom import DataSpec
    from elbowroom.plugins.masked.process import Masked
    from elbowroom.plugins.tightest_grid.costs import coordinate_of

    process = Masked().bind(DataSpec((3,), 3))
    lam = torch.linspace(-6, 5, 12, dtype=torch.float64)
    coordinate, _ = coordinate_of(process, lam)
    slope = torch.linspace(3, 1, 11, dtype=torch.float64) ** 2
    costs = StepCosts(lam, coordinate, slope, slope / 10)
    nodes = [0, 2, 3, 7, 11]
    own = costs.along(process, lam[nodes])
    assert own.total(range(5)) == pytest.approx(costs.total(nodes), rel=1e-12)
