"""Metric ``conditional-bits``: bits per dimension of the rest of an example, given a part of it.

    bits = bound on -log2 p(x where not keep | x where keep) / number of positions not kept

``keep`` are masks by name (:mod:`elbowroom.plugins.sampling.given`), by default one half of an
image or text and random halves. Masked models and models with a level per position are measured
on their conditionals. A continuous model trained on one clock is measured on the distribution of
its completions: given positions have the noise of the common time, drawn from q(z | x), and by
Jensen's inequality the bound on the mean over that noise holds.

Times, noise and the standard error are those of ``bpd``; the masks of all models are the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import attrs
import torch
from elbowroom import ElbowroomError, IncompatibleError
from elbowroom.plugins.evaluation.bound_estimator import (
    BoundEstimator,
    standard_error,
    time_residuals,
)
from elbowroom.plugins.evaluation.metric import Display, Measurement, Metric, Subject
from elbowroom.plugins.sampling.given import keep_mask
from elbowroom.randomness import random_subset
from torch import Tensor

_STEP = 2**31 - 3  # a key of the noise that nothing else uses
_DRAWS = 8192
_NAMES = ("left", "right", "top", "bottom", "prefix", "suffix", "random")


@attrs.define(eq=False)
class ConditionalBits(Metric):
    """Bound on the negative log-likelihood of hidden positions, given the others."""

    uses_samples: ClassVar[bool] = False
    display: ClassVar[Mapping[str, Display]] = {
        f"conditional_bits_{name}": Display(f"bits/dim given {name}") for name in _NAMES
    }

    keep: Sequence[str] = ()
    split: Literal["train", "validation", "test"] = "test"
    draws: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    limit: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )

    _subject: Subject = attrs.field(init=False, repr=False)
    _bits: dict[str, Tensor] | None = attrs.field(init=False, default=None, repr=False)

    def prepare(self, subject: Subject) -> None:
        if subject.model is None:
            raise ElbowroomError("conditional-bits: needs a model, and only samples were given")
        if not subject.model.process.has_likelihood:
            name = type(subject.model.process).__name__
            raise IncompatibleError(f"conditional-bits: process {name} has no likelihood")
        self._subject, self._bits = subject, None
        for name in self._names():
            mask = keep_mask(name, subject.data.spec, 1)
            if bool(mask.all()):
                raise ElbowroomError(f"conditional-bits: keep {name!r} leaves nothing to predict")

    def _names(self) -> Sequence[str]:
        side = "left" if len(self._subject.data.spec.shape) == 3 else "prefix"
        return tuple(self.keep) or (side, "random")

    def _estimator(self) -> BoundEstimator:
        subject, split = self._subject, self._subject.data.split(self.split)
        assert subject.model is not None
        rows = random_subset(self.limit or len(split), len(split), subject.seed)
        draws = self.draws or max(1, math.ceil(_DRAWS / len(rows)))
        return BoundEstimator(
            subject.model, split, rows, draws, subject.seed, _STEP, subject.device
        )

    def state(self) -> dict[str, Tensor]:
        return self._part(self._subject.part)

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        self._bits = {name: torch.cat([one[name] for one in states], 1) for name in self._names()}

    @torch.no_grad()
    def _part(self, part: tuple[int, int]) -> dict[str, Tensor]:
        """Name -> [draws, N, 2] boundary and diffusion bits of the examples of one rank."""
        estimator, (rank, ranks) = self._estimator(), part
        size = max(1, self._subject.batch_size // estimator.draws)
        batches = torch.arange(len(estimator.rows)).split(size)
        begin, end = (-(-r * len(batches) // ranks) for r in (rank, rank + 1))
        return {
            name: torch.cat(
                [torch.empty(estimator.draws, 0, 2, dtype=torch.float64)]
                + [self._measured(estimator, numbers, name) for numbers in batches[begin:end]],
                1,
            )
            for name in self._names()
        }

    def _measured(self, estimator: BoundEstimator, numbers: Tensor, name: str) -> Tensor:
        keep = keep_mask(name, self._subject.data.spec, len(estimator.rows), self._subject.seed)
        keep = keep[numbers]
        found, _ = estimator.terms(numbers, keep)
        terms = torch.stack([found.prior + found.reconstruction, found.diffusion], 1)
        hidden = (~keep).flatten(1).sum(1).repeat(estimator.draws)
        bits = terms.double().cpu() / (hidden[:, None] * math.log(2))
        return bits.view(estimator.draws, len(numbers), 2)

    def compute(self) -> dict[str, Measurement]:
        estimator = self._estimator()
        bits = self._bits if self._bits is not None else self._part((0, 1))
        times = estimator.times(torch.arange(len(estimator.rows)))
        of = {
            "split": f"{len(estimator.rows)} {self.split} examples",
            "draws": estimator.draws,
            "path": "clean" if self._clean() else "replacement",
        }
        found = {}
        for name, each in bits.items():
            centred = each[..., 0] + time_residuals(each[..., 1], times)
            found[f"conditional_bits_{name}"] = Measurement(
                float(each.sum(-1).mean()), standard_error(centred), better="lower", of=of
            )
        return found

    def _clean(self) -> bool:
        assert self._subject.model is not None
        return self._subject.model.completion(torch.zeros(1).bool()).clean
