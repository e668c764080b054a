"""The bound's boundary terms in the training log: what is logged is the whole bound."""

from __future__ import annotations

import math

import pytest
import torch
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.config.sections import load_config
from elbowroom.objective.loss import bound
from elbowroom.plugins.training.log_window import boundary
from elbowroom.plugins.training.ranks import Ranks
from elbowroom.plugins.training.step import Training
from elbowroom.randomness.noise import Noise

from tests.helpers.tiny_run import tiny_config

CPU = torch.device("cpu")
EARLY = {  # paths that end where much of the data is still, or not yet, to be seen
    "masked": {"name": "cosine", "eps": 0.05},
    "gaussian": {"name": "linear-log-snr", "log_snr_min": -3.0, "log_snr_max": 3.0},
}


def parts_of(process):
    return build_parts(load_config(tiny_config(process), [f"schedule={EARLY[process]}"]))


@pytest.mark.parametrize("process", EARLY)
def test_boundary_terms_are_those_of_the_bound(process):
    """The mean over training examples of the two terms that need no network."""
    parts = parts_of(process)
    model, split = build_model(parts), parts.data.split("train")
    x = split.take(torch.arange(len(split))).x
    terms = []
    for step in range(8):
        noise = Noise.of(1, len(x), step=step)
        encoded = model.process.encode(x)
        found = bound(
            model.process, model.schedule, lambda z, _: model.process.read(clue(z, model), z, _),
            encoded, noise,
        )  # fmt: skip
        terms.append((found.prior + found.reconstruction).mean() / (16 * math.log(2)))
    wanted = float(torch.stack(terms).mean())
    assert wanted > 0.1
    assert boundary(model, split, CPU) == pytest.approx(wanted, rel=0.05)


def clue(z, model):
    """What a network that knows nothing puts out."""
    states = model.process.signature().out_states
    return z.new_zeros((*z.shape, states) if states else z.shape, dtype=torch.float32)


def test_a_network_that_uniform_baseline_is_logged_with_log_v():
    """Under masking exactly log2 V, however early the path ends."""
    parts = parts_of("masked")
    training = Training(
        build_model(parts), parts.data, parts.config.train, seed=0, ranks=Ranks(CPU)
    )
    model = training.model
    model.denoiser = Clueless(model)
    training.distributed = model
    with torch.no_grad():
        for n in range(400):
            training.window.add(model(*training.batch(n)), torch.zeros(()))
    training.batches.close()
    logged = training.window.measurements()[0]["bits_per_dim"]
    assert logged == pytest.approx(math.log2(parts.data.spec.levels), rel=0.01)


class Clueless(torch.nn.Module):
    """Every value is as likely as any other."""

    def __init__(self, model):
        super().__init__()
        self.levels = model.process.data.levels

    def forward(self, z, level, cond):
        return torch.zeros(*z.shape, self.levels)
