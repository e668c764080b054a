"""Input and output parametrisations of a network for Gaussian diffusion.

With a = sqrt(share), b = sqrt(1 - share), z = a x + b eps, for every one:

    eps    output is the noise                      input z
    x      output is the data                       input z
    v      output is a eps - b x                    input z          (Salimans & Ho 2022)
    flow   output is eps - x                        input z/(a + b)  (Lipman et al. 2022)
    edm    x = c_skip y + c_out output, y = z/a     input c_in y     (Karras et al. 2022)
    levels x = mean of q(k | z) ~ e^output_k N(z; a x_k, b^2)        input z
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import attrs
import torch
from elbowroom import Level, RealPrediction, draw_categorical
from torch import Tensor

_AT_ONCE = 2**24  # logits computed together where no gradient is needed


class Parametrisation(ABC):
    """The network's input, and the meaning of its output."""

    def network_input(self, z: Tensor, level: Level) -> Tensor:
        """The network's input for z (default: z)."""
        return z

    @abstractmethod
    def read(self, output: Tensor, z: Tensor, level: Level) -> RealPrediction:
        """The prediction for the network's output."""


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
    """The output is a logit for each of the V values of the data.

    The likelihood of z given its own element is known in closed form and multiplied in; the network
    predicts only from the other elements. So x_hat is accurate at low noise, where every other
    parametrisation must learn to round to the nearest value.
    """

    values: Tensor  # [V], or [*D, V]
    possible: Callable[[Tensor], Tensor]  # excludes values that a position cannot take

    def read(self, output: Tensor, z: Tensor, level: Level) -> RealPrediction:
        a, b2 = (value.expand(z.shape) for value in (level.share, level.noise_share))
        if torch.is_grad_enabled():
            return RealPrediction(z, level, given_x=self._mean(output, z, a, b2))

        def in_parts(of: Callable[..., Tensor], *given: Tensor) -> Tensor:
            """Evaluate in parts of the batch, to bound memory."""
            at_once = max(1, _AT_ONCE // max(1, output[:1].numel()))
            parts = zip(*(whole.split(at_once) for whole in given), strict=True)
            return torch.cat([of(*part) for part in parts])

        def draw(u: Tensor) -> Tensor:
            return in_parts(self._drawn, output, z, a, b2, u)

        mean = in_parts(self._mean, output, z, a, b2)
        return RealPrediction(z, level, given_x=mean, draw=draw)

    def _mean(self, output: Tensor, z: Tensor, a: Tensor, b2: Tensor) -> Tensor:
        """[B, *D] the mean of q(k | z), with the shares a of the signal and b2 of the noise."""
        p, values = self._logits(output, z, a, b2).softmax(-1), self.values.to(output)
        mean = p @ values if values.ndim == 1 else (p * values).sum(-1)
        return mean.to(z.dtype)

    def _drawn(self, output: Tensor, z: Tensor, a: Tensor, b2: Tensor, u: Tensor) -> Tensor:
        """[B, *D] x_k with k ~ q(k | z), for uniforms u."""
        k = draw_categorical(self._logits(output, z, a, b2), u)
        values = self.values.to(z)
        if values.ndim == 1:
            return values[k]
        return values.expand(*k.shape, -1).gather(-1, k.unsqueeze(-1)).squeeze(-1)

    def _logits(self, output: Tensor, z: Tensor, a: Tensor, b2: Tensor) -> Tensor:
        """[B, *D, V] log q(k | z), up to a constant."""
        distance = (z.unsqueeze(-1) - a.sqrt().unsqueeze(-1) * self.values.to(output)) ** 2
        return self.possible(output - distance / (2 * b2.unsqueeze(-1)))
