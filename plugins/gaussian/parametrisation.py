"""What a network for Gaussian diffusion is shown, and what its output means.

With a = sqrt(share), b = sqrt(1 - share), z = a x + b eps, one lambda serves them all:

    eps    output is the noise                      sees z
    x      output is the data                       sees z
    v      output is a eps - b x                    sees z           (Salimans & Ho 2022)
    flow   output is eps - x                        sees z/(a + b)   (Lipman et al. 2022)
    edm    x = c_skip y + c_out output, y = z/a     sees c_in y      (Karras et al. 2022)
    levels x = mean of q(k | z) ~ e^output_k N(z; a x_k, b^2)        sees z
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import attrs
from elbowroom import Level, RealPrediction
from torch import Tensor


class Parametrisation(ABC):
    """How a network and a Gaussian process talk to each other."""

    def network_input(self, z: Tensor, level: Level) -> Tensor:
        """What the network sees."""
        return z

    @abstractmethod
    def read(self, output: Tensor, z: Tensor, level: Level) -> RealPrediction:
        """What it says."""


class PredictNoise(Parametrisation):
    """The output is the noise."""

    def read(self, output: Tensor, z: Tensor, level: Level) -> RealPrediction:
        return RealPrediction(z, level, given_eps=output)


class PredictData(Parametrisation):
    """The output is the data."""

    def read(self, output: Tensor, z: Tensor, level: Level) -> RealPrediction:
        return RealPrediction(z, level, given_x=output)


class PredictVelocity(Parametrisation):
    """The output is the velocity a eps - b x."""

    def read(self, output: Tensor, z: Tensor, level: Level) -> RealPrediction:
        return RealPrediction(z, level, given_v=output)


class PredictFlow(Parametrisation):
    """The output is u = eps - x, so z = (a + b) x + b u = (a + b) eps - a u."""

    def network_input(self, z: Tensor, level: Level) -> Tensor:
        return z / (level.share.sqrt() + level.noise_share.sqrt())

    def read(self, output: Tensor, z: Tensor, level: Level) -> RealPrediction:
        a, b = level.share.sqrt(), level.noise_share.sqrt()
        x, eps = (z - b * output) / (a + b), (z + a * output) / (a + b)
        return RealPrediction(z, level, given_x=x, given_eps=eps)


@attrs.frozen
class PredictEDM(Parametrisation):
    """EDM's preconditioning, with sigma^2 = e^-lambda and data of standard deviation d.

    c_in = 1/sqrt(sigma^2 + d^2), c_skip = d^2 c_in^2, c_out = sigma d c_in.
    """

    data_std: float = 0.5

    def network_input(self, z: Tensor, level: Level) -> Tensor:
        return z * (self._c_in(level) / level.share.sqrt())

    def read(self, output: Tensor, z: Tensor, level: Level) -> RealPrediction:
        sigma, c_in = (-level.log_snr / 2).exp(), self._c_in(level)
        y = z / level.share.sqrt()
        x = (self.data_std * c_in) ** 2 * y + sigma * self.data_std * c_in * output
        return RealPrediction(z, level, given_x=x)

    def _c_in(self, level: Level) -> Tensor:
        return ((-level.log_snr).exp() + self.data_std**2).rsqrt()


@attrs.frozen(eq=False)
class PredictLevels(Parametrisation):
    """The output is a logit for each of the V values data can have.

    What z itself says of its element is known in closed form, and multiplied in; the network says
    only what the other elements tell. So x_hat is right near the data, where every other
    parametrisation must learn to round to the nearest value.
    """

    values: Tensor  # [V]

    def read(self, output: Tensor, z: Tensor, level: Level) -> RealPrediction:
        values = self.values.to(output)
        a, b2 = level.share.unsqueeze(-1), level.noise_share.unsqueeze(-1)
        distance = (z.unsqueeze(-1) - a.sqrt() * values) ** 2  # [B, *D, V]
        chances = (output - distance / (2 * b2)).softmax(-1)
        return RealPrediction(z, level, given_x=(chances @ values).to(z.dtype))
