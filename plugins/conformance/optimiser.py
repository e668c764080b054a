"""Laws of an optimiser."""

from __future__ import annotations

import torch
from elbowroom.contracts import hidden_weights
from elbowroom.plugins.training.optimiser import Optimiser, Rates, Weights
from torch import Tensor, nn

from .law import ensure, run

_RATES = Rates(1e-2, (0.9, 0.99), 0.01)


def check_optimiser(optimiser: Optimiser) -> None:
    """Check the laws of an optimiser, on a small network with matrices, vectors and filters."""
    run(optimiser, [_every_weight_once, _moves, _descends, _same_again], optimiser)


def _network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.ModuleDict(
            {
                "first": nn.Conv1d(1, 6, 1),
                "filters": nn.ModuleList([nn.Conv1d(6, 6, 3, padding=1)]),
                "blocks": nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)]),
                "last": nn.Linear(6, 3),
            }
        )


def _weights(network: nn.Module) -> Weights:
    return Weights(list(network.parameters()), hidden_weights(network))


def _loss(network: nn.Module) -> Tensor:
    x = torch.linspace(-1, 1, 40).reshape(8, 1, 5)
    h = network.get_submodule("first")(x)
    for block in network.get_submodule("filters").children():
        h = h + torch.tanh(block(h))
    h = h.transpose(1, 2)
    for block in network.get_submodule("blocks").children():
        h = h + torch.tanh(block(h))
    target = torch.stack([x[:, 0], x[:, 0] ** 2, 1 - x[:, 0]], -1)
    out: Tensor = network.get_submodule("last")(h)
    return ((out - target) ** 2).mean()


def _trained(optimiser: Optimiser, steps: int) -> tuple[nn.Module, list[float]]:
    network = _network()
    built, losses = optimiser.build(_weights(network), _RATES), []
    for _ in range(steps):
        loss = _loss(network)
        losses.append(float(loss.detach()))
        loss.backward()
        for one in built:
            one.step()
            one.zero_grad()
    return network, losses


def _every_weight_once(optimiser: Optimiser) -> None:
    """The optimisers together have every weight, and none twice."""
    weights = _weights(_network())
    held = [
        id(p)
        for one in optimiser.build(weights, _RATES)
        for group in one.param_groups
        for p in group["params"]
    ]
    ensure(len(held) == len(set(held)), "some weight is updated by two optimisers.")
    missing = len(weights.every) - len(held)
    ensure(set(held) == {id(p) for p in weights.every}, f"{missing} weights are never updated.")


def _moves(optimiser: Optimiser) -> None:
    """One step changes every weight that has a gradient."""
    before, (after, _) = _network(), _trained(optimiser, 1)
    for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True):
        ensure(not torch.equal(old, new), f"{name} does not move.")


def _descends(optimiser: Optimiser) -> None:
    """A smooth loss falls."""
    _, losses = _trained(optimiser, 60)
    ensure(losses[-1] < 0.5 * losses[0], f"the loss goes from {losses[0]:.3g} to {losses[-1]:.3g}.")


def _same_again(optimiser: Optimiser) -> None:
    """The same gradients give the same weights."""
    (one, _), (other, _) = _trained(optimiser, 3), _trained(optimiser, 3)
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        ensure(torch.equal(a, b), f"{name} differs between two runs.")
