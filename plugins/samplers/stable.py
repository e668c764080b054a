"""Stability sampling (KLASS, Kim et al. 2025): a token appears once the network keeps its word.

A hidden token is *stable* if what the network says of it has a most likely value of at least
``confidence``, and at each of the last ``history`` calls it moved by less than ``kl``:

    KL(what it says now || what it said at the call before) < kl nats.

All stable tokens are revealed together, and where there is none the one it is surest of. Which ones
depends on what is visible now and was before, never on what is drawn. So with one token a call, or
several that are certain (``confidence: 1``), and an exact denoiser this samples the data exactly.
Of m tokens in one call all but one have an entropy of at most h, the largest one there is with a
most likely value of c = confidence among V,

    KL(their joint law || the product) <= (m - 1) h,    h = (1 - c) log((V - 1)/(1 - c)) - c log c,

(c at least 1/V), and the samples' KL from the data is at most the mean of the sum of this over the
calls, if ``steps`` are enough of them. Stability itself is no part of the bound: it is a rule of
thumb about networks that are not exact.

There is no grid: the level a call is made at is that of the share of tokens that are visible.
"""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from .absorbing import Marked
from .unmasking import Rule, Unmasking, spread

_share = attrs.validators.and_(attrs.validators.ge(0.0), attrs.validators.le(1.0))


@attrs.frozen
class Stable(Unmasking):
    """Tokens that are sure and stay so, in at most ``steps`` calls; the last takes all left."""

    confidence: float = attrs.field(default=0.9, validator=_share)
    kl: float = attrs.field(default=0.01, validator=attrs.validators.ge(0))  # nats
    history: int = attrs.field(default=2, validator=attrs.validators.ge(1))  # calls

    def rule(self, z: Tensor) -> Rule:
        said = _Said(z)

        def stable_or_surest(hidden: Marked, say: Tensor, shape: torch.Size) -> Tensor:
            calm = said.calm(hidden.places, say, self.kl)  # [K]
            sure = spread(say.amax(-1).exp(), hidden, shape, -torch.inf)  # [R, *D]
            ready = spread(calm >= self.history, hidden, shape, False)
            stable = ready & (sure >= self.confidence)
            return stable | _surest_where_none(sure, stable)

        return stable_or_surest


class _Said:
    """What the network said of each hidden token at the call before, and for how long already."""

    def __init__(self, z: Tensor) -> None:
        self.number = torch.zeros_like(z, dtype=torch.int64)  # [B, *D] of a token among the K
        self.count = torch.zeros_like(self.number)  # [B, *D] calls at which it did not move
        self.say: Tensor | None = None  # [K, V]

    def calm(self, places: tuple[Tensor, ...], say: Tensor, kl: float) -> Tensor:
        """[K] for how many calls each has not moved, this one included; it is remembered.

        A token that is hidden now was hidden before.
        """
        count = torch.zeros_like(self.count[places])
        if self.say is not None:
            still = divergence(say, self.say[self.number[places]]) < kl
            count = torch.where(still, self.count[places] + 1, count)
        self.count = self.count.index_put(places, count)
        self.number = self.number.index_put(places, torch.arange(len(say), device=say.device))
        self.say = say
        return count


def divergence(now: Tensor, before: Tensor) -> Tensor:
    """KL(now || before) [K] of log-probabilities [K, V]; infinite where a new value appears."""
    each = now.exp() * (now - before)
    return each.nan_to_num(nan=0.0, posinf=torch.inf).sum(-1)


def _surest_where_none(sure: Tensor, stable: Tensor) -> Tensor:
    """The surest token [R, *D] of each sample that has no stable one."""
    flat = sure.flatten(1)
    first = torch.zeros_like(flat, dtype=torch.bool).scatter(1, flat.argmax(1, keepdim=True), True)
    return (first & ~stable.flatten(1).any(1, keepdim=True)).reshape(sure.shape)
