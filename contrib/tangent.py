"""Lower and upper bounds on log p for p = E w, from K independent draws of w.

From below, by Jensen, and the more draws the closer (Burda et al. 2016):

    E log(mean of w_1 .. w_K)  <=  log p

From above, the logarithm lies under each of its tangents (the tangent upper bound on evidence,
Ivanov et al. 2026, arXiv 2605.24292; with psi = p it touches):

    log p  <=  log psi + p/psi - 1  =  E[log psi + w/psi - 1]        for every psi > 0,

exactly, for any psi independent of w. Here psi is the mean of the other K - 1 draws, times one
scale c for many examples, and each draw is w once. A good c is the mean of w/psi; it is taken from
other examples, so that w and c are independent.

Both hold in expectation. Where log w varies by several nats, few draws dominate the mean of w/psi,
and an upper bound from draws without them is too low.

Both use the same draws, so their errors are correlated, and larger than the gap for many draws: the
gap falls as 1/K, the error as 1/sqrt(K) (:func:`draws_error`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LARGEST = 700.0  # exp of more overflows


def from_below(log_w: Tensor) -> Tensor:
    """[N] log mean w of draws [K, N]: at most log p on average."""
    return log_w.logsumexp(0) - math.log(len(log_w))


def draws_error(log_w: Tensor) -> float:
    """The standard error of the mean over N of log mean w, with respect to the draws [K, N].

    A jackknife over the draws of each example: with f_k the log mean without draw k,

        sqrt( sum over n of (K - 1)/K sum over k of (f_k - mean f)^2 ) / N.

    The variance of w_k / mean w would be bounded by K, however much the draws vary.
    """
    k, count = log_w.shape
    return math.sqrt((k - 1) ** 2 / k * float(mean_of_others(log_w).var(0).sum())) / count


def from_above(log_w: Tensor, log_scale: Tensor) -> Tensor:
    """[N] the tangent's bound by draws [K, N] and log c [N]: at least log p on average."""
    log_psi = mean_of_others(log_w) + log_scale
    ratio = (log_w - log_psi).clamp(max=_LARGEST).exp()
    return (log_psi + ratio - 1).mean(0)


def mean_of_others(log_w: Tensor) -> Tensor:
    """[K, N] log of the mean of all other draws."""
    k = len(log_w)
    own = torch.eye(k, dtype=torch.bool, device=log_w.device)[:, :, None]
    return log_w.expand(k, -1, -1).masked_fill(own, -torch.inf).logsumexp(1) - math.log(k - 1)


def scale_from_others(log_w: Tensor) -> Tensor:
    """[N] log c for each example: the mean of w/psi over the other half of the examples.

    For a single example c = 1.
    """
    log_ratio = from_below(log_w - mean_of_others(log_w))  # [N]
    found = torch.zeros_like(log_ratio)
    if len(found) > 1:
        for fold in (0, 1):
            found[fold::2] = from_below(log_ratio[1 - fold :: 2])
    return found
