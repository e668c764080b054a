"""Schedules with parameters: what they are trained for.

With fixed ends and a weighting that reads lambda alone, the objective does not depend on the path
lambda(t) between them: its gradient there is noise. What depends on it is how much the estimator
varies, so a schedule minimises the second moment (Kingma et al. 2021),

    d/dphi E[L^2] = E[2 L dL/dphi],

L the loss of one example at a random time. dL/dphi is what back-propagation brings to lambda and to
its rate anyway; each example's is multiplied by 2 L there, in nats per dimension, and the network's
own gradients do not change.

Ends that may move do change the bound, by

    d/d lambda_max = price * E[plain loss at lambda_max] + d reconstruction / d lambda_max
    d/d lambda_min = d prior / d lambda_min - price * E[plain loss at lambda_min],

and they descend that, whatever the weighting is: an end moves outwards as long as the network knows
more there than what stands beyond it. One in eight examples of the global batch is looked at there
once more, whichever rank and micro batch it falls to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..contracts.level import Level
from ..contracts.process import Process
from ..errors import IncompatibleError
from ..randomness.noise import Noise

if TYPE_CHECKING:
    from .loss import Objective

_ONE_OF = 8  # examples is looked at once more at ends that move


def is_learned(schedule: object) -> bool:
    """Whether there is something about a schedule that training changes."""
    return isinstance(schedule, nn.Module) and any(p.requires_grad for p in schedule.parameters())


def train_for_second_moment(level: Level, losses: Tensor) -> None:
    """Scale the gradients that will reach a schedule's levels [B] by 2 L, L the losses [B]."""
    scale = 2 * losses.detach()

    def scaled(gradient: Tensor) -> Tensor:
        return gradient * scale.to(gradient)

    for value in (level.log_snr, level.rate):
        if value.requires_grad:
            value.register_hook(scaled)


def follow_the_bound(
    ends: Tensor,
    process: Process,
    predict: Callable[[Tensor, Level], Any],
    x: Tensor,
    noise: Noise,
) -> Tensor:
    """[B] terms of value 0 whose gradients at ``ends`` [2] are the bound's, in nats per dimension.

    ``ends`` are the least and the largest log-SNR, ``x`` [B, *D] is encoded. The network gets no
    gradient from them.
    """

    def loss(level: Level) -> Tensor:
        z = process.corrupt(x, level, noise)
        plain = process.plain_loss(x, z, predict(z, level), level)
        return (level.price * plain).flatten(1).sum(1).double()

    with torch.no_grad():
        low, high = (Level.at(e.expand(len(x)), process).over(x, x.dtype) for e in ends.unbind())
        prior, reconstruction = process.boundary_slopes(x, low, high, noise)
        slopes = torch.stack((prior - loss(low), reconstruction + loss(high)), dim=1)  # [B, 2]
    moves: Tensor = (slopes * ends).sum(1) / x[0].numel()
    return moves - moves.detach()


def looked_at_the_ends(noise: Noise) -> tuple[Tensor, Tensor]:
    """Which of some examples are looked at there, and what each counts: both [ceil(B/8)].

    Every eighth of the global batch counts eight. How many of them are among these examples no
    device is asked: there is room for the most, and what is not one of them counts nothing.
    """
    place = noise.positions if noise.mirrored is None else 2 * noise.positions + noise.mirrored
    chosen = place % _ONE_OF == 0
    rows = chosen.int().argsort(descending=True, stable=True)[: -(-len(noise) // _ONE_OF)]
    return rows, _ONE_OF * chosen[rows].double()


def check_learned_schedule(objective: Objective) -> None:
    """A learned schedule needs an objective that does not depend on its path, and gradients."""
    named = objective.schedule.learned_ends is not None
    nobody_trains_them = named and not isinstance(objective.schedule, nn.Module)
    if not is_learned(objective.schedule) and not nobody_trains_them:
        return
    why = None
    if nobody_trains_them:
        why = "it names ends (learned_ends), and is no torch.nn.Module whose parameters are trained"
    elif "real" not in objective.process.traits:
        why = (
            f"process {type(objective.process).__name__} draws states, through which no gradient "
            "reaches the schedule; an adaptive time sampler learns the same from losses"
        )
    elif objective.steps is not None:
        why = "objective.steps: in discrete time the objective itself depends on the path"
    else:
        lam = torch.zeros(1, dtype=torch.float64)
        with torch.no_grad():
            if objective.weighting(Level.at(lam, objective.process)).isnan().any():
                why = (
                    f"weighting {type(objective.weighting).__name__} reads the schedule, so the "
                    "objective changes with it"
                )
    if why:
        raise IncompatibleError(f"schedule {type(objective.schedule).__name__} is learned: {why}")
