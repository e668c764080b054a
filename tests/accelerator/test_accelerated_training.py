"""Training on an accelerator: every part runs there, and no step makes the device wait."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from elbowroom.config.assembly import build_parts
from elbowroom.config.sections import Config
from elbowroom.plugins.training.ranks import Ranks, process_group
from elbowroom.plugins.training.step import Training
from elbowroom.randomness.generators import preserve_generators, seed_generators

from tests.helpers.accelerated import CPU, DEVICE, PROCESSES, config, model
from tests.helpers.pretend_accelerator import NAME, Seen, module, watched

EVERY = ("masked", "gaussian-v", "uniform")
SCHEDULES = ("cosine", "linear", "polynomial", "vp-cosine", "flow", "edm", "linear-log-snr")
WEIGHTINGS: tuple[Any, ...] = (
    "elbo",
    "edm",
    "iddpm",
    "sigmoid",
    "fm",
    "simple",
    {"name": "isotonic", "of": "iddpm"},
    "cascade",
    "balanced",
    "soft-min-snr",
    "uncertainty",
    {"name": "positions", "of": "sigmoid", "weights": [2.0]},
)
OTHERS: tuple[dict[str, Any], ...] = (
    {"objective__times": "uniform"},
    {"objective__times": "logit-normal"},
    {"objective__times": "importance"},
    {"objective__times": "adaptive"},
    {"objective__times": "information"},
    {"objective__normalise": "units"},
    {"objective__steps": 10},
    {"train__micro_batch": 3},
    {"train__micro_batch": 3, "objective__normalise": "units"},
    {"train__clip_norm": 0.01},
    {"train__ema_warmup": False, "train__ema": 0.5},
    {"train__ema_also": [0.5, 0.9]},
    {"train__label_dropout": 0.5},
    {"train__checkpoint_activations": True},
)


def stepped(
    config: Config, device: torch.device, updates: int
) -> tuple[dict[str, torch.Tensor], Seen]:
    """Some updates: parameters, averages and moments afterwards, and what the device saw."""
    parts = build_parts(config)
    assert parts.data is not None
    training = Training(model(parts, CPU), parts.data, config.train, seed=1, ranks=Ranks(device))
    with watched() as seen:
        for n in range(updates):
            training.step(n)
    training.batches.close()
    found = training.tensors()
    return {f"{part}/{k}": t for part, made in found.items() for k, t in made.items()}, seen


def check(config: Config, updates: int = 1) -> None:
    """The step waits for nothing and does what it does on the CPU.

    Gradients of what is used several times are added up in another order there.
    """
    here, _ = stepped(config, CPU, updates)
    there, seen = stepped(config, DEVICE, updates)
    assert not seen.waits, "\n".join(map(str, seen.waits))
    assert here.keys() == there.keys()
    for name, one in here.items():
        away = (one - there[name]).abs().max()
        assert away <= 1e-5 * one.abs().max(), name


@pytest.mark.parametrize("process", PROCESSES)
def test_a_train_step_waits_for_nothing(process):
    """Every process and parametrisation; weights, averages and moments as on the CPU."""
    check(config(process), updates=3)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("process", EVERY)
def test_no_schedule_makes_a_step_wait(process, schedule):
    """Every schedule under every process."""
    check(config(process, schedule=schedule))


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=str)
@pytest.mark.parametrize("process", EVERY)
def test_no_weighting_makes_a_step_wait(process, weighting):
    """Every weighting under every process."""
    check(config(process, weighting=weighting))


@pytest.mark.parametrize("changes", OTHERS, ids=str)
@pytest.mark.parametrize("process", EVERY)
def test_no_option_makes_a_step_wait(process, changes):
    """Time samplers, normalisers, discrete time, clipping, averages and dropped labels."""
    check(config(process, **changes))


def test_dropout_is_seeded_on_the_device_that_is_used():
    """Also where that is not the current one; no other device's generator is touched."""
    second = torch.device(NAME, 1)
    assert module.current_device() == 0
    module.manual_seed_all(1)
    others = module.get_rng_state(0)
    seed_generators(7, second)
    assert module.generators[1].initial_seed() == 7 and torch.initial_seed() == 7
    assert torch.equal(module.get_rng_state(0), others)


def test_a_run_on_the_second_device_drops_the_same_units(monkeypatch):
    """What was drawn there before does not matter, nor which device it is."""
    # the pretend accelerator has one queue for gradients, that of its first device
    monkeypatch.setattr(torch.Tensor, "backward", lambda _: None)
    parts = build_parts(config(denoiser__dropout=0.5))
    assert parts.data is not None
    losses = []
    for k, device in enumerate((DEVICE, torch.device(NAME, 1))):
        module.manual_seed_all(k)
        ranks = Ranks(device)
        training = Training(model(parts, CPU), parts.data, parts.config.train, seed=1, ranks=ranks)
        losses.append(training.gradients(0).per_example.tolist())
        training.batches.close()
    assert losses[0] == losses[1]


def test_generators_are_left_as_they_were():
    """Those of the CPU and of the device in use."""
    second = torch.device(NAME, 1)
    before = torch.get_rng_state(), module.get_rng_state(1)
    with preserve_generators(second):
        seed_generators(3, second)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(module.get_rng_state(1), before[1])


def test_one_process_runs_on_the_device_it_was_given():
    """``cuda:1`` on one process means that device; a name alone means the first."""
    with process_group(f"{NAME}:1") as ranks:
        assert ranks.device == torch.device(NAME, 1) and ranks.world == 1
    with process_group(NAME) as ranks:
        assert ranks.device == torch.device(NAME, 0)
