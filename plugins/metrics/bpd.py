"""bpd: the ELBO in bits per dimension with its three terms, whatever weighting trained the model.

    bits/dim = (prior KL + reconstruction + diffusion) / (dims log 2)

The diffusion term of an example is estimated at ``looks`` levels. The bound is the same under every
schedule with the same ends, so levels are not drawn by the model's own, which may look so rarely
where much is lost that a few looks decide all, but half by it and half evenly over lambda
(:mod:`elbowroom.plugins.evaluation.bound_estimator`). The draws of all examples together have
evenly spread times, assigned to examples by a keyed permutation, so the order of the split does not
matter (the same module, also for the standard error). Noise is keyed by example and draw: the batch
size and the machine do not change it.

The standard error is for other examples and other draws of times and noise. ``draws_error`` is the
part of the draws alone, for these examples: with s_ik the bits of draw k of example i less the mean
at its time,

    draws_error = sqrt( mean over i of var_k(s_ik) / (L N) ),

which more ``looks`` reduce. The replicates are G groups of examples,
value + G/N sum over the members i of mean_k s_ik: their mean is the value, and its variance that
over examples. A comparison pairs models by them.

Where the data count in other units too (characters, bytes), it is said in these as well: an example
of c characters has dims/c as many bits a character as it has a dimension.

Where the data have labels the model is told them: it is the bound on -log p(x | label).
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
_STEP = 2**31 - 2  # a step neither training nor validation asks for
_LOOKS = 8192  # at least this many in all
_GROUPS = 64  # of examples, at most


@attrs.define(eq=False)
class BitsPerDim(Metric):
    """The bound on the negative log-likelihood of a split."""

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
    looks: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )  # None: enough for 8192 in all
    limit: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )  # examples; None: all

    _subject: Subject = attrs.field(init=False, repr=False)
    _bits: Tensor | None = attrs.field(init=False, default=None, repr=False)  # of all ranks

    def prepare(self, subject: Subject) -> None:
        if subject.model is None:
            raise ElbowroomError("bpd: there is no model whose bound could be measured")
        if not len(subject.data.split(self.split)):
            raise ElbowroomError(f"bpd: the {self.split} split is empty")
        if not subject.model.process.has_likelihood:
            name = type(subject.model.process).__name__
            raise IncompatibleError(
                f"bpd: process {name} has no likelihood: it defines no prior_kl and reconstruction"
            )
        self._subject, self._bits = subject, None

    def state(self) -> dict[str, Tensor]:
        """The bits of this rank's share of the examples: some in a row."""
        return {"bits": self._part(self._subject.part)}

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        self._bits = torch.cat([state["bits"] for state in states], 1)

    @torch.no_grad()
    def _part(self, part: tuple[int, int]) -> Tensor:
        """[looks, N, 3] bits of the examples that a rank of so many looks at."""
        looks, (rank, ranks) = self._looks(), part
        size = max(1, self._subject.batch_size // looks.draws)
        batches = torch.arange(len(looks.rows)).split(size)  # the same for any number of ranks
        begin, end = (-(-r * len(batches) // ranks) for r in (rank, rank + 1))
        found = [self._looked(looks, numbers) for numbers in batches[begin:end]]
        return torch.cat([torch.empty(looks.draws, 0, len(_TERMS), dtype=torch.float64), *found], 1)

    def compute(self) -> dict[str, Measurement]:
        looks, bits = self._looks(), self._bits if self._bits is not None else self._part((0, 1))
        count = len(looks.rows)
        sure = bits.clone()
        sure[:, :, -1] = time_residuals(
            bits[:, :, -1], looks.times(torch.arange(count))
        )  # diffusion
        of = {"split": f"{count} {self.split} examples", "looks": looks.draws}
        if looks.split.take(looks.rows[:1]).y is not None:
            of["given"] = "the label"
        whole = _with_replicates(_measurement(bits.sum(2), sure.sum(2), of), sure.sum(2))
        terms = {
            f"bits_per_dim_{term}": _measurement(bits[:, :, k], sure[:, :, k], of)
            for k, term in enumerate(_TERMS)
        }
        whole = self._beside_ignorance(whole)
        return {"bits_per_dim": whole, **self._in_other_units(whole), **terms}

    def _in_other_units(self, whole: Measurement) -> dict[str, Measurement]:
        """Bits of the same examples by what else they are counted in."""
        dims, units = self._subject.data.spec.dims, self._subject.data.units(self.split)
        return {f"bits_per_{unit}": _scaled(whole, dims / c) for unit, c in units.items()}

    def _beside_ignorance(self, whole: Measurement) -> Measurement:
        """With the uniform baseline: log2 V, the mean of it where V depends on the position."""
        spec = self._subject.data.spec
        sizes = spec.sizes or (spec.levels,)
        said = f"log₂ {spec.levels}" if spec.sizes is None else "mean log₂ V"
        bits = sum(map(math.log2, sizes)) / len(sizes)
        return attrs.evolve(
            whole, better="lower", of={**whole.of, "knows_nothing": said}, knows_nothing=bits
        )

    def _looks(self) -> BoundEstimator:
        """Which examples, and how often each."""
        subject, split = self._subject, self._subject.data.split(self.split)
        assert subject.model is not None
        rows = random_subset(self.limit or len(split), len(split), subject.seed)
        each = self.looks or max(1, math.ceil(_LOOKS / len(rows)))
        return BoundEstimator(subject.model, split, rows, each, subject.seed, _STEP, subject.device)

    def _looked(self, looks: BoundEstimator, numbers: Tensor) -> Tensor:
        """Terms in bits/dim [looks, B, 3] of some examples."""
        found, _ = looks.terms(numbers)
        terms = torch.stack([getattr(found, term) for term in _TERMS], 1).double().cpu()
        bits = terms / (self._subject.data.spec.dims * math.log(2))
        return bits.view(looks.draws, len(numbers), -1)


def _scaled(one: Measurement, factor: float) -> Measurement:
    error, nothing = (
        None if v is None else factor * v for v in (one.standard_error, one.knows_nothing)
    )
    return attrs.evolve(
        one,
        value=factor * one.value,
        standard_error=error,
        knows_nothing=nothing,
        replicates=[factor * value for value in one.replicates],
        of={**one.of, **{k: factor * v for k, v in one.of.items() if k == "draws_error"}},
    )


def _measurement(bits: Tensor, sure: Tensor, of: dict[str, Any]) -> Measurement:
    """The mean of ``bits`` [looks, N], its error from the spread of ``sure`` over examples."""
    draws = {"draws_error": draws_error(sure)} if len(sure) > 1 else {}
    return Measurement(float(bits.mean()), standard_error(sure), of={**of, **draws})


def draws_error(values: Tensor) -> float:
    """The standard error of the mean of ``values`` [L, N] for other draws of the same examples."""
    return math.sqrt(float(values.var(0).mean()) / values.numel())


def _with_replicates(one: Measurement, sure: Tensor) -> Measurement:
    """A measurement with the replicates of groups of examples."""
    each = sure.mean(0)
    groups = min(_GROUPS, len(each))
    sums = torch.zeros(groups, dtype=torch.float64)
    sums.index_add_(0, random_groups(0, len(each), groups), each - each.mean())
    return attrs.evolve(one, replicates=(one.value + sums * groups / len(each)).tolist())
