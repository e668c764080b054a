"""Remasking (ReMDM, Wang et al. 2025): what was revealed may be hidden again, and reconsidered.

With a = share, on the way from t to s a visible token is hidden with probability sigma, a hidden
one revealed with probability

    u = (a_s - (1 - sigma) a_t) / (1 - a_t)  =  step price + sigma e^lambda_t,

which leaves the share of hidden tokens at every level as it was, for any sigma up to
sigma_max = min(1, (1 - a_s)/a_t). Three schedules of sigma: ``cap`` min(eta, sigma_max),
``rescale`` eta * sigma_max, and ``psi`` eta (1 - a_s), with which a step is a mixture: with
probability eta a token is guessed and made noisy anew, whatever it was (:mod:`.psi`). Each only
while ``after`` <= t <= ``before``. sigma = 0 is ancestral sampling, with the same samples.

When a token is revealed or hidden does not depend on the network. So a hidden token carries one
uniform until it is revealed, and the network is called only for samples in which some token is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs
import torch
from elbowroom import Frame, Model, Noise, Sampler, Step, Trajectory, draw_categorical
from torch import Tensor

from .absorbing import NEEDS, Marked, mask_of

_share = attrs.validators.and_(attrs.validators.ge(0.0), attrs.validators.le(1.0))


@attrs.frozen
class Remask(Sampler):
    """Ancestral steps that also hide tokens again; more steps, better samples."""

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
            z = self._advance(path, z, path.together(one_by_one, i), tokens, i)
            yield Frame(z, i + 1)
        yield self.finish(path, z, levels)

    def _advance(self, path: Trajectory, z: Tensor, step: Step, tokens: _Tokens, i: int) -> Tensor:
        mask, sigma = mask_of(path.process), self.sigma_of(step)
        hidden = z == mask
        chance = path.process.step_price(step.level.log_snr, step.to.log_snr)
        due = Marked.of(hidden & tokens.due(chance + sigma * step.level.snr))
        moved = z
        if len(due.rows):
            prediction = path.predict(z[due.rows], step.level, due.rows)
            value = draw_categorical(prediction.at(due.among_rows), tokens.value[due.places])
            moved = z.index_put(due.places, value)
        if float(sigma) > 0:
            noise = path.noise.at(i + 1)
            ours = path.first == mask  # what was given at the start stays
            again = ours & ~hidden & (noise.uniform("remask", z.shape[1:]) < sigma)
            moved = torch.where(again, mask, moved)
            tokens.renew(again, noise)
        return moved

    def sigma_of(self, step: Step) -> Tensor:
        """The probability that a visible token is hidden again in this step."""
        most = (step.to.noise_share / step.level.share).clamp(max=1)
        sigma = {
            "cap": most.clamp(max=self.eta),
            "rescale": self.eta * most,
            "psi": self.eta * step.to.noise_share,
        }[self.sigma]
        inside = (step.level.t <= self.before) & (step.level.t >= self.after)
        return torch.where(inside, sigma, 0.0)


class _Tokens:
    """What decides when each hidden token appears, and as what."""

    def __init__(self, path: Trajectory) -> None:
        shape = path.process.data.shape
        self.moment = path.noise.uniform("reveal", shape)  # [B, *D]
        self.value = path.noise.uniform("value", shape)
        self.passed = torch.zeros_like(self.moment)  # P(revealed by now since it was hidden)

    def due(self, chance: Tensor) -> Tensor:
        """Which tokens, if hidden, appear in a step that reveals with this probability."""
        self.passed = self.passed + (1 - self.passed) * chance
        return self.moment <= self.passed

    def renew(self, again: Tensor, noise: Noise) -> None:
        """Fresh numbers for tokens that are hidden again."""
        shape = again.shape[1:]
        self.moment = torch.where(again, noise.uniform("reveal", shape), self.moment)
        self.value = torch.where(again, noise.uniform("value", shape), self.value)
        self.passed = self.passed.masked_fill(again, 0.0)
