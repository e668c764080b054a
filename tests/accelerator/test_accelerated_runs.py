"""Whole runs on an accelerator: trained, resumed, drawn from, judged and exported."""

from __future__ import annotations

import json
from pathlib import Path

import elbowroom as api
import numpy as np
import pytest
import torch
from elbowroom.config.sections import dump_yaml
from elbowroom.errors import ConfigError
from elbowroom.plugins.compare import worker
from elbowroom.plugins.compare.comparison import Comparison
from elbowroom.plugins.compare.point import Point
from elbowroom.plugins.diffusers.export import ElbowroomPipeline, ElbowroomScheduler
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.evaluation.run import evaluate_run
from elbowroom.plugins.export.export import export_run
from elbowroom.plugins.sampling.write import sample_run
from elbowroom.plugins.training.precision import model_on
from elbowroom.plugins.training.run import resume, train
from elbowroom.randomness.noise import Noise
from elbowroom.runs.checkpoint import checkpoints
from elbowroom.runs.load import load_run
from torch import nn

from tests.helpers.accelerated import CPU, DEVICE, config, models
from tests.helpers.pictures import LINEAR
from tests.helpers.pretend_accelerator import NAME, PretendTensor

TWO_SIDED = {"name": "two-sided"}
EVERY = ("masked", "gaussian-v", "uniform")
QUIET = {"without": ["console", "tensorboard"]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Process -> a run on the accelerator: half of it, saved, then resumed to its end."""
    made = {}
    for process in EVERY:
        folder = tmp_path_factory.mktemp(process) / "run"
        short = config(process, train__evaluate_every=2, train__steps=2)
        assert train(short, folder, device=NAME, **QUIET).best is not None
        assert resume(folder, ("train.steps=4",), device=NAME, **QUIET).step == 4
        made[process] = folder
    return made


@pytest.mark.parametrize("process", EVERY)
def test_a_run_on_the_accelerator_is_that_of_the_cpu(runs, process, tmp_path):
    """Validation and averages, up to the order in which gradients are added."""
    changes = {"train__evaluate_every": 2, "train__steps": 2}
    train(config(process, **changes), tmp_path / "run", device="cpu", **QUIET)
    there = resume(tmp_path / "run", ("train.steps=4",), device="cpu", **QUIET)
    one, other = (checkpoints(f / "checkpoints")[-1] for f in (runs[process], there.folder))
    assert one.step == other.step == 4
    assert one.validation == pytest.approx(other.validation, rel=1e-3)
    cpu = other.read("ema")
    for name, tensor in one.read("ema").items():
        assert torch.allclose(tensor, cpu[name], atol=1e-3), name


@pytest.mark.parametrize("process", EVERY)
def test_a_run_s_samples_are_those_of_the_cpu(runs, process, tmp_path):
    """Files and all; drawing pictures of the path is no exception."""
    drawn = [
        sample_run(runs[process], count=9, batch_size=5, device=device, out=tmp_path / str(k))
        for k, device in enumerate(("cpu", NAME))
    ]
    one, other = (np.load(report.paths["samples"]) for report in drawn)
    assert (one["x"] == other["x"]).all() and (one["calls"] == other["calls"]).all()
    one, other = (report.paths["animation"].read_bytes() for report in drawn)
    assert one == other


@pytest.mark.parametrize("process", EVERY)
def test_every_metric_says_there_what_it_says_on_the_cpu(runs, process, tmp_path):
    """bits/dim and more of the model, FID, KID, IS and neighbours, and an evaluation's pictures."""
    of_the_model = [{"name": "bpd", "limit": 6, "draws": 2}]
    if process == "masked":
        of_the_model.append({**TWO_SIDED, "limit": 3, "paths": 2, "steps": 3})
    protocol = EvaluationProtocol(
        metrics=(*of_the_model, "fid", "kid", "is", "neighbours"),
        features=LINEAR,
        samples=12,
    )
    one, other = (
        evaluate_run(runs[process], (), protocol, device=device, out=tmp_path / str(k))
        for k, device in enumerate(("cpu", NAME))
    )
    assert not other.record["failed"] and len(other.measurements) >= 8
    for name, measurement in one.measurements.items():
        assert other.measurements[name]["value"] == pytest.approx(measurement["value"], rel=1e-6), (
            name
        )
    assert (tmp_path / "0/reverse.png").read_bytes() == (tmp_path / "1/reverse.png").read_bytes()


@pytest.mark.parametrize("process", ["masked", "gaussian-v"])
def test_an_exported_pipeline_draws_the_same_samples_there(runs, process, tmp_path):
    """As a whole, and step by step with its scheduler."""
    folder = export_run(runs[process], "diffusers", tmp_path / "exported")
    pipe = ElbowroomPipeline.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    here = pipe(4, seed=2).tokens
    assert torch.equal(pipe.to(NAME)(4, seed=2).tokens, here)

    scheduler = ElbowroomScheduler.from_pretrained(folder, subfolder="scheduler")
    noise, labels = Noise.of(2, 4, device=DEVICE), torch.arange(4, device=DEVICE)
    scheduler.set_timesteps(device=NAME)
    z = scheduler.prior(noise)
    with torch.no_grad():
        for t in [*scheduler.timesteps, None]:
            at = 0.0 if t is None else t
            seen, log_snr = scheduler.scale_model_input(z, at), scheduler.log_snr(at, z)
            output = pipe.model(seen, log_snr, labels).sample
            if t is not None:
                z = scheduler.step(output, t, z, noise).prev_sample
    assert torch.equal(scheduler.decode(z, output, noise).cpu(), here)


def test_a_point_of_a_comparison_is_trained_and_judged_where_it_is_told(tmp_path, monkeypatch):
    """The device goes with the job."""
    path = tmp_path / "config.yaml"
    path.write_text(dump_yaml(config(train__steps=1)), "utf-8")
    protocol = EvaluationProtocol(
        metrics=({"name": "bpd", "limit": 2, "draws": 1},), checkpoint="last"
    )
    comparison = Comparison(str(path), tmp_path / "out", protocol=protocol, device=NAME)
    (point,) = comparison.points()
    asked = []
    for name in ("train", "evaluate_run"):
        monkeypatch.setattr(worker, name, _noted(getattr(worker, name), asked))
    point.job.mkdir(parents=True)
    (point.job / "job.json").write_text(json.dumps(point.job_record()), "utf-8")
    assert Point.of_job(point.job).device == NAME
    assert worker.main([str(point.job)]) == 0
    assert asked == [NAME, NAME]


def _noted(function, asked):
    def noting(*args, device=None, **options):
        asked.append(device)
        return function(*args, device=device, **options)

    return noting


# -- where a model works


def test_a_model_comes_back_from_where_it_worked():
    """With the samples of the CPU; given no device it stays on the accelerator it is on."""
    here, there = models(config())
    with model_on(here, NAME) as device:
        assert device == DEVICE == next(here.parameters()).device
    assert next(here.parameters()).device == CPU
    with model_on(there) as device:
        assert device == DEVICE


def test_samples_and_measurements_are_taken_on_the_device_that_is_asked_for():
    """In Python too, from a model as from a run."""
    made = api.assemble(config())
    seen = set()
    made.denoiser.register_forward_hook(lambda _, inputs, __: seen.add(inputs[0].device))
    one = api.sample(made, 3, device=NAME, steps=3)
    api.evaluate(made, device=NAME, metrics=({"name": "bpd", "limit": 2, "draws": 1},))
    assert seen == {DEVICE}
    assert torch.equal(one.x, api.sample(made, 3, device="cpu", steps=3).x)


ASKING = [load_run, sample_run, evaluate_run, api.load, api.sample, api.evaluate]


@pytest.mark.parametrize("ask", ASKING)
def test_a_device_that_is_not_there_is_refused_by_all(runs, ask):
    """In one sentence."""
    with pytest.raises(ConfigError, match=r"^device 'gpu' is not a torch device"):
        ask(runs["masked"], device="gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch would really go there")
@pytest.mark.parametrize("ask", ASKING)
def test_what_there_is_is_the_default_of_all(runs, ask, monkeypatch):
    """Where torch says that there is a GPU, the model goes to it unasked."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises((AssertionError, RuntimeError), match="CUDA"):  # this torch has none
        ask(runs["masked"])


# -- precision


class Telling(nn.Module):
    """A network that says in which precision it was run."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.said: list[bool] = []

    def forward(self, z, log_snr, cond):
        self.said.append(torch.is_autocast_enabled(z.device.type))
        return torch.zeros(*z.shape, 5, device=z.device)


@pytest.mark.parametrize("device", ["cpu", NAME])
def test_bfloat16_is_for_the_network_alone_and_for_the_time_it_is_asked_for(device):
    """As in training; afterwards the network is as it was."""
    model, _ = models(config())
    model.denoiser = Telling()
    with model_on(model, device, "bfloat16"):
        assert not torch.is_autocast_enabled(torch.device(device).type)
        model.sampler.sample(model, Noise.of(0, 2, device=device), torch.arange(2, device=device))
    assert model.denoiser.said and all(model.denoiser.said)
    assert "forward" not in vars(model.denoiser)
    with model_on(model, device):
        model.sampler.sample(model, Noise.of(0, 2, device=device), torch.arange(2, device=device))
    assert not model.denoiser.said[-1]


def test_measurements_say_in_which_precision_they_were_taken():
    """Those in bfloat16 differ a little and say so; a precision that is none is refused."""
    made, options = api.assemble(config("gaussian-v")), {"name": "bpd", "limit": 8, "draws": 2}
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.1)
    fine = api.evaluate(made, device="cpu", metrics=(options,)).measurements["bits_per_dim"]
    coarse = api.evaluate(made, device="cpu", metrics=(options,), precision="bfloat16")
    found = coarse.measurements["bits_per_dim"]
    assert found.of["precision"] == "bfloat16" and "precision" not in fine.of
    assert found.value != fine.value and found.value == pytest.approx(fine.value, rel=0.1)
    for refused in (
        lambda: api.sample(made, 2, precision="half"),
        lambda: EvaluationProtocol(precision="x"),
    ):
        with pytest.raises(
            ConfigError, match=r"^precision '(half|x)': choose float32 or bfloat16$"
        ):
            refused()


def test_no_tensor_of_the_device_is_left_in_a_checkpoint(runs):
    """What is saved can be read on any machine."""
    for checkpoint in checkpoints(runs["masked"] / "checkpoints"):
        for part in ("model", "ema", "optimiser", "window"):
            assert not any(isinstance(t, PretendTensor) for t in checkpoint.read(part).values())
