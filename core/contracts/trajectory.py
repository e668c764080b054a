"""Trajectories: the model, condition and noise of a batch of samples, and its network calls.

Samples of one batch may be at different steps, so every method accepts some of the rows.

A trajectory also detects non-finite predictions: on a CPU it raises immediately; on an accelerator,
to avoid a synchronisation, it records the first one of each sample and raises at the end
(:meth:`Trajectory.check`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..errors import ElbowroomError
from ..randomness.noise import Noise
from .level import Level
from .process import Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from .sampler import Model, Sampler

_Memory = dict[tuple[str, tuple[int, ...], "torch.dtype | None"], "Tensor"]


@attrs.frozen(eq=False)
class PathNoise(Noise):
    """Noise that caches the uniforms of its own step for the whole batch.

    A process needs the uniforms of each token at every event of a trajectory. Noise of another
    step is not cached, since it is used once.
    """

    _whole: PathNoise | None = None  # the noise of the whole batch; None: this one
    _rows: Tensor | None = None  # rows of the whole batch
    _memory: _Memory = attrs.field(factory=dict)

    @classmethod
    def remembering(cls, noise: Noise) -> PathNoise:
        """The same noise with a cache."""
        return cls(noise.seed, noise.positions, noise.total, noise.step)

    def at(self, step: int | Tensor) -> Noise:
        """The same samples at another step."""
        return Noise(self.seed, self.positions, self.total, step)

    def select(self, index: Tensor | slice) -> Noise:
        """The noise of some of the samples, from the cache of the whole batch."""
        import torch

        rows = torch.arange(len(self), device=self.device) if self._rows is None else self._rows
        step = self.step if isinstance(self.step, int) else self.step[index]
        whole = self if self._whole is None else self._whole
        return PathNoise(
            self.seed, self.positions[index], self.total, step, whole=whole, rows=rows[index]
        )

    def uniform(
        self, label: str, shape: Sequence[int] = (), dtype: torch.dtype | None = None
    ) -> Tensor:
        """As :meth:`Noise.uniform`; do not modify the result."""
        if self._whole is not None:
            assert self._rows is not None, "a part has rows"
            return self._whole.uniform(label, shape, dtype)[self._rows]
        key = (label, tuple(shape), dtype)
        if key not in self._memory:
            self._memory[key] = Noise.uniform(self, label, shape, dtype)
        return self._memory[key]


@attrs.frozen(eq=False)
class Given:
    """Positions whose values are given to a sampler."""

    x: Tensor  # [B, *D] encoded data
    keep: Tensor  # [B, *D] bool: where x is given
    clean: Level | None = None  # their level, for networks with a level per position

    def select(self, rows: Tensor | None) -> Given:
        """Those of some of the samples."""
        return self if rows is None else Given(self.x[rows], self.keep[rows], self.clean)


class NonFinitePredictionError(ElbowroomError):
    """A network's prediction during sampling is not finite."""


