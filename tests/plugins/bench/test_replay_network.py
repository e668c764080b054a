"""A network that can be told to repeat itself."""

from __future__ import annotations

import torch
from elbowroom.plugins.bench.replay_network import Silenceable
from torch import nn


class Counting(nn.Module):
    """A linear map that counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(3, 2)
        self.asked = 0

    def forward(self, x):
        self.asked += 1
        return self.map(x)


def test_a_silent_network_repeats_its_first_answer_and_is_not_asked():
    """Whatever it is shown; and as soon as it may speak, it does."""
    inner = Counting()
    network = Silenceable(inner)
    x, other = torch.ones(4, 3), torch.zeros(4, 3)
    network.silent = True
    first = network(x)  # nothing to repeat yet
    assert torch.equal(first, inner.map(x)) and inner.asked == 1
    assert torch.equal(network(other), first) and inner.asked == 1
    network.silent = False
    assert torch.equal(network(other), inner.map(other)) and inner.asked == 2


def test_every_parameter_of_a_silent_network_gets_a_gradient_of_zero():
    """So an optimiser has its whole work; and again after the gradients were dropped."""
    network = Silenceable(Counting())
    network(torch.ones(4, 3))
    network.silent = True
    for _ in range(2):
        network.zero_grad()
        network(torch.ones(4, 3)).square().sum().backward()
        for p in network.parameters():
            assert p.grad is not None and p.grad.shape == p.shape and not p.grad.any()
