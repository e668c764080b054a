"""Sampling on an accelerator: the CPU's samples, and at most one wait a step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from elbowroom import train
from elbowroom.contracts.sampler import Frame
from elbowroom.objective.diffusion import Diffusion
from elbowroom.randomness.noise import Noise

from tests.helpers.accelerated import CPU, DEVICE, PROCESSES, config, models
from tests.helpers.pretend_accelerator import Event, watched

STEPS, COUNT = 6, 5
MASKED: tuple[dict[str, Any], ...] = (
    {"name": "ancestral"},
    {"name": "ancestral", "skip": False},
    {"name": "first-hitting"},
    {"name": "first-hitting", "steps": 16},
    {"name": "top-p", "p": 0.7},
    {"name": "confidence"},
    {"name": "scattered"},
    {"name": "corrected", "corrections": 2},
    {"name": "corrected", "tokens": 3},
    {"name": "remask", "eta": 0.3},
    {"name": "remask", "eta": 0.3, "sigma": "cap", "before": 0.7},
    {"name": "remask", "eta": 0.3, "sigma": "psi"},
)
GAUSSIAN: tuple[dict[str, Any], ...] = (
    {"name": "ancestral"},
    {"name": "ddim"},
    {"name": "ddim", "eta": 0.5, "grid": "cosine"},
    {"name": "heun"},
    {"name": "heun", "churn": 3.0},
    {"name": "multistep"},
)
SCHEDULERS = (
    "DDIMScheduler",
    "DDPMScheduler",
    "DPMSolverMultistepScheduler",
    "EulerAncestralDiscreteScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "UniPCMultistepScheduler",
)


def walked(model: Diffusion, device: torch.device) -> tuple[Frame, list[list[Event]]]:
    """The last frame, and the waits before each frame."""
    noise = Noise.of(4, COUNT, device=device)
    cond = torch.arange(COUNT, device=device) % 10
    assert model.sampler is not None
    frames, waits = [], []
    path = model.sampler.frames(model, noise, cond)
    with torch.no_grad():
        while True:
            with watched() as seen:
                frame = next(path, None)
            if frame is None:
                return frames[-1], waits
            frames.append(frame)
            waits.append(seen.waits)


def check(process: str, sampler: dict[str, Any]) -> list[list[Event]]:
    """The same samples and calls as on the CPU; the waits before each frame."""
    chosen = {"steps": STEPS, **sampler}
    here, there = models(config(process, sampler=chosen, train__label_dropout=0.1))
    one, _ = walked(here, CPU)
    other, waits = walked(there, DEVICE)
    assert other.x is not None and other.x.device == DEVICE
    assert torch.equal(one.x, other.x.cpu()) and torch.equal(one.calls, other.calls.cpu())
    assert len(one.x.unique()) > 1, "a test of samples needs samples that differ"
    return waits


def at_most_one_a_step(waits: list[list[Event]], before_the_path: int) -> None:
    """The first frame is where the path begins.

    The last is decoded: which samples are looked at again, which of their tokens are hidden (or
    whether their values are finite, twice), and whether all the path was.
    """
    _, first, *steps, last = waits
    assert len(first) <= 1 + before_the_path, "\n".join(map(str, first))
    for step in steps:
        assert len(step) <= 1, "\n".join(map(str, step))
    assert len(last) <= 4, "\n".join(map(str, last))


@pytest.mark.parametrize("guidance", [1.0, 2.0])
@pytest.mark.parametrize("sampler", MASKED, ids=str)
def test_masked_samples_are_those_of_the_cpu(sampler, guidance):
    """Bit by bit, with and without guidance; one wait a step, one for the table of events."""
    waits = check("masked", {**sampler, "guidance": guidance})
    at_most_one_a_step(waits, before_the_path=1)


@pytest.mark.parametrize("guidance", [1.0, 2.0])
@pytest.mark.parametrize("sampler", GAUSSIAN, ids=str)
def test_gaussian_samples_are_those_of_the_cpu(sampler, guidance):
    """Bit by bit; no step waits."""
    waits = check("gaussian-v", {**sampler, "guidance": guidance})
    assert not any(waits[2:-1])
    at_most_one_a_step(waits, before_the_path=0)


@pytest.mark.parametrize("guidance", [1.0, 2.0])
def test_drawn_values_are_those_of_the_cpu(guidance):
    """Bit by bit; no step waits, and the last look no more than others'."""
    drawn = {"name": "multistep", "begin": -4.0, "end": 4.0, "draw": True, "guidance": guidance}
    waits = check("gaussian-levels", drawn)
    assert not any(waits[2:-1])
    at_most_one_a_step(waits, before_the_path=0)


@pytest.mark.parametrize("process", ["masked", "gaussian-v"])
def test_guidance_in_an_interval_makes_nobody_wait(process):
    """The CPU's samples; whether a level lies inside is not asked of the device."""
    way = {"name": "interval", "scale": 3.0, "low": -1.0, "high": 2.0}
    at_most_one_a_step(check(process, {"name": "ancestral", "guidance": way}), before_the_path=1)


def test_a_guide_goes_where_the_model_is(tmp_path):
    """Autoguidance by a run: the CPU's samples, and no more waits."""
    guide = config("gaussian-v", train__steps=2, train__label_dropout=0.1)
    train(guide, tmp_path / "guide", device="cpu", without=("console", "tensorboard"))
    way = {"name": "autoguidance", "run": str(tmp_path / "guide"), "scale": 2.0}
    waits = check("gaussian-v", {"name": "ancestral", "guidance": way})
    at_most_one_a_step(waits, before_the_path=0)


@pytest.mark.parametrize("process", [name for name in PROCESSES if name != "masked"])
def test_every_process_samples_as_on_the_cpu(process):
    """Whatever a Gaussian network is asked for, and uniform states."""
    at_most_one_a_step(check(process, {"name": "ancestral"}), before_the_path=0)


def test_guesses_made_noisy_anew_are_those_of_the_cpu():
    """Uniform states, with the second part of the kernel often chosen; no step waits."""
    waits = check("uniform", {"name": "psi", "eta": 0.4})
    assert not any(waits[1:-1])


@pytest.mark.parametrize("fill", ["argmax", "draw"])
def test_what_is_hidden_at_the_end_is_filled_in_as_on_the_cpu(fill):
    """Waited for are the samples, the tokens, and whether all was finite."""
    here, there = models(
        config("masked", process__fill=fill, schedule={"name": "cosine", "eps": 0.2})
    )
    one, _ = walked(here, CPU)
    other, waits = walked(there, DEVICE)
    assert torch.equal(one.x, other.x.cpu())
    assert len(waits[-1]) == 3


@pytest.mark.filterwarnings("ignore")  # the library's own
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers_of_diffusers_sample_as_on_the_cpu(scheduler):
    """Bit by bit; one wait for the seeds of their generators, and UniPC solves for its weights."""
    waits = check("gaussian-v", {"name": "diffusers", "scheduler": scheduler})
    at_most_one_a_step(waits, before_the_path=1)
