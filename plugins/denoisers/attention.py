"""Attention: softmax(q k^T / sqrt(D)) v, by whichever kernel serves.

One call for all kernels: q, k, v are [B, N, H, D] and so is the answer; nothing here has
parameters, so checkpoints do not know which kernel made them.

- ``sdpa``      ``torch.nn.functional.scaled_dot_product_attention``, which wants [B, H, N, D].
- ``xformers``  ``xformers.ops.memory_efficient_attention``, which wants [B, N, H, D]. It has
                kernels for CUDA and ROCm only; an explicit choice that cannot work is refused when
                the network is built.
- ``auto``      xformers where it can serve the tensors at hand, else SDPA; the log says once
                which, and why.

Dropout here is of the attention's weights. The flash kernel of SDPA on the CPU refuses it and a
path four times slower takes over, so it is a choice of its own beside a network's other dropout.
"""

from __future__ import annotations

import importlib.util
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Literal, cast

import torch
import torch.nn.functional as F
from elbowroom import ConfigError
from torch import Tensor

log = logging.getLogger(__name__)

Choice = Literal["auto", "sdpa", "xformers"]
Kernel = Callable[..., Tensor]


class Attention(ABC):
    """How softmax(q k^T / sqrt(D)) v is computed."""

    @abstractmethod
    def __call__(self, q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
        """[B, N, H, D] each, of one dtype; ``dropout`` is 0 outside training."""


class Sdpa(Attention):
    """PyTorch's own kernels, on every device."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # [B, H, N, D]
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout).transpose(1, 2)


class Xformers(Attention):
    """xformers' memory-efficient kernels; ``kernel`` is loaded on first use."""

    def __init__(self, kernel: Kernel | None = None) -> None:
        self.kernel = kernel

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
        if self.kernel is None:
            if q.device.type != "cuda":
                raise ConfigError(
                    f"attention: xformers has kernels for CUDA and ROCm devices only, and the "
                    f"network runs on {q.device.type}; choose 'auto' or 'sdpa'"
                )
            self.kernel = load_kernel()
        return self.kernel(q, k, v, p=dropout, scale=q.shape[-1] ** -0.5)


class Auto(Attention):
    """xformers where it can serve, else SDPA; decided once for each kind of tensor."""

    def __init__(self, load: Callable[[], Kernel] | None = None) -> None:
        self.load = load or load_kernel
        self.chosen: dict[tuple[str, torch.dtype, int], Attention] = {}

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
        if q.device.type != "cuda":
            return Sdpa()(q, k, v, dropout)
        kind = (q.device.type, q.dtype, q.shape[-1])
        if kind not in self.chosen:
            self.chosen[kind] = self._choose(q, k, v)
        return self.chosen[kind](q, k, v, dropout)

    def _choose(self, q: Tensor, k: Tensor, v: Tensor) -> Attention:
        try:
            candidate = Xformers(self.load())
            with torch.no_grad():  # a try-out on one sample: does any kernel take such tensors?
                candidate(q[:1], k[:1], v[:1])
        except (ImportError, ConfigError, NotImplementedError, ValueError, RuntimeError) as cause:
            reason = str(cause).strip().splitlines()
            _say(f"attention uses sdpa: xformers cannot serve ({reason[0] if reason else cause!r})")
            return Sdpa()
        _say(f"attention uses xformers for {q.dtype} heads of {q.shape[-1]} on {q.device.type}")
        return candidate


def load_kernel() -> Kernel:
    """xformers' kernel. The only place in the project that imports xformers."""
    try:
        from xformers.ops import memory_efficient_attention
    except ImportError as cause:
        raise ConfigError(
            f"attention: xformers cannot be imported ({cause}); install elbowroom[xformers], or "
            "choose 'auto' or 'sdpa'"
        ) from cause
    return cast("Kernel", memory_efficient_attention)


def attention(choice: Choice) -> Attention:
    """The attention a config names; an explicit ``xformers`` that cannot work is refused here."""
    if choice == "sdpa":
        return Sdpa()
    if choice == "auto":
        if importlib.util.find_spec("xformers") is None:
            if torch.cuda.is_available():
                _say("attention uses sdpa: xformers is not installed")
            return Sdpa()
        return Auto()
    if choice != "xformers":
        raise ConfigError(f"attention: {choice!r} is none of 'auto', 'sdpa', 'xformers'")
    if importlib.util.find_spec("xformers") is None:
        raise ConfigError(
            "attention: xformers is not installed; install elbowroom[xformers], or choose 'auto' "
            "or 'sdpa'"
        )
    if not torch.cuda.is_available():
        raise ConfigError(
            "attention: xformers has kernels for CUDA and ROCm devices only, and torch finds none "
            "on this machine; choose 'auto' or 'sdpa'"
        )
    return Xformers(load_kernel())


@cache
def _say(message: str) -> None:
    """Log once in a process: ``train`` and ``explain`` show it, other commands need not."""
    log.debug(message)
