"""How weights start."""

from __future__ import annotations

import math

import pytest
import torch
from elbowroom.contracts.process import Signature
from elbowroom.plugins.denoisers.layers import Conv2d, Embedding, Linear
from elbowroom.plugins.denoisers.uvit import UViT
from hypothesis import given, settings, strategies as st


@pytest.fixture(autouse=True)
def seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@settings(max_examples=20)
@given(fan_in=st.integers(1, 600), gain=st.floats(0.1, 3))
def test_linear_starts_at_gain_over_root_fan_in(fan_in, gain):
    """A matrix has standard deviation gain / sqrt(fan_in), cut at two of the wide normal's."""
    weight = Linear(fan_in, math.ceil(20000 / fan_in), gain=gain).weight
    std = gain / math.sqrt(fan_in)
    assert weight.std().item() == pytest.approx(std, rel=0.05)
    assert weight.abs().max().item() <= 2 * std / 0.879 + 1e-6
    assert weight.abs().max().item() > 1.8 * std


def test_conv_counts_its_window():
    """A convolution's fan-in is its channels times its window; biases start at zero."""
    conv = Conv2d(16, 64, 3)
    assert conv.weight.std().item() == pytest.approx(1 / math.sqrt(16 * 9), rel=0.05)
    assert not conv.bias.any()


def test_embedding_starts_at_one_over_root_features():
    """An embedding's rows have length one on average."""
    assert Embedding(500, 64).weight.std().item() == pytest.approx(1 / 8, rel=0.05)


def test_mlp_is_scaled_by_depth():
    """The three MLP matrices have standard deviation sqrt(2 / (depth fan_in)), no others do."""
    depth, width = 8, 128
    network = UViT(Signature((8, 8, 1), 18, 17, 10, False), width=width, depth=depth)
    block = network.transformer.blocks[0]
    for matrix in (block.w31, block.w2):
        due = math.sqrt(2 / (depth * matrix.in_features))
        assert matrix.weight.std().item() == pytest.approx(due, rel=0.05)
        assert matrix.bias is None
    assert block.qkv.weight.std().item() == pytest.approx(width**-0.5, rel=0.05)
    assert block.out.bias is None
    for zero in (network.transformer.told, network.told, network.to_pixels, network.head):
        assert not zero.weight.any()


def test_reset_brings_a_meta_network_to_life():
    """A network built on the meta device starts like any other once it is given memory."""
    signature = Signature((8, 8, 3), 18, 17, 10, True)
    with torch.device("meta"):
        network = UViT(signature)
    assert all(p.is_meta for p in network.parameters())
    network.to_empty(device="cpu")
    for module in network.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    born = UViT(signature)
    for (name, p), q in zip(network.state_dict().items(), born.state_dict().values(), strict=True):
        assert p.std().item() == pytest.approx(q.std().item(), rel=0.3, abs=1e-8), name
    assert torch.equal(network.transformer.positions.table, born.transformer.positions.table)
