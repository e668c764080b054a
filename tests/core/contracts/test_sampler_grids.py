"""Grids of samplers, and the noise of a path."""

from __future__ import annotations

import pytest
import torch
from elbowroom import EvenGrid, Noise
from elbowroom.contracts.trajectory import PathNoise
from elbowroom.plugins.samplers.grid import CosineGrid, LogSNRGrid, RhoGrid
from elbowroom.plugins.schedules.gaussian import EDM, Flow, VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear
from hypothesis import given, strategies as st

GRIDS = {
    "uniform": EvenGrid(),
    "cosine": CosineGrid(),
    "log-snr": LogSNRGrid(),
    "rho": RhoGrid(),
}

SCHEDULES = [Cosine(), Linear(), VPCosine(), Flow(), EDM()]

# i, t, s, alpha_t, alpha_s, unmask probability: MD4's own code, float32 (whence the tolerance of
# 1e-7: it takes a small difference of large numbers), 256 steps
COSINE_GRID_LINEAR_SCHEDULE = [
    (
        0,
        1.0,
        0.999981164932251,
        9.999999747378752e-05,
        0.00011883129627676681,
        1.883318212114383e-05,
    ),
    (
        1,
        0.999981164932251,
        0.9999247193336487,
        0.00011883129627676681,
        0.00017526560986880213,
        5.644102055167066e-05,
    ),
    (
        64,
        0.9238795042037964,
        0.9215140342712402,
        0.07620527595281601,
        0.07857026904821396,
        0.0025600850858260088,
    ),
    (
        128,
        0.7071067690849304,
        0.7027547359466553,
        0.2929346561431885,
        0.297285795211792,
        0.006153800502891949,
    ),
    (
        255,
        0.006135858129709959,
        0.0,
        0.9937654137611389,
        0.9999000430107117,
        0.9839673419439956,
    ),
]
UNIFORM_GRID_COSINE_SCHEDULE = [
    (0, 1.0, 0.99609375, 9.999999747378752e-05, 0.00011883129627676681, 1.883318212114383e-05),
    (64, 0.75, 0.74609375, 0.07620527595281601, 0.07857026904821396, 0.0025600850858260088),
    (254, 0.0078125, 0.00390625, 0.9876309633255005, 0.9937654137611389, 0.49595215836698503),
]


@pytest.mark.parametrize(
    ("grid", "schedule", "rows"),
    [
        ("cosine", Linear(), COSINE_GRID_LINEAR_SCHEDULE),
        ("uniform", Cosine(), UNIFORM_GRID_COSINE_SCHEDULE),
    ],
)
def test_grids_agree_with_the_reference(grid, schedule, rows):
    """Times, visible shares and reveal probabilities are those of MD4's sampler."""
    from elbowroom.plugins.masked.process import Masked

    times = GRIDS[grid].times(256, schedule)
    lam = schedule.log_snr(times)
    for i, t, s, a_t, a_s, reveal in rows:
        assert times[i].item() == pytest.approx(t, rel=1e-6, abs=1e-7)
        assert times[i + 1].item() == pytest.approx(s, rel=1e-6, abs=1e-7)
        assert lam[i].sigmoid().item() == pytest.approx(a_t, rel=1e-5, abs=1e-7)
        assert lam[i + 1].sigmoid().item() == pytest.approx(a_s, rel=1e-5, abs=1e-7)
        assert Masked().step_price(lam[i], lam[i + 1]).item() == pytest.approx(
            reveal, rel=1e-3, abs=1e-7
        )


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("grid", sorted(GRIDS))
@pytest.mark.parametrize("steps", [1, 2, 256])
def test_grids_fall_from_one_to_zero(grid, schedule, steps):
    """A grid has steps + 1 times in float64, strictly falling, with exact ends."""
    t = GRIDS[grid].times(steps, schedule)
    assert t.shape == (steps + 1,)
    assert t.dtype == torch.float64
    assert (t[0], t[-1]) == (1.0, 0.0)
    assert (t.diff() < 0).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_log_snr_grid_is_even_in_lambda(schedule):
    """lambda rises by the same amount in each step."""
    lam = schedule.log_snr(LogSNRGrid().times(40, schedule)).diff()
    assert torch.allclose(lam, lam.mean().expand(40), rtol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_rho_grid_is_even_in_a_root_of_sigma(schedule):
    """sigma^(1/7) falls by the same amount in each step, as in EDM."""
    sigma = (-schedule.log_snr(RhoGrid().times(40, schedule)) / 2).exp()
    root = (sigma ** (1 / 7)).diff()
    assert torch.allclose(root, root.mean().expand(40), rtol=1e-6)


@given(
    st.integers(0, 2**32),
    st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=9), max_size=3),
    st.sampled_from([None, torch.float32]),
    st.booleans(),
)
def test_remembered_noise_is_the_same_noise(seed, selections, dtype, asked_before):
    """Whatever rows are selected, in however many turns, the numbers are those of plain noise."""
    plain = Noise.of(seed, 9)
    kept = PathNoise.remembering(plain)
    if asked_before:
        kept.uniform("reveal", (2, 3), dtype)
    for chosen in selections:
        index = torch.tensor([k % len(plain) for k in chosen])
        plain, kept = plain.select(index), kept.select(index)
    assert torch.equal(
        kept.uniform("reveal", (2, 3), dtype), plain.uniform("reveal", (2, 3), dtype)
    )
    assert torch.equal(kept.at(5).normal("reverse", (4,)), plain.at(5).normal("reverse", (4,)))
    assert torch.equal(kept.positions, plain.positions)


def test_remembered_noise_is_computed_once(monkeypatch):
    """A path's uniforms are computed once, however many events ask for them."""
    calls = []
    compute = Noise._words
    monkeypatch.setattr(
        Noise, "_words", lambda self, *a, **k: (calls.append(len(self)), compute(self, *a, **k))[1]
    )
    noise = PathNoise.remembering(Noise.of(0, 9))
    for _ in range(5):
        noise.select(torch.tensor([1, 2])).uniform("value", (4,))
        noise.uniform("reveal", (4,))
        noise.select(torch.tensor([1, 2])).select(torch.tensor([1])).uniform("reveal", (4,))
    assert calls == [9, 9]


def test_noise_at_another_step_is_not_remembered():
    """Numbers of other steps are used once and not kept."""
    noise = PathNoise.remembering(Noise.of(0, 3))
    assert type(noise.at(1)) is Noise
