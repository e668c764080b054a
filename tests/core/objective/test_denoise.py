"""A model's prediction and loss at a given time."""

from __future__ import annotations

import attrs
import elbowroom as er
import pytest
import torch
from elbowroom.errors import DataError

SMALL = {"denoiser": {"name": "dit", "width": 16, "depth": 1}}
X = torch.randint(0, 17, (5, 8, 8, 1), generator=torch.Generator().manual_seed(0))
Y = torch.arange(5)


@pytest.fixture(params=["masked", "gaussian"])
def model(request):
    made = er.assemble("digits", SMALL, process=request.param)
    for p in made.parameters():  # no output is zero
        torch.nn.init.normal_(p, std=0.1)
    return made.eval()  # no dropout


def test_the_loss_is_the_training_loss_at_that_time(model):
    """At the times, and with the noise, of a training batch: the same losses."""
    noise = er.Noise.of(3, 5)
    losses = model(X, Y, noise)
    found = model.denoise(X, losses.time, Y, seed=3)
    torch.testing.assert_close(found.loss / losses.density, losses.per_example, check_dtype=False)
    torch.testing.assert_close(found.elbo / losses.density, losses.elbo, check_dtype=False)
    assert not found.loss.requires_grad


def test_the_prediction_is_that_of_the_corrupted_data(model):
    """z is the corrupted data, the prediction the network's there."""
    found = model.denoise(X, 0.5, Y)
    level = er.Level.of(torch.full((5,), 0.5), model.schedule, model.process)
    z = model.process.corrupt(model.encode(X), level, er.Noise.of(0, 5))
    torch.testing.assert_close(found.z, z)
    again = model.predict(z, level, Y)
    field = "logits" if "categorical" in model.process.traits else "x"
    torch.testing.assert_close(getattr(found.prediction, field), getattr(again, field))


def test_discrete_time_takes_whole_steps(model):
    """Of T steps, the time is that of the step it falls into."""
    model.objective = attrs.evolve(model.objective, steps=4)
    assert model.denoise(X, 0.6, Y).level.t.flatten().tolist() == [0.75] * 5


@pytest.mark.parametrize("t", [1.5, -0.1, [0.1, 2.0, 0.1, 0.1, 0.1]])
def test_times_are_within_zero_and_one(model, t):
    """Timesteps such as 500 are refused."""
    with pytest.raises(DataError, match=r"between 0 \(data\) and 1 \(noise\)"):
        model.denoise(X, torch.tensor(t))
