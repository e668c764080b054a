"""What a training step, an update and a sample take, counted on tensors without memory."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import torch
from elbowroom import Config, Diffusion, Noise, Objective, Signature
from elbowroom.config import Parts
from elbowroom.plugins.training.optimiser import Rates, Weights
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException

from .hollow import (
    Alive,
    Blank,
    fused_attention,
    hollow_network,
    operations,
    without_memory,
)


@attrs.frozen
class Pass:
    """Forward and backward through the loss, for one batch on one device."""

    flops: int
    activations: int  # bytes alive at the peak, gradients of weights aside
    remark: str = ""


@attrs.frozen
class Update:
    """What the optimiser does after it."""

    flops: int
    states: int  # bytes it keeps


def model_without_memory(parts: Parts) -> Diffusion:
    """The model of a config as it is trained; call it within ``without_memory``."""
    config = parts.config
    assert config.denoiser is not None, "checked by the caller"
    network = hollow_network(config.denoiser, parts.process.signature()).train()
    if config.train.checkpoint_activations:
        setattr(network, "checkpoint_activations", True)  # noqa: B010  # not every network has it
    if config.train.precision == "bfloat16":
        network.forward = torch.autocast("cpu", torch.bfloat16)(network.forward)
    objective = Objective.prepared(
        parts.process,
        parts.schedule,
        parts.weighting,
        config.objective.times.build(),
        steps=config.objective.steps,
        normaliser=config.objective.normalise.build(),
    )
    return Diffusion(objective, network)


def count_pass(parts: Parts, batch: int) -> Pass:
    """Forward and backward for ``batch`` examples; gradients are there already."""
    encoded = parts.process.encode(_zeros(parts, 1))  # of a real example: its type is what counts
    with without_memory(), fused_attention():
        model = model_without_memory(parts)
        for p in model.parameters():
            p.grad = torch.empty_like(p)
        x = torch.empty(batch, *encoded.shape[1:], dtype=encoded.dtype)
        cond, noise = _labels(parts, batch), Blank(0, torch.arange(batch), batch)

        def whole() -> None:
            losses = model.objective(lambda z, level: model.predict(z, level, cond), x, noise)
            torch.autograd.backward(losses.loss)

        def network_alone() -> None:
            z, log_snr = _input(parts.process.signature(), batch)
            torch.autograd.backward(model.denoiser(z, log_snr, cond).sum())

        try:
            return _counted(whole)
        except DataDependentOutputException:
            why = f"process {parts.config.process.name} looks at values"
            return attrs.evolve(
                _counted(network_alone), remark=f"the loss's own memory is left out: {why}"
            )


def _counted(run: Callable[[], object]) -> Pass:
    with Alive() as alive:
        flops = operations(run)
    return Pass(flops, alive.peak)


def count_forward(parts: Parts) -> int:
    """One example through the network, nothing kept for gradients."""
    with without_memory(), fused_attention(), torch.no_grad():
        network = model_without_memory(parts).denoiser.eval()
        z, log_snr = _input(parts.process.signature(), 1)
        return operations(lambda: network(z, log_snr, _labels(parts, 1)))


def count_update(parts: Parts) -> Update:
    """One step of the optimiser, and what it keeps from step to step."""
    options = parts.config.train
    with without_memory():
        model = model_without_memory(parts)
        weights = list(model.parameters())
        hidden: list[nn.Parameter] = getattr(model.denoiser, "hidden_weights", list)()
        rates = Rates(options.learning_rate, options.betas, options.weight_decay)
        made = options.optimiser.build().build(Weights(weights, hidden), rates)
        for p in weights:
            p.grad = torch.empty_like(p)
        flops = operations(lambda: [one.step() for one in made])
    kept = [
        value
        for one in made
        for state in one.state.values()
        for value in state.values()
        if isinstance(value, Tensor)
    ]
    return Update(flops, sum(t.numel() * t.element_size() for t in kept))


def weight_bytes(config: Config, signature: Signature) -> tuple[int, int]:
    """How many weights a network has, and their bytes."""
    assert config.denoiser is not None
    with without_memory():
        weights = list(hollow_network(config.denoiser, signature).parameters())
    return sum(p.numel() for p in weights), sum(p.numel() * p.element_size() for p in weights)


class _Rows(nn.Module):
    """A network that knows nothing, and counts the examples it is shown."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.signature, self.count = signature, 0

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        self.count += len(z)
        states = self.signature.out_states
        return torch.zeros(z.shape if states is None else (*z.shape, states))


def count_looks(parts: Parts, samples: int = 4) -> float:
    """Examples shown to the network for a sample, guidance included, by drawing a few.

    How often most samplers look does not depend on what they see; it is drawn with two values of
    the data instead of all, which is faster. Those that reveal together what is sure look most
    often here, where nothing is. A guide that is another network is counted as this one.
    """
    if parts.sampler is None or parts.spec is None:
        return 0.0
    small = attrs.evolve(parts.spec, levels=2, tokens=None)
    process = parts.config.process.build().bind(small)
    rows = _Rows(process.signature())
    objective = Objective(
        process, parts.schedule, parts.weighting, parts.config.objective.times.build()
    )
    sampler, guided = parts.sampler, 1
    if not sampler.needs_null_label and sampler.is_guided:  # by a network of its own
        sampler, guided = attrs.evolve(sampler, guidance=1.0), 2
    model = Diffusion(objective, rows, sampler)
    sampler.sample(model, Noise.of(0, samples), _labels(parts, samples))
    return guided * rows.count / samples


def _input(signature: Signature, batch: int) -> tuple[Tensor, Tensor]:
    shape = (batch, *signature.shape)
    kind = torch.float32 if signature.in_states is None else torch.int64
    return torch.empty(shape, dtype=kind), torch.empty(batch)


def _zeros(parts: Parts, batch: int) -> Tensor:
    return torch.zeros(batch, *parts.process.data.shape, dtype=torch.int64)


def _labels(parts: Parts, batch: int) -> Tensor | None:
    if parts.process.signature().classes is None:
        return None
    return torch.zeros(batch, dtype=torch.int64)
