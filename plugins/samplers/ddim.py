"""DDIM (Song et al. 2021): Gaussian steps with a chosen amount of fresh noise.

    z_s = a_s x_hat + sqrt(b_s^2 - sigma^2) eps_hat + sigma eps,   sigma^2 = eta^2 b_s^2 (1 - k),

with a^2 = share, b^2 = 1 - share and k = SNR_t/SNR_s. eta = 0 is deterministic; eta = 1 is
ancestral sampling, with the same samples. In the coordinates of the straight path, y = z/(a + b)
at time b/(a + b), the deterministic step is Euler's for the flow eps - x: flow matching's sampler.

``clip`` clips x_hat to the data's range before each step and recomputes eps_hat from it, as in ADM
and IDDPM.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import torch
from elbowroom import RealPrediction, Step, SteppingSampler, Trajectory
from torch import Tensor


@attrs.frozen
class DDIM(SteppingSampler):
    """First-order steps, deterministic unless ``eta`` > 0."""

    needs: ClassVar[frozenset[str]] = frozenset({"real"})
    along_paths: ClassVar[bool] = True

    clip: bool = attrs.field(default=False, kw_only=True)
    eta: float = attrs.field(
        default=0.0, validator=[attrs.validators.ge(0), attrs.validators.le(1)]
    )

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        prediction: RealPrediction = path.predict(z, step.level)
        if self.clip:
            prediction = path.process.clip_prediction(prediction)
        of_x, b2 = step.to.share.sqrt().to(z.dtype), step.to.noise_share
        if not self.eta:
            return of_x * prediction.x + b2.sqrt().to(z.dtype) * prediction.eps
        fresh = self.eta**2 * b2 * -torch.expm1(step.level.log_snr - step.to.log_snr)  # sigma^2
        of_eps, sigma = ((b2 - fresh).clamp(min=0).sqrt().to(z.dtype), fresh.sqrt().to(z.dtype))
        eps = path.noise.at(step.index).normal("reverse", z.shape[1:], z.dtype)
        return of_x * prediction.x + of_eps * prediction.eps + sigma * eps
