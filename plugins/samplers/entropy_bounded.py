"""Entropy-bounded unmasking (Ben-Hamu et al. 2025): as many tokens at once as are nearly sure.

Tokens revealed in one call are drawn as if they did not see each other. What that loses is their
total correlation, and with H_k the entropy of what the network says of each

    KL(their joint law || the product) <= sum over k of H_k - max over k of H_k.

So the hidden tokens of least entropy are revealed, as many as keep the right side below ``bound``
nats, and always one. Which ones depends on what is visible, never on what is drawn: with bound 0
and an exact denoiser this samples the data exactly, one token (or several that are certain) a call;
else the samples' KL from the data is at most bound times the number of calls. A trained network is
not exact, and asking it for the surest first is a choice of order that can help or harm.

There is no grid: the level a call is made at is that of the share of tokens that are visible.
"""

from __future__ import annotations

import attrs
import torch
from torch import Tensor

from .absorbing import Marked
from .unmasking import Rule, Unmasking, spread


@attrs.frozen
class EntropyBounded(Unmasking):
    """The surest tokens together, in at most ``steps`` calls; the last takes all that is left."""

    bound: float = attrs.field(default=0.1, validator=attrs.validators.ge(0))  # nats a call

    def rule(self, z: Tensor) -> Rule:
        return self._surest

    def _surest(self, hidden: Marked, say: Tensor, shape: torch.Size) -> Tensor:
        entropy = -(say.exp() * say).nan_to_num().sum(-1)  # [K]
        among_all = spread(entropy, hidden, shape, torch.inf)  # [R, *D]
        return surest(among_all.flatten(1), self.bound).reshape(shape)


def surest(entropy: Tensor, most: float) -> Tensor:
    """[B, N] the tokens of least entropy whose sum, the largest left out, is at most ``most``.

    Infinite entropies are those of tokens that are not asked for.
    """
    rising, order = entropy.sort(1)
    before = torch.nn.functional.pad(rising.cumsum(1), (1, -1))  # of those that come before
    chosen = (before <= most) & rising.isfinite()
    return torch.zeros_like(chosen).scatter(1, order, chosen)
