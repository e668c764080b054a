"""Laws of rate schedules, normalisers, grids, guidance and commands: ours keep them, wrong ones
do not."""

from __future__ import annotations

import inspect

import attrs
import pytest
import torch
from elbowroom import (
    ElbowroomError,
    EvenGrid,
    Grid,
    Guidance,
    Normaliser,
    RateSchedule,
    installed,
    load_config,
)
from elbowroom.objective.classifier_free import ClassifierFree
from elbowroom.plugins.conformance import (
    check_command,
    check_grid,
    check_guidance,
    check_normaliser,
    check_rate_schedule,
)
from elbowroom.plugins.schedules.gaussian import EDM, VPCosine
from elbowroom.plugins.schedules.masking import Cosine


def ours(kind):
    """Those that can be made without options; others have tests of their own."""
    found = {name: one.load() for name, one in installed().components(kind).items()}
    return [
        pytest.param(cls(), id=name)
        for name, cls in found.items()
        if not any(p.default is p.empty for p in inspect.signature(cls).parameters.values())
    ]


@pytest.mark.parametrize("schedule", ours("rate_schedule"))
def test_rate_schedules_keep_the_laws(schedule):
    check_rate_schedule(schedule)


@pytest.mark.parametrize("normaliser", ours("normaliser"))
def test_normalisers_keep_the_laws(normaliser):
    check_normaliser(normaliser)


def _needs_a_file(grid):
    try:
        grid.made_from()
    except ElbowroomError:
        return True
    return False


@pytest.mark.parametrize("grid", [one for one in ours("grid") if not _needs_a_file(one.values[0])])
@pytest.mark.parametrize("schedule", [Cosine(), VPCosine(), EDM()], ids=repr)
def test_grids_keep_the_laws(grid, schedule):
    check_grid(grid, schedule)


@pytest.mark.parametrize("guidance", ours("guidance"))
def test_guidances_keep_the_laws(guidance):
    check_guidance(guidance)


@pytest.mark.parametrize("name", sorted(installed().commands()))
def test_commands_keep_the_laws(name):
    check_command(installed().commands()[name].load())


@attrs.frozen
class Explodes(RateSchedule):
    def __call__(self, base, n, steps):
        return base * 2.0**n


@attrs.frozen
class Fixed(RateSchedule):
    def __call__(self, base, n, steps):
        return 1e-3


@attrs.frozen
class OwnUnits(Normaliser):
    def __call__(self, losses, units, mean_over_ranks):
        return losses.sum() / units.sum()


@attrs.frozen
class Squares(Normaliser):
    def __call__(self, losses, units, mean_over_ranks):
        return losses.square().mean()


@attrs.frozen
class Backwards(Grid):
    def times(self, steps, schedule):
        return EvenGrid().times(steps, schedule).flip(0)


@attrs.frozen
class OfTheBatch(Guidance):
    def __call__(self, denoiser, classes):
        class Network(torch.nn.Module):
            def forward(self, z, log_snr, cond):
                return denoiser(z - z.mean(0), log_snr, cond)

        return Network()


def silent(number: int) -> None:
    pass


def test_wrong_ones_are_told_what_they_break():
    """Each breaks a law, and the sentence says which."""
    for check, wrong, words in (
        (check_rate_schedule, Explodes(), "between 0 and a few times its base"),
        (check_rate_schedule, Fixed(), "Twice the base is twice the rate"),
        (check_normaliser, OwnUnits(), "mean over ranks is the loss of the whole batch"),
        (check_normaliser, Squares(), "weighted sum of the losses"),
        (lambda grid: check_grid(grid, Cosine()), Backwards(), "strictly falling"),
        (check_guidance, OfTheBatch(), "does not depend on the others"),
        (check_command, silent, "docstring begins with a sentence"),
    ):
        with pytest.raises(AssertionError, match=words):
            check(wrong)


def test_a_guidance_is_a_number_or_a_component():
    """2.5, and classifier-free of scale 2.5, are the same guided network."""
    number = load_config("digits", ("sampler.guidance=2.5", "train.label_dropout=0.1"))
    named = load_config(
        "digits",
        ("sampler.guidance={name: classifier-free, scale: 2.5}", "train.label_dropout=0.1"),
    )
    assert number.sampler.build().guidance == 2.5
    assert named.sampler.build().guidance == ClassifierFree(2.5)
    again = load_config(named)
    assert again.sampler == named.sampler


def test_a_grid_takes_options_in_a_config():
    built = load_config("digits", ("sampler.grid={name: rho, rho: 3}",)).sampler.build()
    assert built.grid.rho == 3.0
    assert load_config("digits", ("sampler.grid=cosine",)).sampler.build().grid != built.grid
    with pytest.raises(TypeError, match="names are for configs"):
        attrs.evolve(built, grid="cosine")
