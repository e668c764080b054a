"""The paper's theorems, as numbers.

L^(i) is the ELBO of the model that uses the optimal decoder q(x | z_(i-1)) below level i and the
denoiser above:

    L^(i)(x) = E log q(x | z_(i-1)) - KL_prior(x) - sum over j >= i of KL_j(x),     i = 1 .. T

Theorem 1   E[L^(i+1) - L^(i)] = E KL(q(z_(i-1) | z_i) || p(z_(i-1) | z_i)) >= 0
Theorem 2   sum_i w_i L^(i)(x) = - sum_j W_j KL_j(x) + const(x),    W_j = sum of w_i over i <= j

Minorant    E L^w = E L^m - sum_j (w_j - m_j) (A_j + I_j),    m_j = min over k >= j of w_k

with L^w = - sum_j w_j KL_j, A_j the transition KL of Theorem 1 and I_j = I(z_(j-1); x | z_j) free
of the model: on average a weighting that falls is still a lower bound of its minorant's mixture
(:mod:`elbowroom.plugins.paper.slack`).

Where everything can be enumerated (or integrated), both are checked exactly. The transition KLs
are worked out from the transition probabilities alone, independently of the bounds.
"""

from __future__ import annotations

import math

import attrs
import torch
from elbowroom import Level, Process, Schedule, Weighting
from elbowroom.objective import Predict
from elbowroom.plugins.conformance import MixtureOracle, TableOracle, every_state
from torch import Tensor

from .slack import minorant

CLIPPED = 0.999  # where w(1) is infinite, the last weight is taken here
_NODES, _REACH = 240, 10.0  # trapezoid nodes over +-10 standard deviations: exact to rounding


