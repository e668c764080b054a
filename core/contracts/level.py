"""Noise levels: points of a schedule under a process.

    share        s = sigmoid(lambda)      the share of the signal
    elbo_weight  rate(t) * price(lambda)  the weight of the ELBO on the plain loss at time t

In discrete time with T steps the ELBO weighs a step by T * step_price(lambda_t -> lambda_s)
instead, and ``elbo_weight`` is that number. A level made from lambda alone has no time and no
rate: both are NaN, so a weighting that returns NaN there depends on the schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor

    from .process import Process
    from .schedule import Schedule


@attrs.frozen(eq=False)
class Level:
    """A noise level; every field broadcasts against x.

    Args:
        t: Time, 0 (data) to 1 (noise).
        log_snr: lambda(t).
        rate: -lambda'(t).
        price: The process's factor of the plain loss per unit of lambda.
        elbo_weight: The ELBO's weight on the plain loss at t.
    """

    t: Tensor
    log_snr: Tensor
    rate: Tensor
    price: Tensor
    elbo_weight: Tensor

    @classmethod
    def of(cls, t: Tensor, schedule: Schedule, process: Process) -> Level:
        """The level of time ``t`` in continuous time."""
        log_snr, rate = schedule.log_snr(t), schedule.rate(t)
        price = process.price(log_snr)
        return cls(t, log_snr, rate, price, rate * price)

    @classmethod
    def of_step(cls, t: Tensor, steps: int, schedule: Schedule, process: Process) -> Level:
        """The level of time ``t`` = i/T in discrete time."""
        level = cls.of(t, schedule, process)
        to = schedule.log_snr(t - 1 / steps)
        return attrs.evolve(level, elbo_weight=steps * process.step_price(level.log_snr, to))

    @classmethod
    def at(cls, log_snr: Tensor, process: Process) -> Level:
        """A level without a schedule: time, rate and ELBO weight are NaN."""
        nothing = log_snr * float("nan")
        return cls(nothing, log_snr, nothing, process.price(log_snr), nothing)

    @property
    def snr(self) -> Tensor:
        return self.log_snr.exp()

    @property
    def share(self) -> Tensor:
        """sigmoid(lambda): the share of unmasked tokens, or of the signal in the variance."""
        return self.log_snr.sigmoid()

    @property
    def noise_share(self) -> Tensor:
        """1 - share, accurate for shares near one."""
        return (-self.log_snr).sigmoid()

    def over(self, x: Tensor, dtype: torch.dtype | None = None) -> Level:
        """The same level shaped to broadcast against ``x`` [B, *D], in ``dtype`` if given."""

        return self._map(lambda value: broadcast_over(value, x, dtype))

    def aligned(self, x: Tensor) -> Level:
        """The level with its batch dimension aligned to that of ``x`` [B, *D].

        Broadcasting would align a level [B] with the *last* dimension of x.
        """
        if not 0 < self.log_snr.ndim < x.ndim:
            return self
        if len(self.log_snr) not in {1, len(x)}:
            raise DataError(
                f"a level of shape {list(self.log_snr.shape)} for data of shape {list(x.shape)}: "
                f"give one level, or one per example [{len(x)}]"
            )
        return self.over(x)

    def select(self, index: Tensor | slice | int) -> Level:
        """The levels of some of the samples; a single level is unchanged."""
        return self._map(lambda value: value[index]) if self.log_snr.ndim else self

    def unbind(self) -> list[Level]:
        """Levels [N] as N scalar levels; or [N, *D] as N levels [1, *D]."""
        fields = (self.t, self.log_snr, self.rate, self.price, self.elbo_weight)
        one_by_one = (f.unbind() if f.ndim == 1 else f.split(1) for f in fields)
        return [Level(*values) for values in zip(*one_by_one, strict=True)]

    def per_example(self, batch: int = 1) -> Tensor:
        """lambda as the denoiser's input: [B], or per position if positions differ."""
        lam = self.log_snr
        if not lam.ndim:
            return lam.expand(batch)
        return lam.reshape(lam.shape[0]) if lam.numel() == lam.shape[0] else lam

    def _map(self, change: Callable[[Tensor], Tensor]) -> Level:
        return Level(
            change(self.t),
            change(self.log_snr),
            change(self.rate),
            change(self.price),
            change(self.elbo_weight),
        )


def broadcast_over(value: Tensor, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return ``value`` shaped to broadcast against ``x`` [B, *D], on its device.

    Args:
        value: One number, [B], or [B, *D].
        x: The tensor to broadcast against.
        dtype: Data type of the result (default: that of ``value``).
    """
    if value.ndim:
        value = value.reshape(*value.shape, *(1,) * (x.ndim - value.ndim))
    return value.to(device=x.device, dtype=dtype or value.dtype)
