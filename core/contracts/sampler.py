"""Samplers: from noise to data.

A sampler is a grid of times and a rule for one step. The grid runs from t = 1 down to t = 0 in at
most ``steps`` intervals. Network calls are counted separately: a sampler may need fewer calls than
steps (events of a masked process) or more (Heun's second evaluation).

A trajectory is streamed as :class:`Frame` objects; the last one has the finished integers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs

from ..errors import ContractError, IncompatibleError
from ..randomness.noise import Noise
from .grid import EvenGrid, Grid
from .guidance import Guidance
from .level import Level
from .trajectory import Trajectory, level_precision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from .path import Path
    from .process import Process, Step
    from .schedule import Schedule


class Model(Protocol):
    """The part of a diffusion model that samplers use."""

    @property
    def process(self) -> Process: ...

    @property
    def schedule(self) -> Schedule: ...

    def predict(self, z: Tensor, level: Level, cond: Tensor | None) -> Any:
        """The prediction at z, level and condition, all of the same batch."""

    def guided(self, guidance: float | Guidance) -> Model:
        """The same model, guided; a number is the scale of classifier-free guidance."""


@attrs.frozen(eq=False)
class Frame:
    """A point of a trajectory."""

    z: Tensor  # [B, *shape] in the process's space
    step: int  # intervals done; the sampler's ``steps`` in the last frame
    x: Tensor | None = None  # [B, *shape] integers, in the last frame
    calls: Tensor | None = None  # [B] network calls each sample took, in the last frame


@attrs.frozen(eq=False)
class Samples:
    """Finished samples."""

    x: Tensor  # [B, *shape] integers
    calls: Tensor  # [B] network calls of each sample
    labels: Tensor | None = None  # [B]
    first: int = 0  # number of the first sample, in a chunk of a larger set


def _path_of(model: Model) -> Path | None:
    """The path of a model whose levels differ between positions, else None."""
    path: Path | None = getattr(model, "path", None)
    return path if path is not None and path.per_position else None


def _a_grid(_: Any, __: Any, value: Any) -> None:
    if not isinstance(value, Grid):
        raise TypeError(f"grid {value!r} is not an elbowroom.Grid; names are for configs")


def _scale_or_guidance(_: Any, __: Any, value: Any) -> None:
    if not isinstance(value, Guidance) and not value >= 0:
        raise ValueError(f"guidance {value!r} must be a scale >= 0, or a guidance")


@attrs.frozen
class Sampler(ABC):
    """A grid and a step rule. Define ``frames``, or derive from :class:`SteppingSampler`.

    ``needs`` are the traits it requires of a process.

    Args:
        steps: Largest number of steps.
        grid: Times of the steps.
        guidance: The scale of classifier-free guidance (1: none; see
            :mod:`elbowroom.objective.classifier_free`), or a :class:`~elbowroom.Guidance`.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    along_paths: ClassVar[bool] = False
    """Whether the steps take levels that differ between positions (``objective.path``)."""

    steps: int = attrs.field(default=256, validator=attrs.validators.ge(1))
    grid: Grid = attrs.field(factory=EvenGrid, validator=_a_grid)
    guidance: float | Guidance = attrs.field(
        default=1.0, kw_only=True, validator=_scale_or_guidance
    )

    @abstractmethod
    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        """The trajectory of each sample, from ``z`` or the prior; the last frame has x."""

    def sample(self, model: Model, noise: Noise, cond: Tensor | None = None) -> Samples:
        """The samples at the end of the trajectory."""
        end = None
        for frame in self.frames(model, noise, cond):
            end = frame
        if end is None or end.x is None or end.calls is None:
            raise ContractError(f"{type(self).__name__} ended without samples")
        return Samples(end.x, end.calls)

    def count_steps(self, model: Model) -> int:
        """Number of steps of its grid, at most ``steps``."""
        return min(self.steps, len(self.grid.times(self.steps, model.schedule)) - 1)

    def levels(self, model: Model) -> Level:
        """The levels of the grid, [T + 1] float64, from noise to data; T is at most ``steps``."""
        t = self.grid.times(self.steps, model.schedule)
        path = _path_of(model)
        if path is not None:  # [T + 1, *shape]
            t, _ = path(t, Noise.of(0, len(t)), model.process.data.shape)
        return Level.of(t, model.schedule, model.process)

    @property
    def is_guided(self) -> bool:
        """Whether the model is guided."""
        return isinstance(self.guidance, Guidance) or self.guidance != 1

    @property
    def needs_null_label(self) -> bool:
        """Whether its guidance evaluates the model without a label."""
        needs = not isinstance(self.guidance, Guidance) or self.guidance.needs_null_label
        return self.is_guided and needs

    def path(self, model: Model, noise: Noise, cond: Tensor | None) -> Trajectory:
        """The trajectory of a batch, its model guided if ``guidance`` is set."""
        if _path_of(model) is not None and not self.along_paths:
            raise IncompatibleError(
                f"sampler {type(self).__name__} cannot follow objective.path "
                f"{type(_path_of(model)).__name__}, which has a level per position: use ancestral"
            )
        if self.is_guided:
            model = model.guided(self.guidance)
        return Trajectory(model, noise, cond, self)

    def finish(self, path: Trajectory, z: Tensor, levels: Level) -> Frame:
        """The last frame: z decoded, with a final prediction for the samples that need it."""
        process = path.process
        rows = process.needs_final_prediction(z).nonzero().squeeze(1)
        last = rows.new_full((len(z),), len(levels.log_snr) - 1, device=levels.log_snr.device)
        end = levels.select(last).over(z, level_precision(z))
        x = process.decode(z, None, end, path.noise)
        if len(rows):
            part, level = z[rows], end.select(rows)
            prediction = self.final_prediction(
                path.predict(part, level, rows), path.noise.select(rows)
            )
            seen = process.decode(part, prediction, level, path.noise.select(rows))
            x = x.index_copy(0, rows, seen)
        path.end(z, end)
        return Frame(z, self.steps, x, path.calls)

    def final_prediction(self, prediction: Any, noise: Noise) -> Any:
        """The prediction to decode, given the final one (default: itself)."""
        return prediction


@attrs.frozen
class SteppingSampler(Sampler):
    """A sampler whose batch shares the steps of the grid. Define ``advance``.

    Example:
        >>> @attrs.frozen
        ... class Ancestral(SteppingSampler):
        ...     def advance(self, path, z, step):
        ...         noise = path.noise.at(step.number)
        ...         return path.process.reverse(z, path.predict(z, step.level), step, noise)
    """

    @abstractmethod
    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        """z at ``step.to``, from z at ``step.level``; ``path.predict`` evaluates the network."""

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        path, levels = self.path(model, noise, cond), self.levels(model)
        z = path.start(z)
        yield Frame(z, 0)
        one_by_one = levels.unbind()
        for i in range(len(one_by_one) - 1):
            z = self.advance(path, z, path.shared_step(one_by_one, i)).to(z.dtype)
            yield Frame(z, i + 1)
        yield self.finish(path, z, levels)
