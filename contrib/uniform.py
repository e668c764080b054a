"""Uniform-state discrete diffusion: a corrupted token is uniform (D3PM-uniform, SEDD-uniform).

With a = share = sigmoid(lambda) and k = (1 - a)/V, each token independently,

    q(z | x) = a [z = x] + k,        prior uniform over the V values.

A token that jumps, jumps to a value drawn uniformly; per unit of lambda it does so at the rate
(da/dlambda)/a = 1 - a. Backwards, given x, it jumps from z to y with the rate

    R(y) = k q(y | x) / q(z | x),

and the model's rate is its mean over the prediction p(x | z),

    R_hat(y) = k sum_x p(x | z) q(y | x) / q(z | x)  =  k - k p(z | z) a/(a + k) + a p(y | z),

which is the true one, k q(y)/q(z), if the prediction is exact. The bound's density over lambda is
the divergence of two jump processes (Campbell et al. 2022, "A continuous time framework for
discrete denoising models"; Lou et al. 2023, "Discrete diffusion modeling by estimating the ratios
of the data distribution"),

    plain loss = sum over y != z of  R_hat - R + R log(R / R_hat),        price = 1.

This is not a price times a loss, so the whole density is in the plain loss. A step of finite length
has no such form either: ``step_kl`` is its exact KL, while ``step_price`` is its
length in lambda, so an objective in discrete time approximates the sum over steps by the density
at their ends. Train and measure in continuous time (``objective.steps: null``, the default).

The network predicts x from the *other* tokens: the factor q(z | x) of a token's own value is known
and multiplied in by ``read`` (the parametrisation of Austin et al. 2021, "Structured denoising
diffusion models in discrete state-spaces"). A uniform prediction costs exactly log V per token.

    reverse          sum_x p(x | z_t) q(z_s | z_t, x), drawn exactly
    prior KL         (a + k) log((a + k) V) + (V - 1) k log(k V)        at t = 1, each token
    reconstruction   with p(x | z_0) = q(z_0 | x), which is symmetric: the entropy of q(z_0 | x)

In a config: ``process: uniform``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs
import torch
from elbowroom import (
    CategoricalPrediction,
    DataSpec,
    IncompatibleError,
    Level,
    Noise,
    Process,
    Signature,
    Step,
    draw_categorical,
)
from elbowroom.contracts import check_range
from torch import Tensor
from torch.nn.functional import one_hot

if TYPE_CHECKING:
    from typing_extensions import Self


@attrs.frozen
class Uniform(Process):
    """Tokens become random values, all at the same rate."""

    traits: ClassVar[frozenset[str]] = frozenset({"categorical", "uniform"})
    natural_schedule: ClassVar[str] = "linear"

    # -- the space of z

    def bind(self, data: DataSpec) -> Self:
        if data.sizes is not None:
            raise IncompatibleError(
                "process uniform needs data with the same number of values at every position; "
                f"these have {min(data.sizes)} to {data.levels}. Use masked or gaussian"
            )
        return super().bind(data)

    def signature(self) -> Signature:
        data, text = self.data, self.data.tokens is not None
        v = data.levels
        return Signature(data.shape, v, v, data.classes, needs_level=True, text=text)

    def encode(self, x: Tensor) -> Tensor:
        check_range(x, self.data.counts())
        return x.long()

    def decode(
        self, z: Tensor, prediction: CategoricalPrediction | None, level: Level, noise: Noise
    ) -> Tensor:
        return z

    # -- forwards

    def prior(self, noise: Noise) -> Tensor:
        return noise.integers("prior", self.data.levels, self.data.shape)

    def corrupt(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        kept = noise.uniform("keep", x.shape[1:], torch.float32) < level.aligned(x).share
        return torch.where(kept, x, noise.integers("value", self.data.levels, x.shape[1:]))

    def log_likelihood(self, z: Tensor, x: Tensor, level: Level) -> Tensor:
        a, k = self._shares(level.aligned(x))
        return torch.where(z == x, (a + k).log(), k.log()).flatten(1).sum(1)

    # -- the bound

    def price(self, log_snr: Tensor) -> Tensor:
        return torch.ones_like(log_snr)

    def step_price(self, log_snr: Tensor, to: Tensor) -> Tensor:
        return to - log_snr

    def read(self, output: Tensor, z: Tensor, level: Level) -> CategoricalPrediction:
        """log p(x | z) = log p(x | the other tokens) + log q(z | x), up to a constant."""
        a, k = self._shares(level.aligned(z))
        likelier = torch.log1p(a / k).unsqueeze(-1)  # log q(z | x = z) - log q(z | another x)
        return CategoricalPrediction(output + likelier * one_hot(z, self.data.levels))

    def plain_loss(
        self, x: Tensor, z: Tensor, prediction: CategoricalPrediction, level: Level
    ) -> Tensor:
        logits = prediction.logits
        p = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)  # [B, *D, V]
        a, k = (share.unsqueeze(-1) for share in self._shares(level.aligned(x)))
        at_z, at_x = (one_hot(value, self.data.levels).bool() for value in (z, x))
        p_z, moved = p.gather(-1, z.unsqueeze(-1)), p.masked_fill(at_z, 0.0)  # [B, *D, 1 and V]
        # k - k p_z a/(a + k) + a p, free of cancellation
        predicted = k * (moved.sum(-1, keepdim=True) + p_z * (k / (a + k))) + a * p
        clean = (z == x).unsqueeze(-1)
        true = torch.where(clean, k * (k / (a + k)), torch.where(at_x, a + k, k))
        each = _divergence(true, predicted)
        return torch.where(at_z, 0.0, each).sum(-1)

    def units(self, z: Tensor) -> Tensor:
        return torch.full((len(z),), z[0].numel(), device=z.device)

    def step_kl(
        self, x: Tensor, z: Tensor, prediction: CategoricalPrediction, level: Level, to: Level
    ) -> Tensor:
        exact = one_hot(x, self.data.levels).double()
        true = self._posterior(z, exact, level, to)
        predicted = self._posterior(z, prediction.logits.double().softmax(-1), level, to)
        each: Tensor = torch.special.xlogy(true, true) - torch.special.xlogy(true, predicted)
        return each.flatten(1).sum(1)

    def prior_kl(self, x: Tensor, level: Level) -> Tensor:
        a, k, v = *self._shares(level.aligned(x), torch.float64), self.data.levels
        each = (a + k) * torch.log1p(a * (v - 1)) + (v - 1) * k * torch.log1p(-a)
        return each.expand(x.shape).flatten(1).sum(1)

    def reconstruction(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        a, k = self._shares(level.aligned(x), torch.float64)
        each: Tensor = torch.special.entr(a + k) + (self.data.levels - 1) * torch.special.entr(k)
        return each.expand(x.shape).flatten(1).sum(1)

    # -- backwards

    def reverse(
        self, z: Tensor, prediction: CategoricalPrediction, step: Step, noise: Noise
    ) -> Tensor:
        p = prediction.logits.double().softmax(-1)
        moved = self._posterior(z, p, step.level, step.to)  # [B, *D, V]
        return draw_categorical(
            moved.log(), noise.at(step.index).uniform("reverse", self.data.shape)
        )

    def _posterior(self, z: Tensor, p: Tensor, level: Level, to: Level) -> Tensor:
        """sum_x p(x) q(z_s | z_t = z, x), [B, *D, V], for p [B, *D, V] in float64.

        q(z_s = y | z, x) = q(z | y) q(y | x) / q(z | x).
        """
        level, to = level.aligned(z), to.aligned(z)
        a_t, k_t = (share.unsqueeze(-1) for share in self._shares(level, torch.float64))
        a_s, k_s = (share.unsqueeze(-1) for share in self._shares(to, torch.float64))
        kept = a_t / a_s
        at_z = one_hot(z, self.data.levels)
        weight = p / (a_t * at_z + k_t)  # p(x) / q(z | x)
        to_z = kept * at_z + self._noise_between(level, to).unsqueeze(-1) / self.data.levels
        return to_z * (a_s * weight + k_s * weight.sum(-1, keepdim=True))

    def _noise_between(self, level: Level, to: Level) -> Tensor:
        """1 - a_t/a_s, free of cancellation: (1 - e^(lambda_t - lambda_s)) (1 - a_t)."""
        lam, lam_s = level.log_snr.double(), to.log_snr.double()
        return -torch.expm1(lam - lam_s) * (-lam).sigmoid()

    def _shares(self, level: Level, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """(a, k): the probability of being kept, and of each value otherwise."""
        lam = level.log_snr.to(dtype or level.log_snr.dtype)
        return lam.sigmoid(), (-lam).sigmoid() / self.data.levels


def _divergence(true: Tensor, predicted: Tensor) -> Tensor:
    """predicted - true + true log(true / predicted), each: never negative, 0 where they agree."""
    tiny = torch.finfo(true.dtype).tiny
    true, predicted = true.clamp(min=tiny), predicted.clamp(min=tiny)
    away = (predicted - true) / true
    near = away.clamp(min=-0.5)  # log1p avoids cancellation
    log_ratio = torch.where(away > -0.5, torch.log1p(near), predicted.log() - true.log())
    return true * (away - log_ratio)
