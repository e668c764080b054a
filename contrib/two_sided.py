"""two-sided: upper and lower bounds on the bits per dimension of a masked model.

bits/dim is the ELBO, and the distance to the likelihood is unknown. A masked model's likelihood is
a mean over orders in which tokens are unmasked (``orders.py``), so ``paths`` draws of the order for
each example bound it from both sides (``tangent.py``):

    at_most            the importance-weighted bound: with one path the ELBO, with more below it
    at_least           the tangent's
    slack_at_least     the ELBO by the same paths, less at_most: a lower bound on its slack
    slack_at_most      less at_least: an upper bound. The variation of examples cancels

Without ``steps`` it is the model in continuous time, with a network call for each token. With
``steps`` it is the model of an ancestral sampler of as many even steps.

Both sides hold on average over the paths, for these examples, and use the same paths:
``paths_error`` is their common standard error over paths, in bits/dim, and can be larger than the
gap. The standard error is that over examples. ``heaviest`` is the largest share of a single example
in the mean of at_least, 1/N at best. Near 1 it is no bound.

Gaussian steps have no such mixture: their log w varies by sqrt(2 KL), dozens of nats for the
smallest images, and no affordable number of paths gives a bound.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import attrs
import torch
from attrs.validators import ge, optional
from elbowroom import ElbowroomError, Noise
from elbowroom.plugins.evaluation.bound_estimator import standard_error
from elbowroom.plugins.evaluation.metric import Display, Measurement, Metric, Subject
from elbowroom.randomness import random_subset
from torch import Tensor

from .orders import log_weight
from .tangent import draws_error, from_above, from_below, mean_of_others, scale_from_others

_STEP = 2**31 - 4  # used by nothing else
_MANY = 10_000  # network calls: minutes
_log = logging.getLogger(__name__)


@attrs.define(eq=False)
class TwoSided(Metric):
    """The likelihood of a split between two bounds."""

    uses_samples: ClassVar[bool] = False
    display: ClassVar[Mapping[str, Display]] = {
        "bits_per_dim_at_most": Display("bits/dim at most", "report"),
        "bits_per_dim_at_least": Display("bits/dim at least", "report", ranked=False),
        "bits_per_dim_slack_at_least": Display("bits/dim: loose by at least", "detail", False),
        "bits_per_dim_slack_at_most": Display("bits/dim: loose by at most", "detail", False),
    }

    split: Literal["train", "validation", "test"] = "test"
    paths: int = attrs.field(default=8, validator=ge(2))  # for each example
    steps: int | None = attrs.field(default=None, validator=optional(ge(1)))  # None: one by one
    limit: int = attrs.field(default=128, validator=ge(1))  # examples at most

    _subject: Subject = attrs.field(init=False, repr=False)
    _log_w: Tensor | None = attrs.field(init=False, default=None, repr=False)  # of all ranks

    def prepare(self, subject: Subject) -> None:
        if subject.model is None:
            raise ElbowroomError("two-sided: there is no model")
        if "absorbing" not in subject.model.process.traits:
            raise ElbowroomError(
                f"two-sided: {type(subject.model.process).__name__} has no mask state, which this "
                "metric needs; bpd is an upper bound for any process"
            )
        if not len(subject.data.split(self.split)):
            raise ElbowroomError(f"two-sided: the {self.split} split is empty")
        self._subject, self._log_w = subject, None
        tokens, batches = subject.data.spec.dims, len(self._batches)
        each = min(self.steps or tokens, tokens)
        if each * batches > _MANY:
            _log.info(
                "two-sided: %s network calls, %s for each of %s batches; "
                "its option steps bounds those of a batch, limit the examples",
                *(f"{count:,}" for count in (each * batches, each, batches)),
            )

    def state(self) -> dict[str, Tensor]:
        """log w of this rank's part of the examples."""
        return {"log_w": self._part(self._subject.part)}

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        self._log_w = torch.cat([state["log_w"] for state in states], 1)

    def compute(self) -> dict[str, Measurement]:
        log_w = self._log_w if self._log_w is not None else self._part((0, 1))  # [K, N]
        scale = scale_from_others(log_w)
        of: dict[str, Any] = {
            "split": f"{log_w.shape[1]} {self.split} examples",
            "paths": self.paths,
            "steps": self.steps or "one token each",
        }
        if self._subject.data.split(self.split).take(torch.arange(1)).y is not None:
            of["given"] = "the label"
        heaviest = float(from_below(log_w - mean_of_others(log_w)).softmax(0).max())
        noise = {"paths_error": draws_error(log_w) / self._nats_in_a_bit}
        lower = {**of, "heaviest": heaviest}
        low, high, elbo = from_below(log_w), from_above(log_w, scale), log_w.mean(0)  # [N]
        return {
            "bits_per_dim_at_most": attrs.evolve(self._bits(-low, of | noise), better="lower"),
            "bits_per_dim_at_least": self._bits(-high, lower | noise),
            "bits_per_dim_slack_at_least": self._bits(low - elbo, of),
            "bits_per_dim_slack_at_most": self._bits(high - elbo, lower),
        }

    def _bits(self, nats: Tensor, of: dict[str, Any]) -> Measurement:
        bits = nats / self._nats_in_a_bit  # [N]
        return Measurement(float(bits.mean()), standard_error(bits[None]), of=of)

    @property
    def _nats_in_a_bit(self) -> float:
        """Per dimension."""
        return self._subject.data.spec.dims * math.log(2)

    @property
    def _rows(self) -> Tensor:
        """The indices of the examples."""
        count = len(self._subject.data.split(self.split))
        return random_subset(self.limit, count, self._subject.seed)

    @property
    def _batches(self) -> Sequence[Tensor]:
        """Batches of examples, the same for any number of ranks."""
        size = max(1, self._subject.batch_size // self.paths)
        found: Sequence[Tensor] = torch.arange(len(self._rows)).split(size)
        return found

    @torch.no_grad()
    def _part(self, part: tuple[int, int]) -> Tensor:
        """[K, N] log w of the examples of a rank, ``part`` = (rank, ranks)."""
        (rank, ranks), batches = part, self._batches
        begin, end = (-(-r * len(batches) // ranks) for r in (rank, rank + 1))
        found = [self._weights(numbers) for numbers in batches[begin:end]]
        return torch.cat([torch.empty(self.paths, 0, dtype=torch.float64), *found], 1)

    def _weights(self, numbers: Tensor) -> Tensor:
        """[K, B] log w of the examples ``numbers`` (of the N)."""
        subject, model = self._subject, self._subject.model
        assert model is not None
        rows, device = self._rows, subject.device
        batch = subject.data.split(self.split).take(rows[numbers])
        x = model.process.encode(batch.x.to(device)).repeat(self.paths, *[1] * (batch.x.ndim - 1))
        y = None if batch.y is None else batch.y.to(device).repeat(self.paths)
        places = (torch.arange(self.paths)[:, None] * len(rows) + numbers).flatten().to(device)
        u = Noise(subject.seed, places, self.paths * len(rows), _STEP).uniform("mask", x.shape[1:])
        return log_weight(model, x, y, u, self.steps).cpu().view(self.paths, -1)
