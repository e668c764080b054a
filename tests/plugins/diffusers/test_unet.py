"""diffusers' U-Net behind our contract."""

from __future__ import annotations

import pytest
import torch
from elbowroom.contracts.process import Signature
from elbowroom.errors import ConfigError, ElbowroomError, IncompatibleError
from elbowroom.plugins.conformance import check_denoiser
from elbowroom.plugins.diffusers.unet import UNet

TINY = {"channels": 8, "multiples": (1, 2), "layers": 1, "head": 4, "groups": 4}
LABELLED = Signature((8, 8, 1), 6, 5, 3, needs_level=False)
ODD = Signature((10, 8, 1), 6, 5, None, needs_level=False)
REAL = Signature((8, 12, 3), None, None, None, needs_level=True)


def stirred(signature, **options):
    net = UNet(signature, **(TINY | options)).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return net


def test_conforms():
    """The laws of a denoiser hold for both kinds of signature."""
    check_denoiser(lambda s: UNet(s, **TINY), (LABELLED, REAL))


def test_starts_by_saying_nothing():
    """The output is zero at first."""
    out = UNet(REAL, **TINY)(torch.randn(2, 8, 12, 3), torch.zeros(2), None)
    assert out.shape == (2, 8, 12, 3)
    assert not out.any()


@pytest.mark.parametrize(
    ("needs", "time", "told"),
    [(True, "auto", True), (False, "auto", False), (False, "yes", True), (True, "no", False)],
)
def test_level_is_told_when_it_is_needed(needs, time, told):
    """``time: auto`` is what the process needs, ``yes`` and ``no`` overrule it."""
    net = stirred(Signature((8, 8, 1), None, None, None, needs), time=time)
    z = torch.randn(2, 8, 8, 1)
    low, high = (net(z, torch.full((2,), level), None) for level in (-4.0, 4.0))
    assert torch.equal(low, high) != told
    if told:
        with pytest.raises(ValueError, match="log_snr is None"):
            net(z, None, None)


def test_labels():
    """Labels matter and are insisted on; a null class is one more, for no label."""
    z = torch.randint(6, (2, 8, 8, 1))
    net = stirred(LABELLED)
    assert not torch.equal(net(z, None, torch.tensor([1, 1])), net(z, None, torch.tensor([1, 2])))
    with pytest.raises(ElbowroomError, match="3 classes needs labels"):
        net(z, None, None)
    net = stirred(LABELLED, null_class=True)
    assert torch.equal(net(z, None, None), net(z, None, torch.tensor([3, 3])))


def test_checkpointing_changes_nothing_but_memory():
    """Recomputed activations give the same gradients and the same state dict."""
    net = stirred(REAL, dropout=0.0).train()
    names = list(net.state_dict())
    gradients = []
    for wanted in (False, True):
        net.checkpoint_activations = wanted
        assert net.checkpoint_activations is wanted
        net.zero_grad()
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(2, 8, 12, 3, generator=generator)
        net(z, torch.tensor([-1.0, 2.0]), None).square().mean().backward()
        gradients.append([p.grad.clone() for p in net.parameters()])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)
    assert list(net.state_dict()) == names


def test_builds_on_the_meta_device():
    """Its parameters can be counted without memory for them."""
    with torch.device("meta"):
        assert all(p.is_meta for p in UNet(REAL).parameters())


@pytest.mark.parametrize(
    ("signature", "options", "error", "message"),
    [
        (Signature((16,), 5, 4, None, False), {}, IncompatibleError, "Use 'dit'"),
        (ODD, {"multiples": (1, 1, 1)}, IncompatibleError, "halved 2 times"),
        (REAL, {"groups": 3}, ConfigError, "groups: 8 channels do not divide by 3"),
        (REAL, {"multiples": ()}, ConfigError, "multiples"),
        (REAL, {"dropout": 1.5}, ConfigError, "dropout: 1.5"),
        (REAL, {"layers": 0}, ConfigError, "layers: 0"),
        (REAL, {"time": "maybe"}, ConfigError, "'maybe' is not one of"),
        (REAL, {"null_class": True}, ConfigError, "needs data with classes"),
    ],
)
def test_what_cannot_work_is_refused(signature, options, error, message):
    """Shapes and values that cannot work are errors with the option's name."""
    with pytest.raises(error, match=message):
        UNet(signature, **(TINY | options))


def test_wrong_input_is_refused():
    """An input of another shape than the network was built for is named."""
    with pytest.raises(ValueError, match=r"built for \[B, 8, 12, 3\]"):
        UNet(REAL, **TINY)(torch.zeros(2, 8, 8, 3), torch.zeros(2), None)
