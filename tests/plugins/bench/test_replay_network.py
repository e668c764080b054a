"""The network that replays its first output."""

from __future__ import annotations

import torch
from elbowroom.plugins.bench.loops import ReplayNetwork
from torch import nn


class Counting(nn.Module):
    """A linear map that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(3, 2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.map(x)


def test_a_replayed_network_repeats_its_first_output_and_is_not_called():
    """For any input; afterwards it computes again."""
    inner = Counting()
    network = ReplayNetwork(inner)
    x, other = torch.ones(4, 3), torch.zeros(4, 3)
    network.replay = True
    first = network(x)  # nothing to replay yet
    assert torch.equal(first, inner.map(x)) and inner.calls == 1
    assert torch.equal(network(other), first) and inner.calls == 1
    network.replay = False
    assert torch.equal(network(other), inner.map(other)) and inner.calls == 2


def test_every_parameter_of_a_replayed_network_gets_a_gradient_of_zero():
    """So the optimiser does its whole work; also after the gradients were dropped."""
    network = ReplayNetwork(Counting())
    network(torch.ones(4, 3))
    network.replay = True
    for _ in range(2):
        network.zero_grad()
        network(torch.ones(4, 3)).square().sum().backward()
        for p in network.parameters():
            assert p.grad is not None and p.grad.shape == p.shape and not p.grad.any()
