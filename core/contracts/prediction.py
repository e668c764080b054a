"""Predictions: what a process makes of a network's output.

Losses, samplers and guidance use these types and do not depend on the parametrisation.
With a = sqrt(share) and b = sqrt(1 - share), z = a x + b eps.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from .level import Level


@attrs.frozen(eq=False, slots=False)  # slots off: cached_property keeps what it computed
class RealPrediction:
    """A prediction of real-valued data: ``x``, ``eps``, ``v`` and ``score``.

    At least one of the data, the noise and the velocity is given; each other form is computed once,
    on first access.

    Args:
        z: [B, *D] the corrupted data.
        level: Its level, which broadcasts against z.
        given_x: The predicted data.
        given_eps: The predicted noise.
        given_v: The predicted velocity.
        draw: Maps uniforms [B, *D] to data drawn from the predicted distribution of each element,
            if the network predicts more than the mean. No gradient.
    """

    z: Tensor
    level: Level
    given_x: Tensor | None = None
    given_eps: Tensor | None = None
    given_v: Tensor | None = None
    draw: Callable[[Tensor], Tensor] | None = None

    @cached_property
    def signal(self) -> Tensor:
        return self.level.share.sqrt()

    @cached_property
    def sigma(self) -> Tensor:
        return self.level.noise_share.sqrt()

    @cached_property
    def x(self) -> Tensor:
        """The expected data."""
        if self.given_x is not None:
            return self.given_x
        if self.given_v is not None:  # a^2 + b^2 = 1
            return self.signal * self.z - self.sigma * self.given_v
        return (self.z - self.sigma * self.eps) / self.signal

    @cached_property
    def eps(self) -> Tensor:
        """The expected noise."""
        if self.given_eps is not None:
            return self.given_eps
        if self.given_v is not None:
            return self.sigma * self.z + self.signal * self.given_v
        return (self.z - self.signal * self.x) / self.sigma

    @cached_property
    def v(self) -> Tensor:
        """The velocity a eps - b x of Salimans & Ho."""
        if self.given_v is not None:
            return self.given_v
        return self.signal * self.eps - self.sigma * self.x

    def with_known(self, x: Tensor, keep: Tensor) -> RealPrediction:
        """The prediction with the data ``x`` where ``keep`` [B, *D] is true; the rest unchanged."""
        import torch

        def known(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.where(keep, theirs.to(mine.dtype), mine)

        eps = (self.z - self.signal * x) / self.sigma
        v, draw = self.given_v, self.draw
        return attrs.evolve(
            self,
            given_x=known(self.x, x),
            given_eps=known(self.eps, eps),
            given_v=None if v is None else known(v, self.signal * eps - self.sigma * x),
            draw=None if draw is None else lambda u: known(draw(u), x),
        )

    def is_valid(self) -> Tensor:
        """[B] whether the given values are finite."""
        given = [one for one in (self.given_x, self.given_eps, self.given_v) if one is not None]
        return sum(given[1:], given[0]).isfinite().flatten(1).all(1)

    @cached_property
    def score(self) -> Tensor:
        """The gradient of log q(z)."""
        return -self.eps / self.sigma


@attrs.frozen(eq=False)
class CategoricalPrediction:
    """A prediction of tokens: unnormalised log-probabilities [B, *D, V].

    The logits of unmasked positions are not used; their tokens are in z.
    """

    logits: Tensor

    def is_valid(self) -> Tensor:
        """[B] whether the logits are distributions; minus infinity excludes a value."""
        return self.logits.amax(-1).isfinite().flatten(1).all(1)  # NaN is the maximum

    def with_known(self, x: Tensor, keep: Tensor) -> CategoricalPrediction:
        """The prediction with all probability on ``x`` where ``keep`` [B, *D] is true."""
        import torch

        certain = torch.full_like(self.logits, -torch.inf).scatter(-1, x[..., None], 0.0)
        return attrs.evolve(self, logits=torch.where(keep[..., None], certain, self.logits))

    def at(self, where: Tensor | tuple[Tensor, ...]) -> Tensor:
        """The logits [K, V] of the positions marked in ``where`` [B, *D], or listed by index."""
        return self.logits[where]
