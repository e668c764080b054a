"""Samplers: from noise back to data.

A sampler is a grid of times and a rule for one step. The grid runs from t = 1 down to t = 0 in
``steps`` intervals; network calls are counted apart, since a sampler may need fewer calls than
steps (events of a masked process) or more (Heun's second look).

A path is streamed as :class:`Frame` objects; the last one holds the finished integers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import attrs

from ..errors import AnswerError
from .level import Level
from .trajectory import Trajectory, level_precision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from ..randomness.noise import Noise
    from .process import Process, Step
    from .schedule import Schedule


class Model(Protocol):
    """What a sampler needs of a diffusion model."""

    @property
    def process(self) -> Process: ...

    @property
    def schedule(self) -> Schedule: ...

    def predict(self, z: Tensor, level: Level, cond: Tensor | None) -> Any:
        """The prediction at z, level and condition, all of the same batch."""

    def guided(self, scale: float) -> Model:
        """The same model under classifier-free guidance of this scale."""


@attrs.frozen(eq=False)
class Frame:
    """A moment of a path."""

    z: Tensor  # [B, *shape] in the process's space
    step: int  # grid intervals behind us
    x: Tensor | None = None  # [B, *shape] integers, in the last frame
    calls: Tensor | None = None  # [B] network calls each sample took, in the last frame


@attrs.frozen(eq=False)
class Samples:
    """Finished samples."""

    x: Tensor  # [B, *shape] integers
    calls: Tensor  # [B] network calls each took


@attrs.frozen
class Sampler(ABC):
    """A grid and a step rule. ``needs`` is what it asks of a process's traits.

    ``guidance`` above 1 pushes samples towards their label, away from what the model says
    without one (see :mod:`elbowroom.objective.guidance`); 1 is the model itself.
    """

    needs: ClassVar[frozenset[str]] = frozenset()

    steps: int = attrs.field(default=256, validator=attrs.validators.ge(1))
    grid: Literal["uniform", "cosine", "log-snr", "rho"] = "uniform"
    guidance: float = attrs.field(default=1.0, kw_only=True, validator=attrs.validators.ge(0))

    @abstractmethod
    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        """The path of each sample of ``noise``, from ``z`` or the prior; the last frame has x."""

    def sample(self, model: Model, noise: Noise, cond: Tensor | None = None) -> Samples:
        """The end of the path alone."""
        end = None
        for frame in self.frames(model, noise, cond):
            end = frame
        if end is None or end.x is None or end.calls is None:
            raise AnswerError(f"{type(self).__name__} ended its path without samples")
        return Samples(end.x, end.calls)

    def levels(self, model: Model) -> Level:
        """The T + 1 levels of the grid, [T + 1] float64, from noise to data."""
        t = GRIDS[self.grid](self.steps, model.schedule)
        return Level.of(t, model.schedule, model.process)

    def path(self, model: Model, noise: Noise, cond: Tensor | None) -> Trajectory:
        """What stays the same from noise to data, guidance included."""
        if self.guidance != 1:
            model = model.guided(self.guidance)
        return Trajectory(model, noise, cond, self)

    def finish(self, path: Trajectory, z: Tensor, levels: Level) -> Frame:
        """The last frame: z decoded, with one more look at the samples that need it."""
        process = path.process
        rows = process.needs_last_look(z).nonzero().squeeze(1)
        last = rows.new_full((len(z),), len(levels.log_snr) - 1, device=levels.log_snr.device)
        end = levels.select(last).over(z, level_precision(z))
        x = process.decode(z, None, end, path.noise)
        if len(rows):
            part, level = z[rows], end.select(rows)
            prediction = path.predict(part, level, rows)
            seen = process.decode(part, prediction, level, path.noise.select(rows))
            x = x.index_copy(0, rows, seen)
        path.end(z, end)
        return Frame(z, self.steps, x, path.calls)


@attrs.frozen
class SteppingSampler(Sampler):
    """A sampler whose batch walks the grid together: give the rule for one step."""

    @abstractmethod
    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        """z at ``step.to``, from z at ``step.level``; ask the network through ``path.predict``."""

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        path, levels = self.path(model, noise, cond), self.levels(model)
        z = path.start(z)
        yield Frame(z, 0)
        one_by_one = levels.unbind()
        for i in range(len(one_by_one) - 1):
            z = self.advance(path, z, path.together(one_by_one, i)).to(z.dtype)
            yield Frame(z, i + 1)
        yield self.finish(path, z, levels)


def uniform_grid(steps: int, _: Schedule) -> Tensor:
    """t falls evenly."""
    import torch

    return 1 - torch.arange(steps + 1, dtype=torch.float64) / steps


def cosine_grid(steps: int, _: Schedule) -> Tensor:
    """t = cos(pi/2 i/T): small steps near the noise."""
    import torch

    t = (torch.pi / 2 * torch.arange(steps + 1, dtype=torch.float64) / steps).cos()
    t[-1] = 0.0
    return t


def log_snr_grid(steps: int, schedule: Schedule) -> Tensor:
    """lambda rises evenly."""
    import torch

    low, high = schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64))
    part = torch.arange(steps + 1, dtype=torch.float64) / steps
    return _pinned(schedule.time(low + part * (high - low)))


def rho_grid(steps: int, schedule: Schedule, rho: float = 7.0) -> Tensor:
    """sigma^(1/rho) falls evenly, sigma = e^(-lambda/2) (EDM)."""
    import torch

    root = (-schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64)) / (2 * rho)).exp()
    part = torch.arange(steps + 1, dtype=torch.float64) / steps
    return _pinned(schedule.time(-2 * rho * (root[0] + part * (root[1] - root[0])).log()))


def _pinned(t: Tensor) -> Tensor:
    """Exact ends, where the inverse is only nearly so."""
    t[0], t[-1] = 1.0, 0.0
    return t


GRIDS = {
    "uniform": uniform_grid,
    "cosine": cosine_grid,
    "log-snr": log_snr_grid,
    "rho": rho_grid,
}
