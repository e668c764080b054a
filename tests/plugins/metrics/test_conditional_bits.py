"""Bits of hidden positions given the others."""

from __future__ import annotations

import math

import elbowroom as er
import pytest
import torch
from elbowroom.plugins.metrics.conditional_bits import ConditionalBits


def model_of(process: str, **objective):
    return er.assemble(
        data={"name": "digits", "size": 4, "levels": 5, "limit": 200},
        process=process,
        denoiser={"name": "dit", "width": 16, "depth": 1},
        sampler="ancestral",
        objective=objective,
    )


@pytest.mark.parametrize(
    ("process", "path"), [("masked", "shared"), ("gaussian", "shared"), ("gaussian", "given")]
)
def test_a_network_without_knowledge_has_the_uniform_bits(process, path):
    """A new network has zero logits: log2 V per hidden position, however many are given."""
    metric = ConditionalBits(keep=["left", "random:0.75"])
    found = er.evaluate(model_of(process, path=path), metrics=(metric,)).measurements
    assert set(found) == {"conditional_bits_left", "conditional_bits_random:0.75"}
    for one in found.values():
        assert one.value == pytest.approx(math.log2(5), abs=5 * one.standard_error + 0.02)
        assert one.of["path"] == (
            "replacement" if (process, path) == ("gaussian", "shared") else "clean"
        )


def test_given_positions_inform_the_others():
    """A network that copies its neighbour has fewer bits with the neighbour given."""
    model = er.assemble(
        process="masked",
        data=torch.utils.data.TensorDataset(torch.arange(400)[:, None].expand(-1, 2) % 4),
        denoiser=Copy(),
        sampler="ancestral",
    )
    metric = ConditionalBits(keep=["prefix", "suffix"])
    found = er.evaluate(model, metrics=(metric, "bpd")).measurements
    assert found["conditional_bits_prefix"].value == pytest.approx(0, abs=0.02)
    assert found["conditional_bits_suffix"].value == pytest.approx(0, abs=0.02)
    assert found["bits_per_dim"].value == pytest.approx(1, abs=0.1)  # 2 bits for two positions


class Copy(torch.nn.Module):
    """Two equal tokens of four values: the value of the other one, if it is visible."""

    def forward(self, z, log_snr, cond):
        other = z.flip(1)
        return 30.0 * torch.nn.functional.one_hot(other.clamp(max=4), 5)[..., :4].float()


@pytest.mark.parametrize(
    ("keep", "message"),
    [(["middle"], "'middle' is not one of"), (["left:1"], "leaves nothing to predict")],
)
def test_wrong_masks_are_refused(keep, message):
    """Before anything is measured."""
    with pytest.raises(er.ElbowroomError, match=message):
        er.evaluate(model_of("masked"), metrics=(ConditionalBits(keep=keep),))
