"""Metric ``curve``: the loss by noise level with standard errors, for the grid ``tightest``.

The averaged weights are evaluated on the validation split at ``levels`` levels, half of them by the
schedule and half uniform in lambda, each with ``draws`` examples. The measurement is the bound of a
sampler that steps through all of these levels; for many levels this is the diffusion term of
bits/dim. The curve itself is in the evaluation's details (:class:`StepCosts`).

``grid_bits_per_dim`` is the same term for ancestral steps on the grid of the model's own sampler.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Literal

import attrs
import torch
from attrs.validators import and_, ge, le
from elbowroom import ElbowroomError, Level, Noise, Sampler
from elbowroom.plugins.evaluation.bound_estimator import BoundEstimator
from elbowroom.plugins.evaluation.metric import Display, Measurement, Metric, Subject
from elbowroom.randomness import permute
from torch import Tensor

from .costs import MOST_LEVELS, StepCosts, coordinate_of, distinct_levels, has_price

_STEP = 2**31 - 3  # a key of the noise that nothing else uses
_FAR = 30.0  # sigmoid(lambda) is 0 or 1 to rounding beyond it
_MOST_TABLED = 64  # levels where every pair is measured: n^2/2 divergences per draw
_NEAR = 0.05  # in lambda: tables of other libraries' schedulers are in float32


@attrs.define(eq=False)
class Curve(Metric):
    """Loss by noise level.

    Example:
        ``elbowroom evaluate RUN --metric '{name: curve, draws: 256}'``
    """

    uses_samples: ClassVar[bool] = False
    display: ClassVar[Mapping[str, Display]] = {
        "curve_bits_per_dim": Display("bits/dim by the curve", "detail", ranked=False),
        "grid_bits_per_dim": Display("bits/dim of the sampler's grid", "detail", ranked=False),
    }

    split: Literal["train", "validation"] = "validation"
    levels: int = attrs.field(default=256, validator=and_(ge(2), le(MOST_LEVELS)))
    draws: int = attrs.field(default=64, validator=ge(2))  # per level

    _subject: Subject = attrs.field(init=False, repr=False)
    _costs: StepCosts | None = attrs.field(default=None, init=False, repr=False)

    def prepare(self, subject: Subject) -> None:
        if subject.model is None:
            raise ElbowroomError("curve: needs a model, and only samples were given")
        if not len(subject.data.split(self.split)):
            raise ElbowroomError(f"curve: the {self.split} split is empty")
        self._subject = subject

    @torch.no_grad()
    def compute(self) -> dict[str, Measurement]:
        model = self._subject.model
        assert model is not None
        costs = self._priced() if has_price(model.process) else self._tabled()
        self._costs = costs
        found = {"curve_bits_per_dim": self._bits(self._costs)}
        grid = self._grid_of(model.sampler)
        if self._costs.slope is not None and grid is not None:
            own = self._costs.along(model.process, grid)
            found["grid_bits_per_dim"] = self._bits(own)
        return found

    def details(self) -> Any:
        return None if self._costs is None else self._costs.record()

    @property
    def _unit(self) -> float:
        return self._subject.data.spec.dims * math.log(2)

    def _bits(self, costs: StepCosts) -> Measurement:
        """Diffusion term of the bound for all steps of ``costs``."""
        levels = len(costs.log_snr)
        of = {"split": self.split, "levels": levels, "draws": self.draws}
        error = None
        if costs.coordinate is not None and costs.error is not None:
            each = costs.error * costs.coordinate.diff()
            error = float(each.square().sum().sqrt()) / self._unit
        return Measurement(costs.total(range(levels)) / self._unit, error, of=of)

    def _grid_of(self, sampler: Sampler | None) -> Tensor | None:
        """[T + 1] lambda of the sampler's grid; None if it cannot be built or has other ends."""
        if sampler is None or not attrs.fields_dict(type(sampler))["grid"].init:
            return None
        with suppress(ElbowroomError):  # the grid may need the curve measured here
            log_snr = sampler.levels(self._model).log_snr
            if "real" in self._model.process.traits:
                log_snr = log_snr[
                    log_snr.isfinite()
                ]  # a step to the data itself has no finite price
            found = distinct_levels(self._model.process, finite(log_snr))
            ends = finite(self._model.schedule.log_snr(torch.tensor([1.0, 0.0]).double()))
            if torch.allclose(found[[0, -1]], ends, rtol=0, atol=_NEAR):
                return found
        return None

    # -- processes whose step KL is price times plain loss

    def _priced(self) -> StepCosts:
        levels, model = self._levels(self.levels), self._model
        losses = [
            model.process.plain_loss(x, z, model.predict(z, at, y), at).flatten(1).sum(1).double()
            for x, y, z, at, _ in self._batches(levels)
        ]
        each = torch.cat(losses).cpu().view(-1, self.draws)  # [n, draws]
        coordinate, slope = coordinate_of(model.process, levels.log_snr)
        error = each.std(1) / math.sqrt(self.draws)
        mean = each.mean(1)
        return StepCosts(levels.log_snr, coordinate, slope * mean, slope * error)

    # -- any other process: the KL of every step

    def _tabled(self) -> StepCosts:
        levels, model = self._levels(min(self.levels, _MOST_TABLED)), self._model
        n = len(levels.log_snr)
        sums = torch.zeros(n, n, dtype=torch.float64)
        for x, y, z, at, node in self._batches(levels):
            prediction = model.predict(z, at, y)
            for j in range(int(node.min()) + 1, n):
                to = levels.select(torch.full((len(z),), j)).over(z)
                step = model.process.step_kl(x, z, prediction, at, to).double().cpu()
                sums[:, j].index_add_(0, node, torch.where(node < j, step, 0.0))
        return StepCosts(levels.log_snr, measured=sums / self.draws)

    @property
    def _model(self) -> Any:
        return self._subject.model

    def _levels(self, count: int) -> Level:
        """At most [count + 1] levels from noise to data."""
        looks = BoundEstimator(
            self._model, self._subject.data.split(self.split), torch.arange(1), 1, 0, 0, "cpu"
        )
        t = torch.linspace(1, 0, count + 1, dtype=torch.float64)
        log_snr = finite(looks.schedule.log_snr(t))
        if has_price(self._model.process):
            log_snr = distinct_levels(self._model.process, log_snr)
        return Level.at(log_snr, self._model.process)

    def _batches(
        self, levels: Level
    ) -> Iterator[tuple[Tensor, Tensor | None, Tensor, Level, Tensor]]:
        """Yield x, label, z, level and node of all draws, ordered by level."""
        subject, split = self._subject, self._subject.data.split(self.split)
        total = (len(levels.log_snr) - 1) * self.draws
        rows = permute(torch.arange(total), total, subject.seed, _STEP) % len(split)
        for places in torch.arange(total).split(subject.batch_size):
            batch, node = split.take(rows[places]), places // self.draws
            x = self._model.process.encode(batch.x.to(subject.device))
            y = None if batch.y is None else batch.y.to(subject.device)
            noise = Noise(subject.seed, places.to(subject.device), total, _STEP)
            at = levels.select(node).over(x, torch.float32)
            yield x, y, self._model.process.corrupt(x, at, noise), at, node


def finite(log_snr: Tensor) -> Tensor:
    """Distinct rising levels, infinite ends replaced by large finite ones."""
    inside = log_snr[log_snr.isfinite()].unique()
    low, high = inside.new_tensor([-_FAR]), inside.new_tensor([_FAR])
    if len(inside):
        low, high = torch.minimum(low, inside[:1] - 1), torch.maximum(high, inside[-1:] + 1)
    parts = (
        [low] * bool(log_snr[0] == -torch.inf) + [inside] + [high] * bool(log_snr[-1] == torch.inf)
    )
    return torch.cat(parts)
