"""The coordinates of a diffusers scheduler: its sample is a x + b eps, with

    variance preserving   a^2 = alphas_cumprod[t], b^2 = 1 - a^2   (DDPM, DDIM, ...)
    the same by sigma     a = 1/sqrt(1 + sigma^2), b = a sigma     (DPM-Solver, UniPC, DEIS, ...)
    variance exploding    a = 1, b = sigma                         (Euler, Heun, LMS, EDM, ...)
    straight path         a = 1 - sigma, b = sigma                 (flow matching)

So lambda = 2 log(a/b), and sample / sqrt(a^2 + b^2) is z of the variance-preserving process.
"""

from __future__ import annotations

import math
from typing import Any

import attrs
from elbowroom import ElbowroomError, RealPrediction
from torch import Tensor


@attrs.frozen
class Coordinates:
    """The factors of signal and noise in a scheduler's sample."""

    a: float
    b: float

    @property
    def log_snr(self) -> float:
        """lambda."""
        return 2 * (math.log(self.a) - math.log(self.b))

    @property
    def scale(self) -> float:
        """The factor from z to the scheduler's sample."""
        return math.hypot(self.a, self.b)


def coordinates(scheduler: Any, index: int) -> Coordinates:
    """The coordinates at the scheduler's network call ``index``."""
    sigmas = getattr(scheduler, "sigmas", None)
    if sigmas is None:
        kept = getattr(scheduler, "alphas_cumprod", None)
        if kept is None:
            raise _unsupported(scheduler, "it has neither sigmas nor alphas_cumprod")
        share = float(kept[int(scheduler.timesteps[index])])
        return _checked(scheduler, math.sqrt(share), math.sqrt(1 - share))
    between = getattr(scheduler, "sigmas_interpol", None)
    if between is not None and index % 2:  # KDPM2's second call of a step
        behind = type(scheduler).__name__ == "KDPM2AncestralDiscreteScheduler"  # it counts from 0
        return _checked(scheduler, 1.0, float(between[index - behind]))
    sigma = float(sigmas[index])
    if hasattr(scheduler, "scale_noise"):
        return _checked(scheduler, 1 - sigma, sigma)
    if hasattr(scheduler, "_sigma_to_alpha_sigma_t"):
        a, b = scheduler._sigma_to_alpha_sigma_t(sigmas[index])
        return _checked(scheduler, float(a), float(b))
    return _checked(scheduler, 1.0, sigma)


# sigma = 1 of a straight path has no signal; the network is evaluated just before it
_LEAST = 1e-4


def _checked(scheduler: Any, a: float, b: float) -> Coordinates:
    if b <= 0 or a < 0:
        raise _unsupported(scheduler, f"it calls the network at signal {a:g}, noise {b:g}")
    return Coordinates(max(a, _LEAST * b), b)


def output_for(scheduler: Any, prediction: RealPrediction, sample: Tensor, index: int) -> Tensor:
    """The prediction as the network output this scheduler expects."""
    if hasattr(scheduler, "precondition_outputs"):  # EDM: x = c_skip sample + c_out output
        sigma = scheduler.sigmas[index]
        skip = scheduler.precondition_outputs(sample, sample * 0, sigma)
        c_out = scheduler.precondition_outputs(sample * 0, sample * 0 + 1, sigma)
        output: Tensor = (prediction.x - skip) / c_out
        return output
    kind = scheduler.config.get("prediction_type")
    if kind is None and hasattr(scheduler, "scale_noise"):
        kind = "flow_prediction"
    if kind == "epsilon":
        return prediction.eps
    if kind == "sample":
        return prediction.x
    if kind == "v_prediction":
        return prediction.v
    if kind == "flow_prediction":
        return prediction.eps - prediction.x
    raise _unsupported(scheduler, f"its prediction_type is {kind!r}")


def _unsupported(scheduler: Any, why: str) -> ElbowroomError:
    return ElbowroomError(
        f"sampler.scheduler: {type(scheduler).__name__} does not support Gaussian diffusion: {why}"
    )
