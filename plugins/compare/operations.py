"""Floating-point operations of a training step, counted without computing it.

The network is built on torch's meta device and run on fake tensors, which have a shape and a type
but no memory. ``FlopCounterMode`` counts matrix products, convolutions and attention of forward,
backward and optimiser (a multiplication and an addition are two operations; elementwise ones are
not counted). Attention is counted as that of a fused kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from elbowroom import Config, ConfigError, Diffusion, Noise, Objective
from elbowroom.config import Parts, build_parts, network_signature
from elbowroom.plugins.training.optimiser import Rates, Weights
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode


def step_flops(config: Config) -> float:
    """Operations of one training step.

    Args:
        config: A config with a data set and a denoiser. The data set's files need not be there if
            its shape is known without them.

    Returns:
        Operations of forward, backward and optimiser for ``train.batch_size`` examples.

    Raises:
        ConfigError: The config names no data set or no denoiser.

    Example:
        >>> step_flops(load_config("digits"))  # doctest: +SKIP
        2.3e10
    """
    parts, train = build_parts(config), config.train
    for name, there in (("denoiser", config.denoiser), ("data", parts.spec)):
        if there is None:
            raise ConfigError(f"{name}: missing. Counting operations needs one")
    batch = min(train.batch_size, train.micro_batch or train.batch_size)
    return float(train.batch_size / batch * _pass_flops(parts, batch) + _update_flops(parts))


def _pass_flops(parts: Parts, batch: int) -> int:
    """Forward and backward of the loss for ``batch`` examples."""
    data = parts.process.data
    encoded = parts.process.encode(torch.zeros(1, *data.shape, dtype=torch.int64))
    signature = parts.process.signature()
    with FakeTensorMode(allow_non_fake_inputs=True), _fused_attention():
        model = _model(parts)
        x = torch.empty(batch, *encoded.shape[1:], dtype=encoded.dtype)
        cond = None if signature.classes is None else torch.zeros(batch, dtype=torch.int64)
        noise = _EmptyNoise(0, torch.arange(batch), batch)

        def loss() -> None:
            losses = model.objective(lambda z, level: model.predict(z, level, cond), x, noise)
            torch.autograd.backward(losses.loss)

        def network_alone() -> None:
            kind = torch.float32 if signature.in_states is None else torch.int64
            z = torch.empty(batch, *signature.shape, dtype=kind)
            torch.autograd.backward(model.denoiser(z, torch.empty(batch), cond).sum())

        try:
            return _count(loss)
        except DataDependentOutputException:  # the loss reads values, which fake tensors lack
            return _count(network_alone)


def _update_flops(parts: Parts) -> int:
    """One step of the optimiser."""
    options = parts.config.train
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = _model(parts)
        weights = list(model.parameters())
        hidden: list[nn.Parameter] = getattr(model.denoiser, "hidden_weights", list)()
        rates = Rates(options.learning_rate, options.betas, options.weight_decay)
        made = options.optimiser.build().build(Weights(weights, hidden), rates)
        for p in weights:
            p.grad = torch.empty_like(p)
        return _count(lambda: [one.step() for one in made])


def _model(parts: Parts) -> Diffusion:
    """The model of a config with fake tensors; call it within a FakeTensorMode."""
    config = parts.config
    assert config.denoiser is not None
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network: nn.Module = config.denoiser.build(network_signature(config, parts.process))
    made: dict[int, Tensor] = {}  # tensors that modules share stay shared
    for module in network.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = made.setdefault(id(tensor), _fake(tensor))  # type: ignore[assignment]  # a parameter stays one
    network.train()
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


def _fake(tensor: Tensor) -> Tensor:
    made = torch.empty_like(tensor, device="cpu")
    is_parameter = isinstance(tensor, nn.Parameter)
    return nn.Parameter(made, tensor.requires_grad) if is_parameter else made


class _EmptyNoise(Noise):
    """Noise of the right shapes, without values."""

    def uniform(
        self, label: str, shape: Sequence[int] = (), dtype: torch.dtype | None = None
    ) -> Tensor:
        return torch.empty(len(self), *shape, dtype=dtype or torch.float64)

    def normal(
        self, label: str, shape: Sequence[int] = (), dtype: torch.dtype | None = None
    ) -> Tensor:
        return torch.empty(len(self), *shape, dtype=dtype or torch.float32)


_DROPOUT = 4  # its position among the arguments of attention


@contextmanager
def _fused_attention() -> Iterator[None]:
    """Attention by the fused kernel, which the CPU does not use with dropout.

    The function is replaced by name: torch's modes do not reach recomputed activations.
    """
    plain = F.scaled_dot_product_attention

    def without_dropout(*given: Any, **options: Any) -> Tensor:
        if len(given) > _DROPOUT:
            given = (*given[:_DROPOUT], 0.0, *given[_DROPOUT + 1 :])
        else:
            options["dropout_p"] = 0.0
        return plain(*given, **options)

    F.scaled_dot_product_attention = without_dropout
    try:
        yield
    finally:
        F.scaled_dot_product_attention = plain


def _count(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False, custom_mapping=_ON_CPU) as counter:
        run()
    return int(counter.get_total_flops())


def _attention(q: Sequence[int], k: Sequence[int], v: Sequence[int], *_: Any, **__: Any) -> int:
    """q k^T and its product with v: [B, H, N, D] each."""
    b, h, n, d = q
    return 2 * b * h * n * k[2] * (d + v[3])


def _attention_backward(
    _: Sequence[int], q: Sequence[int], k: Sequence[int], v: Sequence[int], *__: Any, **___: Any
) -> int:
    """Five products: q k^T again, and the gradients of weights, q, k and v."""
    b, h, n, d = q
    return 2 * b * h * n * k[2] * (3 * d + 2 * v[3])


_aten = torch.ops.aten
_ON_CPU = {  # torch counts CUDA's kernels alone
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
