"""Paths: the time of each position along the diffusion.

A path gives position n the time gamma_n(tau), non-decreasing in tau, from 0 (data) to 1 (noise).
The corruption is independent over positions given x, and the reverse model factorises over
positions given z, so the bound is a sum over positions, whatever each one's level:

    -log p(x)  <=  prior KL + reconstruction
                   + integral over tau of sum_n gamma_n'(tau) elbo_weight(gamma_n) E[plain_n]

A position that does not move (gamma' = 0) costs nothing. One that stays at time 0 is given: the
rest is then a bound on -log p(other positions | given positions).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from ..randomness.noise import Noise
    from .dataset import DataSpec


class Path(ABC):
    """The times of all positions at the common time tau."""

    per_position: ClassVar[bool] = True
    """Whether levels differ between positions, so that the network needs the level of each."""

    own_times: ClassVar[bool] = False
    """Whether positions draw uniform times of their own, in the place of those of the objective."""

    meaning: ClassVar[str] = ""
    """What the objective with w = 1 bounds along the path; empty: -log p(x)."""

    @abstractmethod
    def __call__(
        self, t: Tensor, noise: Noise, shape: Sequence[int]
    ) -> tuple[Tensor, Tensor | None]:
        """Times and speeds of all positions.

        Args:
            t: The common times tau, [B] float64.
            noise: Source of random numbers, for paths that are drawn for each example.
            shape: Shape of an example.

        Returns:
            gamma_n(tau) and its derivative, each [B, *shape]; or ``t`` and None, if all positions
            share one clock.
        """

    def prepare(self, data: DataSpec) -> Path:
        """Return the path for data of this form; raise IncompatibleError if there is none."""
        return self

    def bound_path(self) -> Path:
        """Return the path along which the bound on -log p(x) is measured (default: this one).

        A path that is drawn for each example, to train conditionals, is measured along another.
        """
        return self


@attrs.frozen
class Shared(Path):
    """One clock for all positions."""

    per_position: ClassVar[bool] = False

    def __call__(self, t: Tensor, noise: Noise, shape: Sequence[int]) -> tuple[Tensor, None]:
        return t, None


@attrs.frozen(eq=False)
class Completion(Path):
    """Positions where ``keep`` is true are given, the others share one clock.

    If ``clean`` is false, given positions have the noise of the common time: the trajectory of a
    network that was trained on one clock, whose given positions are drawn from q(z | x).
    """

    keep: Tensor  # [B, *D] bool
    clean: bool = True

    def __call__(self, t: Tensor, noise: Noise, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
        keep = self.keep.to(t.device)
        times = t.view(-1, *(1,) * (keep.ndim - 1)).expand(keep.shape)
        return (times.masked_fill(keep, 0.0) if self.clean else times), (~keep).to(t.dtype)
