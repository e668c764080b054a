"""Metric ``bpd``: the ELBO in bits per dimension with its three terms, for any training weighting.

    bits/dim = (prior KL + reconstruction + diffusion) / (dims log 2)

The diffusion term of an example is estimated with ``draws`` noise levels. The bound is the same
under every schedule with the same ends, so levels are drawn half by the model's schedule and half
uniformly over lambda (:mod:`elbowroom.plugins.evaluation.bound_estimator`): a schedule that
rarely draws the levels with a large loss would make the estimate noisy. The draws of all examples
together have evenly spread times, assigned to examples by a keyed permutation, so the order of the
split does not matter (the same module, also for the standard error).
Noise is keyed by example and draw: the result does not depend on the batch size.

The standard error is over examples, times and noise. ``draws_error`` is the part of times and
noise alone: with s_ik the bits of draw k of example i less the mean at its time,

    draws_error = sqrt( mean over i of var_k(s_ik) / (L N) ),

which more ``draws`` reduce. The replicates are G groups of examples,
value + G/N sum over the members i of mean_k s_ik: their mean is the value, and its variance that
over examples. A comparison pairs models by them.

For data with other units (characters, bytes) bits per unit are reported too: an example of c
characters has dims/c times as many bits per character as per dimension.

For data with labels the model is conditioned on them: the bound is on -log p(x | label).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import attrs
import torch
from elbowroom import ElbowroomError, IncompatibleError
from elbowroom.plugins.evaluation.bound_estimator import (
    BoundEstimator,
    standard_error,
    time_residuals,
)
from elbowroom.plugins.evaluation.metric import Display, Measurement, Metric, Subject
from elbowroom.randomness import random_subset
from torch import Tensor

from .groups import random_groups

_TERMS = ("prior", "reconstruction", "diffusion")
_STEP = 2**31 - 2  # a key of the noise that neither training nor validation uses
_DRAWS = 8192  # at least, over all examples
_GROUPS = 64  # of examples, at most


@attrs.define(eq=False)
class BitsPerDim(Metric):
    """Variational bound on the negative log-likelihood of a split.

    Example:
        ``elbowroom evaluate RUN --metric '{name: bpd, split: validation, draws: 64}'``
    """

    uses_samples: ClassVar[bool] = False
    usual: ClassVar[int | None] = 10
    display: ClassVar[Mapping[str, Display]] = {
        "bits_per_dim": Display("bits/dim"),
        "bits_per_row": Display("bits/row"),
        "bits_per_character": Display("bits/character"),
        "bits_per_byte": Display("bits/byte", "report"),
        **{f"bits_per_dim_{term}": Display(f"bits/dim: {term}", "detail") for term in _TERMS},
    }

    split: Literal["train", "validation", "test"] = "test"
    draws: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )  # per example; None: enough for 8192 in all
    limit: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )  # examples; None: all

    _subject: Subject = attrs.field(init=False, repr=False)
    _bits: Tensor | None = attrs.field(init=False, default=None, repr=False)  # of all ranks

    def prepare(self, subject: Subject) -> None:
        if subject.model is None:
            raise ElbowroomError("bpd: needs a model, and only samples were given")
        if not len(subject.data.split(self.split)):
            raise ElbowroomError(f"bpd: the {self.split} split is empty")
        if not subject.model.process.has_likelihood:
            name = type(subject.model.process).__name__
            raise IncompatibleError(
                f"bpd: process {name} has no likelihood: it defines no prior_kl and reconstruction"
            )
        self._subject, self._bits = subject, None

    def state(self) -> dict[str, Tensor]:
        """Bits of this rank's share of the examples, a contiguous range."""
        return {"bits": self._part(self._subject.part)}

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        self._bits = torch.cat([state["bits"] for state in states], 1)

    @torch.no_grad()
    def _part(self, part: tuple[int, int]) -> Tensor:
        """[draws, N, 3] bits of the examples of one rank."""
        estimator, (rank, ranks) = self._estimator(), part
        size = max(1, self._subject.batch_size // estimator.draws)
        batches = torch.arange(len(estimator.rows)).split(size)  # the same for any number of ranks
        begin, end = (-(-r * len(batches) // ranks) for r in (rank, rank + 1))
        found = [self._bits_of(estimator, numbers) for numbers in batches[begin:end]]
        none = torch.empty(estimator.draws, 0, len(_TERMS), dtype=torch.float64)
        return torch.cat([none, *found], 1)

    def compute(self) -> dict[str, Measurement]:
        estimator = self._estimator()
        bits = self._bits if self._bits is not None else self._part((0, 1))
        count = len(estimator.rows)
        centred = bits.clone()  # without the variation over evenly spread times
        times = estimator.times(torch.arange(count))
        centred[:, :, -1] = time_residuals(bits[:, :, -1], times)  # diffusion
        of = {"split": f"{count} {self.split} examples", "draws": estimator.draws}
        if estimator.split.take(estimator.rows[:1]).y is not None:
            of["given"] = "the label"
        whole = _measurement(bits.sum(2), centred.sum(2), of)
        whole = self._with_baseline(_with_replicates(whole, centred.sum(2)))
        terms = {
            f"bits_per_dim_{term}": _measurement(bits[:, :, k], centred[:, :, k], of)
            for k, term in enumerate(_TERMS)
        }
        return {"bits_per_dim": whole, **self._in_other_units(whole), **terms}

    def _in_other_units(self, whole: Measurement) -> dict[str, Measurement]:
        """Bits per character, byte, ... of the same examples."""
        dims, units = self._subject.data.spec.dims, self._subject.data.units(self.split)
        return {f"bits_per_{unit}": _scaled(whole, dims / c) for unit, c in units.items()}

    def _with_baseline(self, whole: Measurement) -> Measurement:
        """Add the uniform baseline: log2 V, its mean where V depends on the position."""
        spec = self._subject.data.spec
        sizes = spec.sizes or (spec.levels,)
        words = f"log₂ {spec.levels}" if spec.sizes is None else "mean log₂ V"
        bits = sum(map(math.log2, sizes)) / len(sizes)
        of = {**whole.of, "uniform_baseline": words}
        return attrs.evolve(whole, better="lower", of=of, uniform_baseline=bits)

    def _estimator(self) -> BoundEstimator:
        """The examples and the number of draws of each."""
        subject, split = self._subject, self._subject.data.split(self.split)
        assert subject.model is not None
        rows = random_subset(self.limit or len(split), len(split), subject.seed)
        each = self.draws or max(1, math.ceil(_DRAWS / len(rows)))
        return BoundEstimator(subject.model, split, rows, each, subject.seed, _STEP, subject.device)

    def _bits_of(self, estimator: BoundEstimator, numbers: Tensor) -> Tensor:
        """Terms in bits/dim [draws, B, 3] of some examples."""
        found, _ = estimator.terms(numbers)
        terms = torch.stack([getattr(found, term) for term in _TERMS], 1).double().cpu()
        bits = terms / (self._subject.data.spec.dims * math.log(2))
        return bits.view(estimator.draws, len(numbers), -1)


def _scaled(one: Measurement, factor: float) -> Measurement:
    error, uniform = (
        None if v is None else factor * v for v in (one.standard_error, one.uniform_baseline)
    )
    return attrs.evolve(
        one,
        value=factor * one.value,
        standard_error=error,
        uniform_baseline=uniform,
        replicates=[factor * value for value in one.replicates],
        of={**one.of, **{k: factor * v for k, v in one.of.items() if k == "draws_error"}},
    )


def _measurement(bits: Tensor, centred: Tensor, of: dict[str, Any]) -> Measurement:
    """The mean of ``bits`` [draws, N], its error from the variance of ``centred`` over examples."""
    draws = {"draws_error": draws_error(centred)} if len(centred) > 1 else {}
    return Measurement(float(bits.mean()), standard_error(centred), of={**of, **draws})


def draws_error(values: Tensor) -> float:
    """Standard error of the mean of ``values`` [L, N] over draws, for fixed examples."""
    return math.sqrt(float(values.var(0).mean()) / values.numel())


def _with_replicates(one: Measurement, centred: Tensor) -> Measurement:
    """Add the replicates of groups of examples."""
    each = centred.mean(0)
    groups = min(_GROUPS, len(each))
    sums = torch.zeros(groups, dtype=torch.float64)
    sums.index_add_(0, random_groups(0, len(each), groups), each - each.mean())
    return attrs.evolve(one, replicates=(one.value + sums * groups / len(each)).tolist())
