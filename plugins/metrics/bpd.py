"""bpd: the ELBO in bits per dimension with its three terms, whatever weighting trained the model.

    bits/dim = (prior KL + reconstruction + diffusion) / (dims log 2)

The diffusion term of an example is estimated at ``looks`` levels. The bound is the same under every
schedule with the same ends, so levels are not drawn by the model's own, which may look so rarely
where much is lost that a few looks decide all, but half by it and half evenly over lambda
(:class:`~elbowroom.half_even.HalfEven`). All looks at all examples together have evenly spread
times: the mean over levels is left to chance no more. The standard error is that over examples, of
what remains of each look when the mean at its level (of looks in the same one of some bins of t) is
taken away. Noise is keyed by example and look: neither the batch size nor the machine changes a
question that is asked.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import attrs
import torch
from elbowroom import Noise, Schedule
from elbowroom.errors import ElbowroomError
from elbowroom.half_even import HalfEven
from elbowroom.metric import Figure, Metric, Subject
from elbowroom.objective import bound
from elbowroom.time_sampler import stratified
from torch import Tensor

_TERMS = ("prior", "reconstruction", "diffusion")
_STEP = 2**31 - 2  # a step neither training nor validation asks for
_LOOKS = 8192  # at least this many in all
_IN_A_BIN = 64  # looks


@attrs.define(eq=False)
class BitsPerDim(Metric):
    """The bound on the negative log-likelihood of a split."""

    uses_samples: ClassVar[bool] = False

    split: Literal["train", "validation", "test"] = "test"
    looks: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )  # None: enough for 8192 in all
    limit: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )  # examples; None: all

    _subject: Subject = attrs.field(init=False, repr=False)
    _schedule: Schedule = attrs.field(init=False, repr=False)

    def prepare(self, subject: Subject) -> None:
        if subject.model is None:
            raise ElbowroomError("bpd: there is no model whose bound could be measured")
        if not len(subject.data.split(self.split)):
            raise ElbowroomError(f"bpd: the {self.split} split is empty")
        self._subject = subject
        self._schedule = HalfEven.of(subject.model.schedule)

    @torch.no_grad()
    def compute(self) -> dict[str, Figure]:
        split = self._subject.data.split(self.split)
        count = min(len(split), self.limit or len(split))
        looks = self.looks or max(1, math.ceil(_LOOKS / count))
        rows = torch.arange(count) * len(split) // count  # evenly over the split
        size = max(1, self._subject.batch_size // looks)
        parts = [
            self._looked(rows[numbers], numbers, looks, count)
            for numbers in torch.arange(count).split(size)
        ]
        bits, t = torch.cat([p[0] for p in parts], 1), torch.cat([p[1] for p in parts], 1)
        freed = bits.clone()
        freed[:, :, -1:] -= _mean_at(t, bits[:, :, -1])  # of the diffusion term
        of = {"split": f"{count} {self.split} examples", "looks": looks}
        whole = _figure(bits.sum(2), freed.sum(2), of)
        terms = {
            f"bits_per_dim_{term}": _figure(bits[:, :, k], freed[:, :, k], of)
            for k, term in enumerate(_TERMS)
        }
        return {"bits_per_dim": attrs.evolve(whole, better="lower"), **terms}

    def _looked(
        self, rows: Tensor, numbers: Tensor, looks: int, count: int
    ) -> tuple[Tensor, Tensor]:
        """Each look at some examples: terms in bits/dim [looks, B, 3], and its t [looks, B, 1]."""
        subject, model = self._subject, self._subject.model
        assert model is not None
        batch = subject.data.split(self.split).take(rows)
        positions = (torch.arange(looks)[:, None] * count + numbers).flatten()
        noise = Noise(subject.seed, positions.to(subject.device), looks * count, _STEP)
        x = batch.x.to(subject.device)
        y = None if batch.y is None else batch.y.to(subject.device).repeat(looks)
        found = bound(
            model.process,
            self._schedule,
            lambda z, level: model.predict(z, level, y),
            model.process.encode(x.repeat(looks, *[1] * (x.ndim - 1))),
            noise,
        )
        terms = torch.stack([getattr(found, term) for term in _TERMS], 1).double().cpu()
        bits = terms / (subject.data.spec.dims * math.log(2))
        t = stratified(noise).cpu()  # where the bound looks
        return bits.view(looks, len(rows), -1), t.view(looks, len(rows), 1)


def _mean_at(t: Tensor, values: Tensor) -> Tensor:
    """[looks, N, 1] the mean of ``values`` [looks, N] over the bin of t that each is in."""
    bins = max(1, t.numel() // _IN_A_BIN)
    which = (t.flatten() * bins).long().clamp(max=bins - 1)
    total = torch.zeros(bins, 2, dtype=torch.float64)
    total.index_add_(
        0, which, torch.stack((values.flatten(), torch.ones_like(values.flatten())), 1)
    )
    return (total[:, 0] / total[:, 1].clamp(min=1))[which].view_as(t)


def _figure(bits: Tensor, freed: Tensor, of: dict[str, Any]) -> Figure:
    """The mean of ``bits`` [looks, N], its error from the spread of ``freed`` over examples."""
    each = freed.mean(0)
    error = float(each.std()) / math.sqrt(len(each)) if len(each) > 1 else None
    return Figure(float(bits.mean()), error, of=of)
