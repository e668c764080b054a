"""Randomness: keyed, reproducible, of the right distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from elbowroom import Noise
from elbowroom.randomness.philox import philox, philox_on_cpu
from hypothesis import given, strategies as st

KNOWN_ANSWERS = [  # the generator's authors' own test vectors
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(counter, key, words):
    """In tensors, in Python's integers and in arrays, it agrees with its published vectors."""
    got = philox(tuple(torch.tensor(c) for c in counter), key)
    assert tuple(int(word) for word in got) == words
    assert philox(counter, key) == words
    even, odd = (np.array(counter[n::2], dtype=np.uint32).reshape(2, 1) for n in (0, 1))
    even, odd = philox_on_cpu(even, odd, key)
    assert tuple(np.stack((even, odd), 1).reshape(-1).tolist()) == words


@given(
    seed=st.integers(0, 2**64 - 1),
    step=st.one_of(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**32 - 1), min_size=3)),
    blocks=st.integers(0, 5),
)
def test_the_cpu_draws_what_other_devices_draw(seed, step, blocks):
    """The two ways to compute words agree, for one step and for a step per sample."""
    batch = 3 if isinstance(step, int) else len(step)
    noise = Noise.of(seed, batch).at(step if isinstance(step, int) else torch.tensor(step))
    noise = noise.select(torch.arange(batch).flip(0))
    here, there = noise._blocks_on_cpu(7, blocks), noise._blocks(7, blocks)
    assert torch.equal(here.reshape(batch, blocks, 4), there)


@given(
    seed=st.integers(0, 2**64 - 1),
    batch=st.integers(2, 9),
    row=st.integers(0, 8),
    step=st.integers(0, 2**32 - 1),
)
def test_a_sample_has_its_own_stream(seed, batch, row, step):
    """A sample's numbers do not depend on the batch around it."""
    row %= batch
    whole = Noise.of(seed, batch, step=step)
    alone = whole.select(torch.tensor([row]))
    for draw in ("uniform", "normal"):
        assert torch.equal(
            getattr(alone, draw)("a", (3, 2))[0], getattr(whole, draw)("a", (3, 2))[row]
        )
    assert alone.shared_uniform("t") == whole.shared_uniform("t")


@given(seed=st.integers(0, 2**63), size=st.integers(1, 40), more=st.integers(1, 9))
def test_a_longer_draw_begins_like_a_shorter_one(seed, size, more):
    """Element i of a draw does not depend on how many are drawn."""
    noise = Noise.of(seed, 2)
    assert torch.equal(noise.uniform("a", (size + more,))[:, :size], noise.uniform("a", (size,)))


@pytest.mark.parametrize("other", ["seed", "step", "label", "position"])
def test_every_part_of_the_key_matters(other):
    """Another seed, step, label or sample gives other numbers."""
    first = Noise.of(1, 2).uniform("a", (64,))
    second = {
        "seed": lambda: Noise.of(2, 2).uniform("a", (64,)),
        "step": lambda: Noise.of(1, 2, step=1).uniform("a", (64,)),
        "label": lambda: Noise.of(1, 2).uniform("b", (64,)),
        "position": lambda: Noise.of(1, 2).uniform("a", (64,)).flip(0),
    }[other]()
    assert not torch.isclose(first, second, atol=1e-6).any()


def test_a_step_may_differ_by_sample():
    """A batch whose samples are at different steps draws what each would draw at its own."""
    steps = torch.tensor([5, 0, 7])
    mixed = Noise.of(3, 3).at(steps).normal("a", (4,))
    for row, step in enumerate(steps.tolist()):
        assert torch.equal(mixed[row], Noise.of(3, 3, step=step).normal("a", (4,))[row])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniforms_are_uniform_and_open(dtype):
    """Uniforms fill (0, 1) evenly and never touch its ends."""
    u = Noise.of(0, 200).uniform("u", (2000,), dtype)
    assert u.dtype == dtype
    assert float(u.min()) > 0 and float(u.max()) < 1
    counts = torch.histc(u.double(), bins=100, min=0, max=1)
    assert float(((counts - 4000) ** 2 / 4000).sum()) < 160  # chi-square, 99 degrees of freedom


def test_normals_are_normal():
    """Normals have the moments and the tails they should."""
    n = Noise.of(0, 200).normal("n", (5000,), torch.float64)
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
        mean, error = (n**power).mean(), (n**power).std() / n.numel() ** 0.5
        assert abs(float(mean) - moment) < 5 * float(error)
    assert abs(int((n.abs() > 4).sum()) - 63.3) < 40  # 1e6 * P(|n| > 4)


def test_integers_cover_their_range():
    """Integers reach every value and no other."""
    drawn = Noise.of(0, 50).integers("i", 7, (100,))
    assert drawn.unique().tolist() == list(range(7))


def test_a_seed_out_of_range_is_refused():
    """A seed is a 64-bit unsigned number."""
    with pytest.raises(ValueError, match="seed"):
        Noise.of(-1, 2)
    with pytest.raises(ValueError, match="seed"):
        Noise.of(2**64, 2)


def test_the_global_state_is_left_alone():
    """Drawing neither reads nor moves torch's own generator."""
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    first = Noise.of(0, 4).normal("n", (8,))
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(1)
    assert torch.equal(first, Noise.of(0, 4).normal("n", (8,)))
