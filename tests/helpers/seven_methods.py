"""A process of the seven abstract methods alone; the file stands alone, as a user's would."""

from __future__ import annotations

from typing import ClassVar

import attrs
from elbowroom import Process, RealPrediction, Signature


@attrs.frozen
class Noisy(Process):
    """Gaussian noise, by the seven abstract methods alone."""

    traits: ClassVar[frozenset[str]] = frozenset({"real"})
    natural_schedule: ClassVar[str] = "vp-cosine"

    def signature(self):
        return Signature(self.data.shape, None, None, self.data.classes, needs_level=True)

    def encode(self, x):
        return 2 * x.float() / (self.data.levels - 1) - 1

    def prior(self, noise):
        return noise.normal("prior", self.data.shape)

    def corrupt(self, x, level, noise):
        level = level.aligned(x)
        return level.share.sqrt() * x + level.noise_share.sqrt() * noise.normal("eps", x.shape[1:])

    def read(self, output, z, level):
        return RealPrediction(z, level.aligned(z), given_x=output)

    def plain_loss(self, x, z, prediction, level):
        return (x - prediction.x) ** 2

    def reverse(self, z, prediction, step, noise):
        step = step.aligned(z)
        a, b = step.to.share.sqrt(), step.to.noise_share.sqrt()
        fresh = noise.at(step.index).normal("reverse", z.shape[1:])
        return (a * prediction.x + b * fresh).to(z.dtype)