class Trajectory:
    """A batch of samples on the way from noise to data.

    Args:
        model: The model, guided if the sampler is.
        noise: One stream per sample.
        cond: [B] labels, or None.
        by: The sampler, for error messages.
    """

    def __init__(self, model: Model, noise: Noise, cond: Tensor | None, by: Sampler) -> None:
        import torch

        self.model = model
        self.process = model.process
        self.noise = PathNoise.remembering(noise)
        self.cond = cond
        self.given: Given | None = getattr(model, "known", None)
        self.calls = torch.zeros(len(noise), dtype=torch.int64, device=noise.device)  # [B]
        self.first: Tensor  # [B, *D] the first z
        self._by = by
        # network call (0: none) and lambda of the first invalid prediction
        self._invalid = torch.zeros(len(noise), 2, dtype=torch.float64, device=noise.device)

    def start(self, z: Tensor | None = None) -> Tensor:
        """Where the path begins: at ``z``, or at the process's prior; given tokens unmasked."""
        import torch

        self.first = self.process.prior(self.noise) if z is None else z
        if self.given is not None and "absorbing" in self.process.traits:
            self.first = torch.where(self.given.keep, self.given.x, self.first)
        return self.first

    def shared_step(self, levels: Sequence[Level], index: int) -> Step:
        """Interval ``index`` of a grid for all samples; its levels are scalars."""
        rows = self.calls.new_full(self.calls.shape, index)
        return Step(rows, levels[index], levels[index + 1], levels[0], index, len(levels) - 1)

    def step(self, levels: Level, z: Tensor, index: Tensor) -> Step:
        """Interval ``index`` [B] of a grid, for samples z [B, *D]; levels stay in float64."""
        index = index.to(levels.log_snr.device)
        return Step(
            index.to(z.device),
            levels.select(index).over(z),
            levels.select(index + 1).over(z),
            levels.unbind()[0],  # a scalar
        )

    def predict(self, z: Tensor, level: Level, rows: Tensor | None = None) -> Any:
        """The model's prediction at z [B, *D], counted as a network call of each sample.

        Args:
            z: The samples, or those of ``rows``.
            level: Their level.
            rows: [K] indices of the samples in the batch; None: all.
        """
        import torch

        cond = self.cond
        if rows is None:
            self.calls += 1
        else:
            self.calls[rows] += 1
            cond = None if cond is None else cond[rows]
        with torch.no_grad():
            prediction = self._predict(z, level.over(z, level_precision(z)), cond, rows)
            if hasattr(prediction, "is_valid"):  # optional for a process's own type
                self._watch(z, prediction.is_valid(), level, rows)
        return prediction

    def _predict(self, z: Tensor, level: Level, cond: Tensor | None, rows: Tensor | None) -> Any:
        """The model's prediction, with the values of given positions."""
        if self.given is None or "absorbing" in self.process.traits:
            return self.model.predict(z, level, cond)
        given = self.given.select(rows)
        if given.clean is not None:
            z, level = self._cleaned(z, level, given, rows)
        return self.model.predict(z, level, cond).with_known(given.x, given.keep)

    def _cleaned(
        self, z: Tensor, level: Level, given: Given, rows: Tensor | None
    ) -> tuple[Tensor, Level]:
        """z and its levels, with given positions at the level of the data."""
        import torch

        assert given.clean is not None
        noise = self.noise if rows is None else self.noise.select(rows)
        clean = self.process.corrupt(given.x, given.clean.over(z, z.dtype), noise)
        log_snr = torch.where(given.keep, given.clean.log_snr.to(level.log_snr), level.log_snr)
        return torch.where(given.keep, clean.to(z.dtype), z), Level.at(log_snr, self.process)

    def _watch(self, z: Tensor, valid: Tensor, level: Level, rows: Tensor | None = None) -> None:
        """Record where z or its prediction is not finite, for samples without a record."""
        import torch

        if z.is_floating_point():
            valid = valid & z.isfinite().flatten(1).all(1)
        on_cpu = z.device.type == "cpu"
        if on_cpu and bool(valid.all()):
            return
        everyone = slice(None) if rows is None else rows
        lam = level.over(z, torch.float64).log_snr
        lam = lam.flatten(1)[:, 0].expand(len(z)) if lam.ndim else lam.expand(len(z))
        now = torch.stack((self.calls[everyone].double(), lam), 1)  # [B, 2]
        before = self._invalid[everyone]
        good = valid | (before[:, 0] > 0)
        self._invalid[everyone] = torch.where(good[:, None], before, now)
        if on_cpu:
            self.check()

    def end(self, z: Tensor, level: Level) -> None:
        """Check the whole trajectory, which ends at z [B, *D]."""
        self._watch(z, self.calls >= 0, level)
        if z.device.type != "cpu":
            self.check()

    def check(self) -> None:
        """Raise if a prediction was not finite; synchronises with an accelerator."""
        invalid = self._invalid.cpu()
        found = invalid[:, 0].nonzero().flatten().tolist()
        if not found:
            return
        row = min(found, key=lambda one: float(invalid[one, 1]))  # the noisiest
        call, lam = invalid[row].tolist()
        raise NonFinitePredictionError(
            f"sampler {type(self._by).__name__}, {self._place(lam)}: the network's prediction is "
            f"not finite (sample {int(self.noise.positions[row])}, at its network call {call:.0f}; "
            f"{len(found)} of {len(invalid)} samples). Check the weights, "
            "the precision, and the guidance if used"
        )

    def _place(self, log_snr: float) -> str:
        """The position of a level on the sampler's grid, as text."""
        import torch

        levels = self._by.levels(self.model)
        lam = torch.tensor(log_snr, dtype=torch.float64)
        at = f"t = {float(self.model.schedule.time(lam)):.4g}"
        (index,) = levels.log_snr.cpu().isclose(lam, 1e-6, 1e-6).nonzero(as_tuple=True)
        steps = len(levels.log_snr) - 1
        if not len(index):
            return at  # no grid, or between its levels
        return (
            f"step {int(index[0]) + 1} of {steps} ({at})"
            if index[0] < steps
            else "the final prediction"
        )


def level_precision(z: Tensor) -> torch.dtype:
    """The precision of levels used with z: its dtype, or float64 for integers."""
    import torch

    return z.dtype if z.is_floating_point() else torch.float64
