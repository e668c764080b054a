"""MD4's network, run by its authors' own code, and ours with its weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from elbowroom.contrib.md4 import denoiser_from_flax
from elbowroom.errors import ConfigError

FILE = Path(__file__).parent / "data" / "md4_uvit_tiny.npz"
HEADS = 2


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(FILE) as file:
        return {name: file[name] for name in file.files}


def flax(golden):
    return {k.removeprefix("param:"): v for k, v in golden.items() if k.startswith("param:")}


@pytest.mark.parametrize("form", ["file", "parameters"])
def test_logits_are_md4s(golden, form):
    """With MD4's weights and inputs our logits are MD4's to 1e-4, in the file's own layout."""
    network = denoiser_from_flax(golden if form == "file" else flax(golden), HEADS)
    with torch.no_grad():
        logits = network(torch.from_numpy(golden["z"]), None, torch.from_numpy(golden["y"]))
    assert logits.dtype == torch.float32
    assert np.abs(golden["logits"]).max() > 1  # they say something
    np.testing.assert_allclose(logits.numpy(), golden["logits"], rtol=0, atol=1e-4)


def test_every_array_has_its_place(golden):
    """Changing any one array of the file changes one tensor of our network, in as many numbers."""
    before = denoiser_from_flax(golden, HEADS).state_dict()
    for name, array in flax(golden).items():
        after = denoiser_from_flax(flax(golden) | {name: array + 1}, HEADS).state_dict()
        changed = [int((after[ours] != before[ours]).sum()) for ours in before]
        assert [n for n in changed if n] == [array.size], name


def test_our_table_of_positions_is_theirs(golden):
    """The sin-cos table we compute is the one in the file."""
    network = denoiser_from_flax(golden, HEADS)
    positions = network.transformer.positions
    positions.reset_parameters()
    theirs = flax(golden)["UNet5DWrapper_0/UNet_0/DiT_0/pos_embed"]
    np.testing.assert_allclose(positions.table.numpy(), theirs, rtol=0, atol=1e-6)


def test_rotary_network_asks_for_its_size(golden):
    """Without a table of positions the size must be given, and the positions are rotary."""
    params = {k: v for k, v in flax(golden).items() if not k.endswith("pos_embed")}
    with pytest.raises(ConfigError, match=r"size=\(H, W\)"):
        denoiser_from_flax(params, HEADS)
    network = denoiser_from_flax(params, HEADS, size=(8, 12))
    assert network.signature.shape == (8, 12, 3)
    z = torch.zeros(2, 8, 12, 3, dtype=torch.int64)
    assert network(z, None, torch.tensor([0, 1])).shape == (2, 8, 12, 3, 8)


def test_names_without_a_place_are_refused(golden):
    """A parameter that uvit does not have, or lacks, is named in the error."""
    with pytest.raises(ConfigError, match="time_embed/kernel"):
        denoiser_from_flax(flax(golden) | {"time_embed/kernel": np.zeros(3)}, HEADS)
    short = flax(golden)
    del short["UNet5DWrapper_0/UNet_0/DiT_0/blocks_1/mlp/w3/kernel"]
    with pytest.raises(ConfigError, match="blocks_1/mlp/w3"):
        denoiser_from_flax(short, HEADS)
