"""Sines and rotations."""

from __future__ import annotations

import pytest
import torch
from elbowroom.errors import ConfigError, IncompatibleError
from elbowroom.plugins.denoisers.positions import Rope, SinCos, positions_of, rotate
from hypothesis import given, settings, strategies as st


def test_sincos_has_columns_first():
    """Half the dimensions tell the column, the other half the row, each as [sin, cos]."""
    d, rows, columns = 16, 3, 5
    table = SinCos((rows, columns), d, 8).table.reshape(rows, columns, d)
    rates = 10000.0 ** (-torch.arange(d // 4) / (d // 4))
    for row in range(rows):
        for column in range(columns):
            a, b = column * rates, row * rates
            due = torch.cat([a.sin(), a.cos(), b.sin(), b.cos()])
            torch.testing.assert_close(table[row, column], due, atol=1e-6, rtol=0)


def test_rope_frequencies_are_the_papers():
    """A head of 64 on two axes turns 16 pairs an axis at 10000^(-arange(0, 32, 2) / 32)."""
    rotation = Rope((4, 6), 128, 64).rotation(torch.device("cpu")).reshape(4, 6, 32)
    rates = 10000.0 ** (-torch.arange(0, 32, 2) / 32)
    due = torch.cat([5 * rates, 3 * rates])  # column, then row
    torch.testing.assert_close(rotation[3, 5].real, due.cos(), atol=1e-5, rtol=0)
    torch.testing.assert_close(rotation[3, 5].imag, due.sin(), atol=1e-5, rtol=0)


def test_rotation_turns_neighbouring_pairs():
    """Dimensions 2i and 2i + 1 turn together, by angle i."""
    rotation = Rope((7,), 8, 4).rotation(torch.device("cpu"))
    x = torch.randn(2, 7, 2, 3, 4)
    out = rotate(x, rotation)
    angle = torch.atan2(rotation.imag, rotation.real)[:, None, None]  # [N, 1, 1, D / 2]
    even, odd = x[..., 0::2], x[..., 1::2]
    torch.testing.assert_close(out[..., 0::2], even * angle.cos() - odd * angle.sin())
    torch.testing.assert_close(out[..., 1::2], even * angle.sin() + odd * angle.cos())


@settings(max_examples=25)
@given(
    grid=st.sampled_from([(12,), (4, 6)]), shift=st.integers(1, 2), seed=st.integers(0, 2**31 - 1)
)
def test_rotated_products_depend_on_distance_alone(grid, shift, seed):
    """Moving query and key by the same way leaves their product as it is."""
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 8, generator=generator)
    n = torch.Size(grid).numel()
    rotation = Rope(grid, 8, 8).rotation(torch.device("cpu"))
    everywhere = torch.stack([q, k]).expand(1, n, 2, 8).unsqueeze(3)  # [1, N, 2, 1, 8]
    turned = rotate(everywhere, rotation).reshape(*grid, 2, 8)
    product = torch.einsum("id,jd->ij", *turned.reshape(n, 2, 8).unbind(1)).reshape(*grid, *grid)
    if len(grid) == 1:
        moved, kept = product[shift:, shift:], product[:-shift, :-shift]
    else:
        moved = product[shift:, shift:, shift:, shift:]
        kept = product[:-shift, :-shift, :-shift, :-shift]
    torch.testing.assert_close(moved, kept, atol=1e-4, rtol=0)
    assert product.std() > 1e-4  # they do depend on the distance


def test_rotation_keeps_lengths():
    """A turn changes no vector's length."""
    x = torch.randn(2, 24, 2, 3, 16)
    out = rotate(x, Rope((4, 6), 48, 16).rotation(torch.device("cpu")))
    torch.testing.assert_close(out.norm(dim=-1), x.norm(dim=-1))


def test_widths_that_do_not_divide_are_refused():
    """A width or a head that the axes cannot share is an error that says by what to divide."""
    with pytest.raises(IncompatibleError, match="divisible by 4; 6 is not"):
        SinCos((4, 4), 6, 6)
    with pytest.raises(IncompatibleError, match="divisible by 4; 6 is not"):
        Rope((4, 4), 12, 6)
    with pytest.raises(ConfigError, match="'learned' is not one of 'sincos', 'rope'"):
        positions_of("learned", (4, 4), 8, 2)