@attrs.frozen(eq=False)
class Cascade:
    """Everything the two theorems speak of, for every x."""

    t: Tensor  # [T + 1]
    x_probability: Tensor  # [X]
    decoder: Tensor  # [T, X]  E log q(x | z_(i-1))
    prior: Tensor  # [X]     KL(q(z_T | x) || p(z_T))
    steps: Tensor  # [T, X]  KL_j(x)
    transition_kl: Tensor  # [T - 1]  E KL(q || p) of the transition i -> i - 1

    @property
    def bounds(self) -> Tensor:
        """L^(1..T)(x), [T, X]."""
        above = self.steps.flip(0).cumsum(0).flip(0)
        return self.decoder - self.prior - above

    @property
    def expected_bounds(self) -> Tensor:
        """E L^(1..T), [T]."""
        return self.bounds @ self.x_probability

    @property
    def increments(self) -> Tensor:
        """What Theorem 1 says is the transition KL, [T - 1]."""
        return self.expected_bounds.diff()

    def theorem2(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Both sides for weights W_1..W_T, per x: ([X], [X])."""
        each = torch.cat([w[:1], w.diff()])  # w_i
        left = each @ self.bounds
        right = -(w @ self.steps) + each @ (self.decoder - self.prior)
        return left, right

    @property
    def expected_steps(self) -> Tensor:
        """E KL_1..T, [T]."""
        return self.steps @ self.x_probability

    @property
    def information(self) -> Tensor:
        """I(z_(i-1); x | z_i) = E log q(x | z_(i-1)) - E log q(x | z_i), i = 1 .. T - 1."""
        return -(self.decoder @ self.x_probability).diff()

    def below_minorant(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Both sides of the identity for weights W_1..W_T, on average over x.

        The left is made of the steps' KLs given x, the right of the transitions' and the
        information; at the last level w = m.
        """
        m = minorant(w)
        above = (w - m)[:-1]
        looser = above @ (self.transition_kl + self.information)
        return -(w @ self.expected_steps), -(m @ self.expected_steps) - looser


def cumulative_weights(
    weighting: Weighting, schedule: Schedule, process: Process, t: Tensor
) -> Tensor:
    """W_j = w(t_j), j = 1 .. T; an infinite last one is taken at t = 0.999."""
    weighting = weighting.prepare(schedule, process)
    w = weighting(Level.of(t[1:], schedule, process))
    clipped = weighting(Level.of(t[1:].clamp(max=CLIPPED), schedule, process))
    return torch.where(w.isfinite(), w, clipped)


def table_cascade(
    process: Process, schedule: Schedule, table: TableOracle, predict: Predict, t: Tensor
) -> Cascade:
    """The cascade of a finite distribution under masking, by enumeration of every z."""
    states_in = process.signature().in_states
    assert states_in is not None, "only discrete states can be enumerated"
    x = process.encode(table.states)  # [X, *D]
    z = every_state(x.shape[1:], states_in)  # [Z, *D]
    levels = [Level.of(moment.reshape(1), schedule, process) for moment in t]
    q = [_table_likelihood(process, z, x, level) for level in levels]  # each [X, Z]
    joint = [table.probabilities[:, None] * given for given in q]

    decoder, steps, transition = [], [], []
    for i in range(1, len(t)):
        log_posterior = (joint[i - 1] / joint[i - 1].sum(0)).log()
        decoder.append(torch.where(q[i - 1] > 0, q[i - 1] * log_posterior, 0.0).sum(1))
        here, there = levels[i].over(z), levels[i - 1].over(z)
        said = predict(z, here)
        kl = torch.stack(
            [process.step_kl(one.expand_as(z), z, said, here, there) for one in x]
        )  # [X, Z]
        steps.append(torch.where(q[i] > 0, q[i] * kl, 0.0).sum(1))
        if i < len(t) - 1:
            posterior = joint[i] / joint[i].sum(0).clamp(min=torch.finfo(torch.float64).tiny)
            transition.append(
                _masked_transition_kl(z, x, posterior, said.logits, here, there, joint[i].sum(0))
            )
    first = process.prior_kl(x, levels[-1].over(x))
    return Cascade(
        t,
        table.probabilities,
        torch.stack(decoder),
        first,
        torch.stack(steps),
        torch.stack(transition),
    )


def _table_likelihood(process: Process, z: Tensor, x: Tensor, level: Level) -> Tensor:
    """q(z | x), [X, Z]."""
    rows = [process.log_likelihood(z, one.expand_as(z), level.over(z)) for one in x]
    return torch.stack(rows).exp()


def _masked_transition_kl(
    z: Tensor,
    x: Tensor,
    posterior: Tensor,
    logits: Tensor,
    here: Level,
    there: Level,
    probability: Tensor,
) -> Tensor:
    """E over z_t of KL(q(z_s | z_t) || p(z_s | z_t)), transition by transition.

    A hidden token is revealed with probability u = (a_s - a_t)/(1 - a_t); under q it then shows
    x, drawn once for all tokens from the posterior [X, Z], under p each is drawn from its logits.
    """
    mask = logits.shape[-1]
    a_t, a_s = here.share.flatten()[0], there.share.flatten()[0]
    u = (a_s - a_t) / (1 - a_t)
    total = torch.zeros((), dtype=torch.float64)
    flat, data = z.flatten(1), x.flatten(1)
    log_p_token = logits.double().log_softmax(-1).flatten(1, -2)  # [Z, N, V]
    for start in range(len(flat)):
        if probability[start] == 0:
            continue
        hidden = flat[start] == mask
        legal = ((flat == flat[start]) | hidden).all(1)  # visible tokens stay as they are
        ends = flat[legal]  # [E, N]
        revealed = hidden & (ends != mask)
        log_moves = torch.where(revealed, u.log(), torch.where(hidden, torch.log1p(-u), 0.0)).sum(1)
        shows = ((ends[:, None] == data[None]) | ~revealed[:, None]).all(2).double()  # [E, X]
        q = log_moves.exp() * (shows @ posterior[:, start])
        tokens = ends.clamp(max=mask - 1).T.unsqueeze(-1)  # [N, E, 1]
        said = log_p_token[start].unsqueeze(1).expand(-1, len(ends), -1).gather(2, tokens)
        log_p = log_moves + torch.where(revealed, said.squeeze(-1).T, 0.0).sum(1)
        total += probability[start] * torch.where(q > 0, q * (q.log() - log_p), 0.0).sum()
    return total


def mixture_cascade(
    process: Process, schedule: Schedule, mixture: MixtureOracle, predict: Predict, t: Tensor
) -> Cascade:
    """The cascade of a one-dimensional mixture under Gaussian noise, by quadrature."""
    nodes, node_weights = _normal_nodes()  # [n]
    x = (mixture.means + mixture.stds * nodes[:, None]).reshape(-1, 1)  # [X, 1]
    probability = (mixture.weights * node_weights[:, None]).reshape(-1)
    log_q_x = mixture.log_density(x[:, 0], torch.ones((), dtype=torch.float64))
    levels = [Level.of(moment.reshape(1), schedule, process) for moment in t]

    decoder, steps, transition = [], [], []
    for i in range(1, len(t)):
        below, here = levels[i - 1], levels[i]
        z = below.share.sqrt() * x + below.noise_share.sqrt() * nodes  # [X, n]
        log_q_z_x = -(nodes**2 + (2 * torch.pi * below.noise_share).log()) / 2
        log_posterior = log_q_z_x + log_q_x[:, None] - mixture.log_density(z, below.share)
        decoder.append(log_posterior @ node_weights)

        z = (here.share.sqrt() * x + here.noise_share.sqrt() * nodes).reshape(-1, 1)
        wide = x.expand(-1, len(nodes)).reshape(-1, 1)
        kl = process.step_kl(wide, z, predict(z, here.over(z)), here.over(z), below.over(z))
        steps.append(kl.reshape(len(x), -1) @ node_weights)
        if i < len(t) - 1:
            transition.append(_normal_transition_kl(mixture, predict, here, below))
    first = process.prior_kl(x, levels[-1].over(x))
    return Cascade(
        t, probability, torch.stack(decoder), first, torch.stack(steps), torch.stack(transition)
    )


def _normal_nodes() -> tuple[Tensor, Tensor]:
    """Nodes and weights of E f(n), n standard normal: the trapezoid rule, exact to rounding."""
    nodes = torch.linspace(-_REACH, _REACH, _NODES, dtype=torch.float64)
    weights = (-(nodes**2) / 2).exp()
    return nodes, weights / weights.sum()


def _normal_transition_kl(
    mixture: MixtureOracle, predict: Predict, here: Level, there: Level
) -> Tensor:
    """E over z_t of KL(q(z_s | z_t) || N(z_s; mean of p, variance of p)), by quadrature.

    q(z_s | z_t) is itself a mixture: each component and z_t are jointly normal, with
    z_t = (a_t/a_s) z_s + noise of variance b_t^2 (1 - k), k = SNR_t/SNR_s.
    """
    nodes, weights = _normal_nodes()
    a_t, a_s = here.share.sqrt(), there.share.sqrt()
    k = (here.log_snr - there.log_snr).exp()
    ratio, noise = a_t / a_s, here.noise_share * (1 - k)
    var_s = there.share * mixture.stds**2 + there.noise_share  # [K] of z_s
    var_t = ratio**2 * var_s + noise  # [K] of z_t
    z_t = a_t * mixture.means + var_t.sqrt() * nodes[:, None]  # [n, K] nodes of each component
    probability = (mixture.weights * weights[:, None]).reshape(-1)
    z_t = z_t.reshape(-1, 1)  # [n K, 1]

    log_joint = (
        mixture.weights.log()
        - ((z_t - a_t * mixture.means) ** 2 / var_t + (2 * torch.pi * var_t).log()) / 2
    )
    share = log_joint.log_softmax(-1)  # [n K, K] log responsibility given z_t
    gain = ratio * var_s / var_t
    mean = a_s * mixture.means + gain * (z_t - a_t * mixture.means)  # [n K, K]
    std = (var_s * noise / var_t).sqrt()  # [K]

    z_s = mean.unsqueeze(-1) + std[:, None] * nodes  # [n K, K, n]
    spread = z_s.unsqueeze(-1) - mean[:, None, None]  # [n K, K, n, K]
    log_q = (
        share[:, None, None] - ((spread / std) ** 2 + (2 * math.pi * std**2).log()) / 2
    ).logsumexp(-1)
    x_hat = predict(z_t, here.over(z_t)).x
    p_mean = ((1 - k) * a_s * x_hat + k * z_t / ratio).unsqueeze(-1)
    p_var = there.noise_share * (1 - k)
    log_p = -((z_s - p_mean) ** 2 / p_var + (2 * math.pi * p_var).log()) / 2
    kl: Tensor = (share.exp() * ((log_q - log_p) @ weights)).sum(-1)
    return probability @ kl
