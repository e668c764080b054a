"""A sampler's path: what stays the same from noise to data.

The model, the condition and the noise of each sample do not change along a path; a path also
counts the network calls each sample took. Samples of one batch may be at different steps, so
everything can be asked for some rows only.

A path also watches for predictions that are not finite, of which no sample may come: on a CPU it
stops at once; on an accelerator, where asking would make it wait, it notes where the first of each
sample was and stops at the end (:meth:`Path.check`).
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
    """Noise whose uniforms are computed once for the whole batch, then looked up by row.

    A process asks at every event for the numbers that a token keeps for its whole path; asking
    twice gives the same answer anyway, this only makes it cheap. At another step it is as
    forgetful as any noise, since those numbers are used once.
    """

    _whole: PathNoise | None = None  # of which this is a part; None: it is the whole
    _rows: Tensor | None = None  # which part
    _memory: _Memory = attrs.field(factory=dict)

    @classmethod
    def remembering(cls, noise: Noise) -> PathNoise:
        """The same numbers, remembered."""
        return cls(noise.seed, noise.positions, noise.total, noise.step)

    def at(self, step: int | Tensor) -> Noise:
        """The same samples at another step."""
        return Noise(self.seed, self.positions, self.total, step)

    def select(self, index: Tensor | slice) -> Noise:
        """The source of some of the samples; it asks the whole, which remembers."""
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
        """As :meth:`Noise.uniform`; do not write into the answer."""
        if self._whole is not None:
            assert self._rows is not None, "a part knows its rows"
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
    """What a network said on the way of a sample is no prediction."""


class Trajectory:
    """The way of a batch of samples through a model, by a sampler."""

    def __init__(self, model: Model, noise: Noise, cond: Tensor | None, by: Sampler) -> None:
        import torch

        self.model = model
        self.process = model.process
        self.noise = PathNoise.remembering(noise)
        self.cond = cond
        self.given: Given | None = getattr(model, "known", None)
        self.calls = torch.zeros(len(noise), dtype=torch.int64, device=noise.device)  # [B]
        self.first: Tensor  # [B, *D] where it began
        self._by = by
        # of the first unsound prediction: the network call (0: there was none) and lambda
        self._unsound = torch.zeros(len(noise), 2, dtype=torch.float64, device=noise.device)

    def start(self, z: Tensor | None = None) -> Tensor:
        """Where the path begins: at ``z``, or at the process's prior; given tokens unmasked."""
        import torch

        self.first = self.process.prior(self.noise) if z is None else z
        if self.given is not None and "absorbing" in self.process.traits:
            self.first = torch.where(self.given.keep, self.given.x, self.first)
        return self.first

    def shared_step(self, levels: Sequence[Level], index: int) -> Step:
        """Interval ``index`` of a grid for all samples: its levels are single numbers."""
        rows = self.calls.new_full(self.calls.shape, index)
        return Step(rows, levels[index], levels[index + 1], levels[0], index, len(levels) - 1)

    def step(self, levels: Level, z: Tensor, index: Tensor) -> Step:
        """Interval ``index`` [B] of a grid, for samples z [B, *D]; levels stay in float64."""
        index = index.to(levels.log_snr.device)
        return Step(
            index.to(z.device),
            levels.select(index).over(z),
            levels.select(index + 1).over(z),
            levels.unbind()[0],  # one for all: it broadcasts as it is
        )

    def predict(self, z: Tensor, level: Level, rows: Tensor | None = None) -> Any:
        """What the model says of the samples z [B, *D] in ``rows``, counted as a call for each."""
        import torch

        cond = self.cond
        if rows is None:
            self.calls += 1
        else:
            self.calls[rows] += 1
            cond = None if cond is None else cond[rows]
        with torch.no_grad():
            prediction = self._predict(z, level.over(z, level_precision(z)), cond, rows)
            if hasattr(prediction, "is_valid"):  # a process's own kind of prediction need not say
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

    def _watch(self, z: Tensor, sound: Tensor, level: Level, rows: Tensor | None = None) -> None:
        """Note where z or what was said of it is not finite, if nothing was noted before."""
        import torch

        if z.is_floating_point():
            sound = sound & z.isfinite().flatten(1).all(1)
        on_cpu = z.device.type == "cpu"
        if on_cpu and bool(sound.all()):
            return
        everyone = slice(None) if rows is None else rows
        lam = level.over(z, torch.float64).log_snr
        lam = lam.flatten(1)[:, 0].expand(len(z)) if lam.ndim else lam.expand(len(z))
        now = torch.stack((self.calls[everyone].double(), lam), 1)  # [B, 2]
        before = self._unsound[everyone]
        good = sound | (before[:, 0] > 0)
        self._unsound[everyone] = torch.where(good[:, None], before, now)
        if on_cpu:
            self.check()

    def end(self, z: Tensor, level: Level) -> None:
        """The path has come to z [B, *D]: check all of it."""
        self._watch(z, self.calls >= 0, level)
        if z.device.type != "cpu":
            self.check()

    def check(self) -> None:
        """Stop if a prediction was not finite; an accelerator is waited for."""
        unsound = self._unsound.cpu()
        found = unsound[:, 0].nonzero().flatten().tolist()
        if not found:
            return
        row = min(found, key=lambda one: float(unsound[one, 1]))  # the noisiest
        call, lam = unsound[row].tolist()
        raise NonFinitePredictionError(
            f"sampler {type(self._by).__name__}, {self._place(lam)}: the network's prediction is "
            f"not finite (sample {int(self.noise.positions[row])}, at its network call {call:.0f}; "
            f"{len(found)} of {len(unsound)} samples). Nothing can be drawn from it: look at the "
            "weights, the precision, and guidance if it is used"
        )

    def _place(self, log_snr: float) -> str:
        """Where on the sampler's grid a level is, in words."""
        import torch

        levels = self._by.levels(self.model)
        lam = torch.tensor(log_snr, dtype=torch.float64)
        at = f"t = {float(self.model.schedule.time(lam)):.4g}"
        (index,) = levels.log_snr.cpu().isclose(lam, 1e-6, 1e-6).nonzero(as_tuple=True)
        steps = len(levels.log_snr) - 1
        if not len(index):
            return at  # it has no grid, or looked between its levels
        return (
            f"step {int(index[0]) + 1} of {steps} ({at})" if index[0] < steps else "the last look"
        )


def level_precision(z: Tensor) -> torch.dtype:
    """The precision of levels beside z: its own, or float64 beside integers, which have none."""
    import torch

    return z.dtype if z.is_floating_point() else torch.float64
