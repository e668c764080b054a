"""Remasking (ReMDM, Wang et al. 2025): unmasked tokens may be masked and drawn again.

With a = share, in a step from t to s an unmasked token is masked with probability sigma, a masked
one is unmasked with probability

    u = (a_s - (1 - sigma) a_t) / (1 - a_t)  =  step price + sigma e^lambda_t,

which keeps the share of masked tokens at every level, for any sigma up to
sigma_max = min(1, (1 - a_s)/a_t). Three schedules of sigma: ``cap`` min(eta, sigma_max),
``rescale`` eta * sigma_max, and ``psi`` eta (1 - a_s), with which a step is a mixture: with
probability eta a token is predicted and corrupted again, whatever it was (contrib's ``psi``). Each
only while ``after`` <= t <= ``before``. sigma = 0 is ancestral sampling, with the same samples.

When a token is masked or unmasked does not depend on the network. So a masked token keeps one
uniform until it is unmasked, and the network is called only for samples in which one is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs
import torch
from elbowroom import Frame, Model, Noise, Sampler, Step, Trajectory
from torch import Tensor

from .absorbing import NEEDS, mask_of, unmask

_share = attrs.validators.and_(attrs.validators.ge(0.0), attrs.validators.le(1.0))


@attrs.frozen
class Remask(Sampler):
    """Ancestral steps that also mask tokens again; more steps, better samples."""

    needs: ClassVar[frozenset[str]] = NEEDS

    sigma: Literal["cap", "rescale", "psi"] = "rescale"
    eta: float = attrs.field(default=0.05, validator=_share)
    before: float = attrs.field(default=1.0, validator=_share)
    after: float = attrs.field(default=0.0, validator=_share)

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        path, levels = self.path(model, noise, cond), self.levels(model)
        one_by_one = levels.unbind()
        z = path.start(z)
        tokens = _Tokens(path)
        yield Frame(z, 0)
        for i in range(len(one_by_one) - 1):
            z = self._advance(path, z, path.shared_step(one_by_one, i), tokens, i)
            yield Frame(z, i + 1)
        yield self.finish(path, z, levels)

    def _advance(self, path: Trajectory, z: Tensor, step: Step, tokens: _Tokens, i: int) -> Tensor:
        mask, sigma = mask_of(path.process), self.sigma_of(step)
        masked = z == mask
        chance = path.process.step_price(step.level.log_snr, step.to.log_snr)
        due = masked & tokens.due(chance + sigma * step.level.snr)
        moved = unmask(path, z, step.level, due, tokens.value)
        if float(sigma) > 0:
            noise = path.noise.at(i + 1)
            ours = path.first == mask  # tokens given at the start are kept
            again = ours & ~masked & (noise.uniform("remask", z.shape[1:]) < sigma)
            moved = torch.where(again, mask, moved)
            tokens.renew(again, noise)
        return moved

    def sigma_of(self, step: Step) -> Tensor:
        """The probability that an unmasked token is masked in this step."""
        most = (step.to.noise_share / step.level.share).clamp(max=1)
        sigma = {
            "cap": most.clamp(max=self.eta),
            "rescale": self.eta * most,
            "psi": self.eta * step.to.noise_share,
        }[self.sigma]
        inside = (step.level.t <= self.before) & (step.level.t >= self.after)
        return torch.where(inside, sigma, 0.0)


class _Tokens:
    """The uniforms that decide when each masked token is unmasked, and its value."""

    def __init__(self, path: Trajectory) -> None:
        shape = path.process.data.shape
        self.moment = path.noise.uniform("reveal", shape)  # [B, *D]
        self.value = path.noise.uniform("value", shape)
        self.passed = torch.zeros_like(self.moment)  # P(unmasked by now since it was masked)

    def due(self, chance: Tensor) -> Tensor:
        """[B, *D] which tokens, if masked, are unmasked in a step with this probability."""
        self.passed = self.passed + (1 - self.passed) * chance
        return self.moment <= self.passed

    def renew(self, again: Tensor, noise: Noise) -> None:
        """Draw new uniforms for the tokens masked ``again``."""
        shape = again.shape[1:]
        self.moment = torch.where(again, noise.uniform("reveal", shape), self.moment)
        self.value = torch.where(again, noise.uniform("value", shape), self.value)
        self.passed = self.passed.masked_fill(again, 0.0)
