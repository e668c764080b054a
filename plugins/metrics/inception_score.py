"""IS: the Inception Score (Salimans et al. 2016), how sure and how varied a classifier finds them.

    IS = exp( E KL(p(y | x) || p(y)) ) = exp( E sum_y p log p  -  sum_y E[p] log E[p] )

Written so, it needs only sums in each of ``splits`` groups: memory is constant. Of each ``splits``
samples in a row one goes into each group, which into which is drawn with a fixed key: groups are
equally large, and whatever order the samples have (class by class, or classes in turn), a group is
a random part of them. (torchmetrics keeps all logits and shuffles them by the global generator;
with one split both agree.) Small groups are biased downwards, so the default is one
group of all samples. The standard error is the spread over groups, or for one group that of its
mean over samples: with a_i = sum_y p_i (log p_i - log E[p]), it is IS sd(a) / sqrt(n).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import torch
from elbowroom import Display, IncompatibleError, Measurement, Metric, Subject
from torch import Tensor

from .features import Eye, FeatureSpec, eye
from .groups import random_groups
from .kept import of_real_data

_SUMS = ("s", "p", "sp", "pp")


@attrs.define(eq=False)
class InceptionScore(Metric):
    """The Inception Score, beside that of the test split."""

    usual: ClassVar[int | None] = 40
    display: ClassVar[Mapping[str, Display]] = {"is": Display("IS")}

    features: FeatureSpec = "classifier"
    splits: int = attrs.field(default=1, validator=attrs.validators.ge(1))

    _eye: Eye = attrs.field(init=False, repr=False)
    _score: Score = attrs.field(init=False, repr=False)
    _floor: float = attrs.field(init=False, default=0.0, repr=False)

    def prepare(self, subject: Subject) -> None:
        self._eye = eye(self.features, subject)
        self._score = Score(self.splits)
        real = of_real_data(
            subject, __file__, self._eye.network.identity, (self.splits,), lambda: self._of(subject)
        )
        self._floor = float(real["score"])

    def _of(self, subject: Subject) -> dict[str, Tensor]:
        """The score of the test split."""
        real = Score(self.splits)
        for seen in self._eye.over("test", subject.data, subject.batch_size):
            real.update(self._logits(seen.logits))
        return {"score": torch.tensor(real.compute()[0], dtype=torch.float64)}

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        self._score.update(self._logits(self._eye(samples).logits))

    def skip(self, count: int) -> None:
        self._score.skip(count)

    def state(self) -> dict[str, Tensor]:
        return self._score.state()

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        self._score.merge(states)

    def _logits(self, logits: Tensor | None) -> Tensor:
        if logits is None:
            raise IncompatibleError(
                f"is: the feature network {self._eye.network.name} has no logits; the Inception "
                "Score needs one with classes, such as classifier"
            )
        return logits

    def compute(self) -> dict[str, Measurement]:
        value, error = self._score.compute()
        of = {"splits": self.splits, **self._eye.network.protocol()}
        return {"is": Measurement(value, error, "higher", self._floor, of)}


class Score:
    """The Inception Score of a stream of logits, in constant memory."""

    def __init__(self, splits: int) -> None:
        self._splits, self._seen, self._skipped = splits, 0, 0
        # over the samples of a group, with s = sum_y p log p:
        self._s: Tensor  # [splits, 2] sums of s and s^2
        self._p: Tensor  # [splits, K] sum of p
        self._sp: Tensor  # [K] sum of s p, over all groups
        self._pp: Tensor  # [K, K] sum of p p'

    def update(self, logits: Tensor) -> None:
        """Take in logits [B, K]."""
        log_p = logits.double().log_softmax(1)
        p = log_p.exp()
        s = (p * log_p).sum(1)
        if not self._seen:
            classes = p.shape[1]
            self._s, self._p = p.new_zeros(self._splits, 2), p.new_zeros(self._splits, classes)
            self._sp, self._pp = p.new_zeros(classes), p.new_zeros(classes, classes)
        group = random_groups(self._skipped + self._seen, len(p), self._splits)
        self._s.index_add_(0, group, torch.stack((s, s**2), 1))
        self._p.index_add_(0, group, p)
        self._sp += s @ p
        self._pp += p.T @ p
        self._seen += len(p)

    def skip(self, count: int) -> None:
        """Others take in the next ``count`` logits; one's own come after that in a row."""
        self._skipped += count

    def state(self) -> dict[str, Tensor]:
        """The sums; without any logits just their number."""
        sums = {name: getattr(self, f"_{name}") for name in _SUMS} if self._seen else {}
        return {"seen": torch.tensor(self._seen), **sums}

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Go on from what all of them took in."""
        self._seen = sum(int(state["seen"]) for state in states)
        self._skipped = 0
        for name in _SUMS if self._seen else ():
            parts = [state[name] for state in states if name in state]
            setattr(self, f"_{name}", torch.stack(parts).sum(0))

    def compute(self) -> tuple[float, float]:
        """The mean over the groups, and its standard error."""
        if not self._seen:
            raise RuntimeError("the Inception Score needs at least one sample")
        counts = self._p.sum(1)
        used = counts > 0.5
        mean = self._p[used] / counts[used, None]
        entropy = -torch.special.xlogy(mean, mean).sum(1)
        scores = (self._s[used, 0] / counts[used] + entropy).exp()
        score = float(scores.mean())
        if len(scores) > 1:
            return score, float(scores.std()) / math.sqrt(len(scores))
        return score, score * self._deviation(mean[0]) / math.sqrt(self._seen)

    def _deviation(self, mean: Tensor) -> float:
        """sd of a_i = s_i - p_i . log E[p], from the sums."""
        log_mean = mean.clamp(min=1e-300).log()
        squares = self._s[:, 1].sum() - 2 * self._sp @ log_mean + log_mean @ self._pp @ log_mean
        average = (self._s[:, 0].sum() - self._p.sum(0) @ log_mean) / self._seen
        return math.sqrt(max(float(squares / self._seen - average**2), 0.0))
