"""Orders: what a masked model says of an example along one way of uncovering it.

Each token has a uniform u and is hidden at every level whose share of visible tokens is at most u.
So when it is uncovered does not depend on the network, and the model is a mixture over u,

    p(x) = E_u w(u),      w(u) = product over tokens of p(x_i | all that was uncovered before it),

where tokens uncovered in the same step are guessed together. w is an unbiased estimate of the
likelihood, as -log w is one of the bound of as many steps. In continuous time tokens come one by
one, in the order of u.

A token that an end of the schedule has in the wrong state (visible at the noise: u < a_1, hidden at
the data: u >= a_0) is guessed with 1/V, as the bound does.
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
    """[B] log w in nats of examples x [B, *D] uncovered by u [B, *D]; no steps: one by one."""
    process, share = model.process, guessed_at(model, u, steps)
    mask, when = cast("Absorbing", process).mask, turn(share)
    asked = (share != _BEFORE) & (share != _AFTER)
    found = (~asked).flatten(1).sum(1).double() * -math.log(process.data.levels)
    for event in range(int(when.where(asked, -1).max()) + 1):  # an accelerator is waited for here
        z, now = torch.where(when < event, x, mask), asked & (when == event)
        lam = share.where(now, 0.0).flatten(1).amax(1).logit()  # one for all tokens of an event
        at = Level.at(lam, process).over(x, torch.float32)
        plain = process.plain_loss(x, z, model.predict(z, at, y), at)
        found = found - plain.where(now, 0.0).flatten(1).sum(1).double()
    return found


def guessed_at(model: Diffusion, u: Tensor, steps: int | None) -> Tensor:
    """[B, *D] the share at which each token is guessed: u itself, or that of its step's level."""
    t = torch.linspace(1, 0, (steps or 1) + 1, dtype=torch.float64)
    shares = Level.of(t, model.schedule, model.process).share.to(u.device)  # [T + 1] rising
    step = torch.searchsorted(shares, u, right=True) - 1  # -1 .. T
    inside = u if steps is None else shares[step.clamp(0, steps - 1)]
    return inside.where(u < shares[-1], _AFTER).where(u >= shares[0], _BEFORE)


def turn(share: Tensor) -> Tensor:
    """[B, *D] the turn at which tokens are guessed, from 0; equal shares have one, -1: before."""
    rising, order = share.flatten(1).sort(1)
    before = rising.new_full((len(rising), 1), _BEFORE)
    number = (rising.diff(dim=1, prepend=before) > 0).cumsum(1) - 1
    return torch.empty_like(number).scatter_(1, order, number).view_as(share)
