"""Laws of a denoiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from elbowroom import Denoiser, Signature
from elbowroom.randomness import preserve_generators, seed_generators
from torch import Tensor

from .law import close, ensure, run

IMAGES = (
    Signature((8, 8, 1), 18, 17, 10, needs_level=False),
    Signature((8, 8, 3), None, None, None, needs_level=True),
)
"""A categorical and a real-valued signature for image denoisers."""


def check_denoiser(
    build: Callable[[Signature], Denoiser], signatures: Sequence[Signature] = IMAGES
) -> None:
    """Check the laws of a denoiser; ``build`` is its class, or a function of the signature."""
    for signature in signatures:
        with preserve_generators():
            seed_generators(0)
            network = build(signature).eval()
        run(build, [_shape, _deterministic, _separate, _learns, _reloads], network, build)


def _inputs(signature: Signature, batch: int = 4) -> tuple[Tensor, Tensor | None, Tensor | None]:
    generator = torch.Generator().manual_seed(0)
    shape = (batch, *signature.shape)
    if signature.in_states is None:
        z = torch.randn(shape, generator=generator)
    else:
        z = torch.randint(signature.in_states, shape, generator=generator)
    log_snr = torch.linspace(-3, 3, batch) if signature.needs_level else None
    cond = None if signature.classes is None else torch.arange(batch) % signature.classes
    return z, log_snr, cond


def _stir(network: Denoiser) -> None:
    """Perturb all weights, so that zero-initialised outputs do not hide anything."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))


def _shape(network: Denoiser, _: object) -> None:
    """The output has the shape of the signature, [B, *D] or [B, *D, V], and is finite."""
    signature = network.signature
    z, log_snr, cond = _inputs(signature)
    out = network(z, log_snr, cond)
    states = () if signature.out_states is None else (signature.out_states,)
    due = (*z.shape, *states)
    ensure(tuple(out.shape) == due, f"it is {tuple(out.shape)}, expected {due}.")
    ensure(out.isfinite(), "it is not finite.")


def _deterministic(network: Denoiser, _: object) -> None:
    """In eval mode the same input gives the same output."""
    inputs = _inputs(network.signature)
    close(network(*inputs), network(*inputs), "a second output", relative=0)


def _separate(network: Denoiser, _: object) -> None:
    """Samples of a batch are independent: permuting the batch permutes the output."""
    _stir(network)
    z, log_snr, cond = _inputs(network.signature)
    order = torch.tensor([2, 0, 3, 1])
    out = network(z, log_snr, cond)
    permuted = network(
        z[order],
        None if log_snr is None else log_snr[order],
        None if cond is None else cond[order],
    )
    close(permuted, out[order], "the output of a permuted batch", relative=1e-3, absolute=1e-4)


def _learns(network: Denoiser, build: Callable[[Signature], Denoiser]) -> None:
    """After a few optimiser steps gradients have reached every parameter."""
    fresh = build(network.signature)
    optimiser = torch.optim.Adam(fresh.parameters(), lr=1e-2)
    inputs = _inputs(network.signature)
    target = torch.randn(fresh(*inputs).shape, generator=torch.Generator().manual_seed(2))
    reached: set[str] = set()
    for _ in range(6):
        optimiser.zero_grad()
        ((fresh(*inputs) - target) ** 2).mean().backward()
        reached |= {
            name
            for name, p in fresh.named_parameters()
            if p.grad is not None and bool((p.grad != 0).any())
        }
        optimiser.step()
    missed = sorted({name for name, _ in fresh.named_parameters()} - reached)
    ensure(not missed, f"none reached {missed[:5]}.")


def _reloads(network: Denoiser, build: Callable[[Signature], Denoiser]) -> None:
    """A network with the weights of another has its outputs."""
    twin = build(network.signature).eval()
    twin.load_state_dict(network.state_dict())
    inputs = _inputs(network.signature)
    close(twin(*inputs), network(*inputs), "the reloaded output", relative=0, absolute=1e-6)
