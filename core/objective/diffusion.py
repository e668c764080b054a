"""A diffusion model: a network, its objective and its sampler.

``assemble`` returns it, and data parallelism wraps it as a whole: ``forward`` is the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import torch
from torch import Tensor, nn

from ..contracts.adaptive import Adaptive, adaptive_parts
from ..contracts.guidance import Guidance
from ..contracts.level import Level
from ..contracts.path import Completion, Path
from ..contracts.process import Process, check_examples
from ..contracts.sampler import Sampler
from ..contracts.schedule import Schedule
from ..contracts.time_sampler import TimeSampler
from ..contracts.trajectory import Given
from ..errors import DataError
from ..randomness.noise import Noise
from .classifier_free import ClassifierFree
from .loss import Bound, Losses, Objective, bound


@attrs.frozen(eq=False)
class Denoised:
    """A model's prediction for data corrupted to a given time; see :meth:`Diffusion.denoise`."""

    level: Level  # broadcasts against z
    z: Tensor  # [B, *D] the corrupted data
    prediction: Any  # RealPrediction (``x``, ``eps``, ...) or CategoricalPrediction (``logits``)
    loss: Tensor  # [B] the training loss at this time, in nats
    elbo: Tensor  # [B] the integrand of the bound at this time, in nats


class Diffusion(nn.Module):
    """A diffusion model.

    Args:
        objective: Process, schedule, weighting and times.
        denoiser: A network (z, log_snr, cond) -> output of the process's signature.
        sampler: Needed to draw samples.

    Example:
        >>> losses = model(x, y)        # integers x [B, *D], labels y [B]
        >>> losses.loss.backward()
        >>> drawn = elbowroom.sample(model, 16).x
    """

    def __init__(
        self, objective: Objective, denoiser: nn.Module, sampler: Sampler | None = None
    ) -> None:
        super().__init__()
        self.objective = objective
        self.denoiser = denoiser
        self.sampler = sampler
        self.trained_range: tuple[float, float] | None = (
            None  # log-SNRs; None: those of its schedule
        )
        learned = {  # trained and saved with the network
            "weighting": objective.weighting,
            "times": objective.times,
        }
        for name, part in learned.items():
            if isinstance(part, nn.Module):
                self.add_module(name, part)

    @property
    def process(self) -> Process:
        """The noise process, bound to its data."""
        return self.objective.process

    @property
    def schedule(self) -> Schedule:
        """The log-SNR over time."""
        return self.objective.schedule

    @property
    def level_per_position(self) -> bool:
        """Whether the network takes the level of each position, not one per example."""
        return self.objective.path.per_position and self.process.signature().needs_level

    @property
    def path(self) -> Path:
        """The path that samples and the bound follow."""
        return self.objective.path.bound_path()

    @property
    def adaptive(self) -> list[Adaptive]:
        """The adaptive components of its objective, nested ones included."""
        parts = (self.objective.weighting, self.objective.times)
        return [inner for part in parts for inner in adaptive_parts(part)]

    def predict(self, z: Tensor, level: Level, cond: Tensor | None = None) -> Any:
        """The prediction at z [B, *D]: RealPrediction or CategoricalPrediction."""
        seen = self.process.network_input(z, level)
        log_snr = level.per_example(len(z)).to(torch.float32)
        if log_snr.ndim > 1 and not self.level_per_position:
            log_snr = log_snr.flatten(1).amin(1)  # the level of the noisiest position
        output = self.denoiser(seen, log_snr, cond)
        return self.process.read(output, z, level)

    def encode(self, x: Tensor) -> Tensor:
        """Integers x [B, *D] in the process's own space; other shapes raise a DataError."""
        check_examples(x, self.process.data)
        return self.process.encode(x)

    def guided(self, guidance: float | Guidance) -> Diffusion:
        """The same model with a guided denoiser. Nothing is copied."""
        way = guidance if isinstance(guidance, Guidance) else ClassifierFree(guidance)
        way.check_process(self.process)
        network = way(self.denoiser, self.process.signature().classes)
        return Diffusion(self.objective, network, self.sampler)

    def forward(
        self,
        x: Tensor,
        cond: Tensor | None = None,
        noise: Noise | None = None,
        mean_over_ranks: Callable[[Tensor], Tensor] = lambda value: value,
        shares: Tensor | None = None,
    ) -> Losses:
        """The losses of a batch.

        Args:
            x: [B, *D] integers of the data.
            cond: [B] labels, or None.
            noise: Random numbers; None: seeded by torch's generator (``torch.manual_seed``).
            mean_over_ranks: Mean of a value over the ranks of a group.
            shares: [B] factors of the losses, if x is a part of a batch.
        """
        encoded = self.encode(x)
        noise = Noise.drawn(len(x), x.device) if noise is None else noise
        return self.objective(
            lambda z, level: self.predict(z, level, cond),
            encoded,
            noise,
            mean_over_ranks,
            shares,
        )

    @torch.no_grad()
    def bound(
        self,
        x: Tensor,
        cond: Tensor | None,
        noise: Noise,
        steps: int | None = None,
        keep: Tensor | None = None,
    ) -> Bound:
        """The ELBO's three terms for integers x [B, *D], whatever the weighting.

        With ``keep`` [B, *D] it is the bound on -log p(x where not keep | x where keep).
        """
        return bound(
            self.process,
            self.schedule,
            lambda z, level: self.predict(z, level, cond),
            self.encode(x),
            noise,
            steps,
            self.objective.path.bound_path() if keep is None else self.completion(keep),
        )

    def completion(self, keep: Tensor) -> Completion:
        """The path on which positions where ``keep`` is true are given.

        They are clean if the network can represent that: masked tokens, or levels per position.
        """
        clean = "absorbing" in self.process.traits or self.level_per_position
        return Completion(keep, clean)

    def conditioned_on(self, x: Tensor, keep: Tensor) -> Conditioned:
        """The model of the other positions, with integers x [B, *D] given where ``keep`` is true.

        Exact for masked models, and for networks trained with a level per position. Otherwise
        given positions have the noise of the common time, which is approximate (replacement).
        """
        clean = None
        if "absorbing" not in self.process.traits and self.completion(keep).clean:
            clean = Level.of(torch.zeros((), dtype=torch.float64), self.schedule, self.process)
        return Conditioned(self, Given(self.encode(x), keep, clean))

    @torch.no_grad()
    def denoise(
        self, x: Tensor, t: float | Tensor = 0.5, cond: Tensor | None = None, *, seed: int = 0
    ) -> Denoised:
        """Corrupt integers x [B, *D] to time ``t`` (one, or one per example) and predict them.

        Time 0 is the data, time 1 the noise. The same ``seed`` draws the same noise.
        """
        times = torch.as_tensor(t, dtype=torch.float64, device=x.device).expand(len(x))
        if not bool(((times >= 0) & (times <= 1)).all()):
            raise DataError(f"t={t}: a time is between 0 (data) and 1 (noise)")
        found: list[tuple[Level, Tensor, Any]] = []

        def predict(z: Tensor, level: Level) -> Any:
            found.append((level, z, self.predict(z, level, cond)))
            return found[0][2]

        objective = attrs.evolve(self.objective, times=_FixedTimes(times))
        losses = objective(predict, self.encode(x), Noise.of(seed, len(x), device=x.device))
        return Denoised(*found[0], losses.per_example, losses.elbo)


@attrs.frozen(eq=False)
class Conditioned:
    """A model with given positions, as samplers take it."""

    model: Diffusion
    known: Given

    @property
    def process(self) -> Process:
        return self.model.process

    @property
    def schedule(self) -> Schedule:
        return self.model.schedule

    @property
    def path(self) -> Path:
        return self.model.path

    def predict(self, z: Tensor, level: Level, cond: Tensor | None) -> Any:
        """The model's prediction; the trajectory inserts the given values."""
        return self.model.predict(z, level, cond)

    def guided(self, guidance: float | Guidance) -> Conditioned:
        """The guided model with the same given positions."""
        return Conditioned(self.model.guided(guidance), self.known)


class _FixedTimes(TimeSampler):
    """Given times, each with density 1."""

    def __init__(self, t: Tensor) -> None:
        self._t = t

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        return self._t, torch.ones_like(self._t)


@torch.no_grad()
def log_snr_range(schedule: Schedule) -> tuple[float, float]:
    """The least and the largest log-SNR of a schedule."""
    ends = schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64))
    return float(ends[0].min()), float(ends[-1].max())
