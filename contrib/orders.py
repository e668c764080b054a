"""The likelihood of an example under a masked model, for one order of unmasking its tokens.

Each token has a uniform u and is masked at every level whose share of unmasked tokens is at most u.
So the order does not depend on the network, and the model is a mixture over u,

    p(x) = E_u w(u),      w(u) = product over tokens of p(x_i | all tokens unmasked before it),

where tokens unmasked in the same step are predicted together. w is an unbiased estimate of the
likelihood, and -log w of the bound with as many steps. In continuous time tokens are unmasked one
by one, in the order of u.

A token that is in the wrong state at an end of the schedule (unmasked at the noise: u < a_1, masked
at the data: u >= a_0) has probability 1/V, as in the bound.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from elbowroom import Absorbing, Diffusion, Level
from torch import Tensor

_BEFORE, _AFTER = -1.0, 2.0  # shares no level has


def log_weight(
    model: Diffusion, x: Tensor, y: Tensor | None, u: Tensor, steps: int | None
) -> Tensor:
    """[B] log w in nats of examples x [B, *D] unmasked by u [B, *D]; without steps one by one."""
    process, share = model.process, predicted_at(model, u, steps)
    mask, when = cast("Absorbing", process).mask, turn(share)
    predicted = (share != _BEFORE) & (share != _AFTER)
    found = (~predicted).flatten(1).sum(1).double() * -math.log(process.data.levels)
    for event in range(int(when.where(predicted, -1).max()) + 1):  # synchronises
        z, now = torch.where(when < event, x, mask), predicted & (when == event)
        lam = share.where(now, 0.0).flatten(1).amax(1).logit()  # one for all tokens of an event
        at = Level.at(lam, process).over(x, torch.float32)
        plain = process.plain_loss(x, z, model.predict(z, at, y), at)
        found = found - plain.where(now, 0.0).flatten(1).sum(1).double()
    return found


def predicted_at(model: Diffusion, u: Tensor, steps: int | None) -> Tensor:
    """[B, *D] the share at which each token is predicted: u, or that of its step's level."""
    t = torch.linspace(1, 0, (steps or 1) + 1, dtype=torch.float64)
    shares = Level.of(t, model.schedule, model.process).share.to(u.device)  # [T + 1] rising
    step = torch.searchsorted(shares, u, right=True) - 1  # -1 .. T
    inside = u if steps is None else shares[step.clamp(0, steps - 1)]
    return inside.where(u < shares[-1], _AFTER).where(u >= shares[0], _BEFORE)


def turn(share: Tensor) -> Tensor:
    """[B, *D] the position of each token in the order, from 0; equal for equal shares."""
    rising, order = share.flatten(1).sort(1)
    before = rising.new_full((len(rising), 1), _BEFORE)
    number = (rising.diff(dim=1, prepend=before) > 0).cumsum(1) - 1
    return torch.empty_like(number).scatter_(1, order, number).view_as(share)
