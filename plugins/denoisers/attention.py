"""Attention kernels: softmax(q k^T / sqrt(D)) v.

q, k, v and the output are [B, N, H, D]. Kernels have no parameters, so checkpoints do not depend on
them.

- ``sdpa``      ``torch.nn.functional.scaled_dot_product_attention``.
- ``xformers``  ``xformers.ops.memory_efficient_attention``, for CUDA and ROCm only; an error when
                the network is built if it is not available.
- ``auto``      xformers where it supports the tensors, else SDPA; the choice is logged once.

Dropout is that of the attention's weights. SDPA's flash kernel on the CPU does not support it and
falls back to one four times slower, so it is separate from a network's other dropout.
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
    """A kernel for softmax(q k^T / sqrt(D)) v."""

    @abstractmethod
    def __call__(self, q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
        """[B, N, H, D] for q, k, v of that shape and one dtype."""


class Sdpa(Attention):
    """PyTorch's kernels, on every device."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # [B, H, N, D]
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout).transpose(1, 2)


class Xformers(Attention):
    """xformers' memory-efficient kernel, loaded on first use."""

    def __init__(self, kernel: Kernel | None = None) -> None:
        self.kernel = kernel

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
        if self.kernel is None:
            if q.device.type != "cuda":
                raise ConfigError(
                    f"attention: xformers has kernels for CUDA and ROCm devices only, and the "
                    f"network runs on {q.device.type}. Use 'auto' or 'sdpa'."
                )
            self.kernel = load_kernel()
        return self.kernel(q, k, v, p=dropout, scale=q.shape[-1] ** -0.5)


class Auto(Attention):
    """xformers where it is supported, else SDPA; chosen once per device, dtype and head width."""

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
            with torch.no_grad():  # try one sample
                candidate(q[:1], k[:1], v[:1])
        except (ImportError, ConfigError, NotImplementedError, ValueError, RuntimeError) as cause:
            reason = str(cause).strip().splitlines()
            _log_once(f"attention uses sdpa: xformers failed ({reason[0] if reason else cause!r})")
            return Sdpa()
        _log_once(
            f"attention uses xformers for {q.dtype} heads of {q.shape[-1]} on {q.device.type}"
        )
        return candidate


def load_kernel() -> Kernel:
    """xformers' kernel."""
    try:
        from xformers.ops import memory_efficient_attention
    except ImportError as cause:
        raise ConfigError(
            f"attention: xformers cannot be imported ({cause}). Install elbowroom[xformers], or "
            "use 'auto' or 'sdpa'."
        ) from cause
    return cast("Kernel", memory_efficient_attention)


def attention(choice: Choice) -> Attention:
    """The kernel named in a config; raises a ConfigError if ``xformers`` is not available."""
    if choice == "sdpa":
        return Sdpa()
    if choice == "auto":
        if importlib.util.find_spec("xformers") is None:
            if torch.cuda.is_available():
                _log_once("attention uses sdpa: xformers is not installed")
            return Sdpa()
        return Auto()
    if choice != "xformers":
        raise ConfigError(f"attention: {choice!r} is not one of 'auto', 'sdpa', 'xformers'")
    if importlib.util.find_spec("xformers") is None:
        raise ConfigError(
            "attention: xformers is not installed. Install elbowroom[xformers], or use 'auto' or "
            "'sdpa'."
        )
    if not torch.cuda.is_available():
        raise ConfigError(
            "attention: xformers has kernels for CUDA and ROCm devices only, and torch finds none. "
            "Use 'auto' or 'sdpa'."
        )
    return Xformers(load_kernel())


@cache
def _log_once(message: str) -> None:
    """Log a message once per process."""
    log.debug(message)
