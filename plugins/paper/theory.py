"""The theorems, checked exactly on settings small enough to be enumerated.

Masked: 27 states q(a, b, c) ~ exp(1.5 cos(2 pi (a-b)/3) + cos(2 pi (b-c)/3) + 0.3 a) of three
tokens with three values, cosine schedule, eps = 0, t_i = i/T.
Gaussian: 0.3 N(-1.2, 0.3^2) + 0.7 N(0.8, 0.5^2) in one dimension, lambda = -2 log tan(pi t/2),
t_i = 0.02 + 0.96 i/T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs
import torch
from elbowroom import CategoricalPrediction, DataSpec, Level, Process, Schedule
from elbowroom.objective import Predict
from elbowroom.plugins.conformance import MixtureOracle, TableOracle, every_state
from elbowroom.registry import Registry
from torch import Tensor

from .cascade import Cascade, cumulative_weights, mixture_cascade, table_cascade

WEIGHTINGS = ("elbo", "edm", "iddpm", "sigmoid", "fm", "simple")
DenoiserName = Literal["optimal", "uniform", "tempered"]
_EXACT = 1e-9  # relative: what rounding may leave of an equality


@attrs.frozen(eq=False)
class Check:
    """Both theorems on one setting."""

    name: str
    cascade: Cascade
    theorem2: Mapping[str, tuple[Tensor, Tensor]]  # weighting -> both sides, per x
    minorant: Mapping[str, tuple[float, float]]  # weighting -> both sides, on average over x

    @property
    def theorem1_error(self) -> float:
        """The largest difference between an increment and its transition KL."""
        return float((self.cascade.increments - self.cascade.transition_kl).abs().max())

    @property
    def theorem2_error(self) -> float:
        """The largest relative difference between both sides, over every x and weighting."""
        return max(
            float(((left - right).abs() / (1 + left.abs())).max())
            for left, right in self.theorem2.values()
        )

    @property
    def minorant_error(self) -> float:
        """The largest relative difference between a weighting and its minorant's mixture."""
        return max(abs(a - b) / (1 + abs(a)) for a, b in self.minorant.values())

    @property
    def holds(self) -> bool:
        """Both theorems and the minorant's identity, to rounding."""
        rising = bool((self.cascade.increments >= -_EXACT).all())
        errors = (self.theorem1_error, self.theorem2_error, self.minorant_error)
        return rising and max(errors) < _EXACT

    @property
    def falling_somewhere(self) -> tuple[int, int]:
        """For how many x some increment is negative, of how many: Theorem 1 is on average."""
        falls = (self.cascade.bounds.diff(dim=0) < -_EXACT).any(0)
        return int(falls.sum()), len(falls)

    def expected(self, sides: tuple[Tensor, Tensor]) -> tuple[float, float]:
        """Both sides of Theorem 2 on average over x."""
        left, right = (float(side @ self.cascade.x_probability) for side in sides)
        return left, right

    def record(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "t": self.cascade.t.tolist(),
            "expected_bounds": self.cascade.expected_bounds.tolist(),
            "increments": self.cascade.increments.tolist(),
            "kl": self.cascade.transition_kl.tolist(),
            "theorem1_error": self.theorem1_error,
            "theorem2": {
                name: dict(zip(("left", "right"), self.expected(sides), strict=True))
                for name, sides in self.theorem2.items()
            },
            "theorem2_error": self.theorem2_error,
            "minorant": {
                name: dict(zip(("left", "right"), sides, strict=True))
                for name, sides in self.minorant.items()
            },
            "minorant_error": self.minorant_error,
            "holds": self.holds,
            "verdict": self.verdict,
        }

    @property
    def verdict(self) -> str:
        """The same in plain words."""
        if not self.holds:
            return (
                f"{self.name}: the theorems do NOT hold here: increments and transition KLs differ "
                f"by {self.theorem1_error:.1e}, the two sides of Theorem 2 by "
                f"{self.theorem2_error:.1e} (relative), those of the minorant's identity by "
                f"{self.minorant_error:.1e}"
            )
        falling, count = self.falling_somewhere
        per_x = f"; for single x they may fall, as for {falling} of {count} here" if falling else ""
        return (
            f"{self.name}: the bounds rise from {self.cascade.expected_bounds[0]:.4f} to "
            f"{self.cascade.expected_bounds[-1]:.4f} nats, each step by its transition KL (to "
            f"{self.theorem1_error:.0e}); every weighting is the stated sum of bounds for every x "
            f"(to {self.theorem2_error:.0e}){per_x}; each is on average its minorant's mixture "
            f"less the stated terms (to {self.minorant_error:.0e})"
        )


def check_theorems(registry: Registry, denoiser: DenoiserName, steps: int) -> tuple[Check, Check]:
    """(masked, gaussian)."""
    return _check_masked(registry, denoiser, steps), _check_gaussian(registry, denoiser, steps)


def three_tokens() -> TableOracle:
    """The masked setting's distribution."""
    states = every_state((3,), 3)
    a, b, c = states.double().T
    turn = 2 * math.pi / 3
    logits = 1.5 * (turn * (a - b)).cos() + (turn * (b - c)).cos() + 0.3 * a
    return TableOracle(states, logits.softmax(0))


def two_normals() -> MixtureOracle:
    """The Gaussian setting's distribution."""
    return MixtureOracle(
        *(torch.tensor(v, dtype=torch.float64) for v in ([0.3, 0.7], [-1.2, 0.8], [0.3, 0.5]))
    )


def _clueless(z: Tensor, _: Level) -> CategoricalPrediction:
    return CategoricalPrediction(torch.zeros(*z.shape, 3, dtype=torch.float64))


def _check_masked(registry: Registry, denoiser: DenoiserName, steps: int) -> Check:
    process = registry.find("process", "masked").load()().bind(DataSpec((3,), 3))
    schedule = registry.find("schedule", "cosine").load()(eps=0.0)
    table = three_tokens()
    denoisers: dict[str, Predict] = {
        "optimal": table.predict(process),
        "uniform": _clueless,
        "tempered": attrs.evolve(table, power=0.5).predict(process),
    }
    t = torch.arange(steps + 1, dtype=torch.float64) / steps
    cascade = table_cascade(process, schedule, table, denoisers[denoiser], t)
    return _check("masked", registry, process, schedule, cascade)


def _check_gaussian(registry: Registry, denoiser: DenoiserName, steps: int) -> Check:
    process = registry.find("process", "gaussian").load()().bind(DataSpec((1,), 2))
    schedule = registry.find("schedule", "vp-cosine").load()(eps=0.0)
    mixture = two_normals()
    denoisers: dict[str, Callable[[Tensor, Level], Any]] = {
        "optimal": mixture.predict,
        "uniform": mixture.predict_linear,
        "tempered": mixture.predict_linear,
    }
    t = 0.02 + 0.96 * torch.arange(steps + 1, dtype=torch.float64) / steps
    cascade = mixture_cascade(process, schedule, mixture, denoisers[denoiser], t)
    return _check("gaussian", registry, process, schedule, cascade)


def _check(
    name: str, registry: Registry, process: Process, schedule: Schedule, cascade: Cascade
) -> Check:
    sides, below = {}, {}
    for weighting in WEIGHTINGS:
        made = registry.find("weighting", weighting).load()()
        w = cumulative_weights(made, schedule, process, cascade.t)
        sides[weighting] = cascade.theorem2(w)
        left, right = cascade.below_minorant(w)
        below[weighting] = float(left), float(right)
    return Check(name, cascade, sides, below)
