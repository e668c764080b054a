"""RePaint (Lugmayr et al. 2022): completion with a Gaussian model that was trained on one clock.

The trajectory inserts the given values into every prediction, so given positions follow
q(z_s | z_t, x). The other positions see them with the noise of the common time only, and the
result is approximate. Each step is therefore taken ``resamples`` times: after the reverse step to
level s, noise is added to return to level t,

    z_t = (a_t / a_s) z_s + sqrt(b_t^2 - (a_t / a_s)^2 b_s^2) eps,

and the step is taken again, so that both parts can agree. Without given positions the steps are
those of ``ancestral``.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
from elbowroom import Step, SteppingSampler, Trajectory
from torch import Tensor


@attrs.frozen
class RePaint(SteppingSampler):
    """Ancestral steps, each repeated where positions are given."""

    needs: ClassVar[frozenset[str]] = frozenset({"real"})

    resamples: int = attrs.field(default=5, validator=attrs.validators.ge(1))

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        times = self.resamples if path.given is not None else 1
        for k in range(times):
            numbered = attrs.evolve(step, index=step.index * times + k)
            moved = path.process.reverse(z, path.predict(z, step.level), numbered, path.noise)
            if k == times - 1:
                break
            z = _noised(path, moved, step, step.number * times + k)
        return moved


def _noised(path: Trajectory, z: Tensor, step: Step, number: int) -> Tensor:
    """z at ``step.level``, from z at ``step.to``."""
    kept = step.level.share / step.to.share
    std = (step.level.noise_share - kept * step.to.noise_share).clamp(min=0).sqrt()
    eps = path.noise.at(number).normal("renoise", z.shape[1:], z.dtype)
    return kept.sqrt().to(z.dtype) * z + std.to(z.dtype) * eps
