"""Laws of a sampler, on a table whose exact denoiser is known."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from elbowroom import Guidance, Level, Noise, Process, Sampler, Schedule, installed
from torch import Tensor

from .law import chi_square, ensure, run
from .oracle import DATA, TABLE, TableOracle, counts_in, natural_schedule_of

_COUNT = 3000


@attrs.frozen(eq=False)
class OracleModel:
    """A model whose denoiser is the exact posterior of a table."""

    process: Process
    schedule: Schedule
    table: TableOracle

    def predict(self, z: Tensor, level: Level, cond: Tensor | None) -> Any:
        """The exact prediction."""
        return self.table.predict(self.process)(z, level)

    def guided(self, guidance: float | Guidance) -> OracleModel:
        """Itself: there are no labels."""
        return self


def check_sampler(sampler: Sampler, *, exact: bool = True) -> None:
    """Check the laws of a sampler, under each installed process that has its traits.

    ``exact=False`` is for samplers that are biased by design (temperature, confidence): their
    samples must lie in the data, in any proportion.
    """
    served = [model for model in _models() if sampler.needs <= model.process.traits]
    if not served:
        raise AssertionError(f"{sampler!r} needs {set(sampler.needs)}, which no process has")
    law = _distribution if exact else _support
    for model in served:
        run(sampler, [_finishes, _same_whatever_batch, law], sampler, model)


def _models() -> list[OracleModel]:
    found = installed().components("process").values()
    processes = [component.load()().bind(DATA) for component in found]
    return [OracleModel(process, natural_schedule_of(process), TABLE) for process in processes]


def _finishes(sampler: Sampler, model: OracleModel) -> None:
    """The last frame, and only that one, has integers of the data and their network calls."""
    frames = list(sampler.frames(model, Noise.of(0, 4)))
    ensure(all(frame.x is None for frame in frames[:-1]), "an earlier frame has x.")
    last = frames[-1]
    ensure(last.x is not None, "the last frame has no x.")
    ensure(last.calls is not None, "the last frame has no calls.")
    assert last.x is not None and last.calls is not None
    ensure(tuple(last.x.shape) == (4, *DATA.shape), f"x has shape {tuple(last.x.shape)}.")
    ensure(not last.x.is_floating_point(), f"x is {last.x.dtype}, not integers.")
    ensure((last.x >= 0) & (last.x < DATA.levels), "x is outside the data's levels.")
    ensure(last.calls >= 1, "a sample took no network call.")


def _same_whatever_batch(sampler: Sampler, model: OracleModel) -> None:
    """A seed gives the same samples whatever batch they are in."""
    noise = Noise.of(1, 12)
    whole = sampler.sample(model, noise).x
    parts = [sampler.sample(model, noise.select(part)).x for part in (slice(0, 5), slice(5, 12))]
    ensure(torch.cat(parts) == whole, "drawing 5 + 7 gave other samples than drawing 12.")


def _distribution(sampler: Sampler, model: OracleModel) -> None:
    """With the exact denoiser the samples have the data's distribution."""
    counts, outside = _counts(sampler, model)
    p = chi_square(counts, model.table.probabilities * counts.sum())
    ensure(outside < 0.02 * _COUNT, f"{outside} of {_COUNT} samples are not in the data.")
    ensure(p > 1e-5, f"counts {counts.tolist()} do not fit (chi-square p = {p:.1e}).")


def _support(sampler: Sampler, model: OracleModel) -> None:
    """With the exact denoiser the samples lie in the data."""
    _, outside = _counts(sampler, model)
    ensure(outside < 0.1 * _COUNT, f"{outside} of {_COUNT} samples are not in the data.")


def _counts(sampler: Sampler, model: OracleModel) -> tuple[Tensor, int]:
    return counts_in(model.table, sampler.sample(model, Noise.of(2, _COUNT)).x)
