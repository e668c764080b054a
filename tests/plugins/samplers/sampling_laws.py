"""Exactly known distributions, and the exact law of what a sampler makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from elbowroom import CategoricalPrediction, DataSpec, Level, Noise, Process, Schedule
from elbowroom.plugins.conformance.law import chi_square
from elbowroom.plugins.conformance.oracle import MixtureOracle, TableOracle, every_state
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Cosine
from torch import Tensor

TOKENS, STATES = 3, 3
DRAWS = 20_000
MIXTURE = MixtureOracle(
    torch.tensor([0.3, 0.7], dtype=torch.float64),
    torch.tensor([-0.6, 0.4], dtype=torch.float64),
    torch.tensor([0.1, 0.2], dtype=torch.float64),
)


class OracleModel:
    """A model whose predictions are a function of z and the level."""

    def __init__(self, process: Process, schedule: Schedule, predict: Callable) -> None:
        self.process, self.schedule, self._predict = process, schedule, predict
        self.rows = 0  # samples shown to the network, over all calls

    def predict(self, z: Tensor, level: Level, cond: Tensor | None):
        self.rows += len(z)
        return self._predict(z, level)


def table(seed: int = 0) -> TableOracle:
    """A distribution over three tokens of three states that depend on each other."""
    states = every_state((TOKENS,), STATES)
    a, b, c = states.double().unbind(1)
    turn = 2 * torch.pi / 3
    log_q = 1.5 * (turn * (a - b)).cos() + 1.0 * (turn * (b - c)).cos() + 0.3 * a
    return TableOracle(states, log_q.softmax(0))


def masked_model(
    schedule: Schedule | None = None, process: Process | None = None, told: bool = False
) -> OracleModel:
    """The exact denoiser of the table; ``told``: one that also depends on the level."""
    process = (process or Masked()).bind(DataSpec((TOKENS,), STATES))
    exact = table().predict(process)

    def tempered(z: Tensor, level: Level) -> CategoricalPrediction:
        return CategoricalPrediction(exact(z, level).logits * (0.5 + level.share.unsqueeze(-1)))

    return OracleModel(process, schedule or Cosine(), tempered if told else exact)


def gaussian_model(
    oracle: MixtureOracle, schedule: Schedule | None = None, process: Process | None = None
) -> OracleModel:
    process = (process or Gaussian()).bind(DataSpec((1,), 256))
    return OracleModel(process, schedule or VPCosine(), oracle.predict)


def counts(x: Tensor, states: int = STATES) -> Tensor:
    """How often each state came, in the order of :func:`every_state`."""
    return torch.bincount(number(x, states), minlength=states**TOKENS)


def p_value(x: Tensor, law: Tensor) -> float:
    """How well samples agree with a law over the 27 states."""
    return chi_square(counts(x), law * len(x))


def path_law(
    model: OracleModel,
    levels: Level,
    steps: int,
    *,
    sigma: Callable[[int], float] = lambda _: 0.0,
    change: Callable[[Tensor], Tensor] = lambda logits: logits,
    after: Callable[[int], Tensor] | None = None,
) -> Tensor:
    """The law of z after some steps, [64], by walking all states of z through the grid.

    From t to s a hidden token is revealed with (a_s - (1 - sigma) a_t)/(1 - a_t), a visible one
    hidden with sigma. ``after`` is the kernel [64, 64] that follows a step.
    """
    z = every_state((TOKENS,), STATES + 1)  # [64, 3]
    weight = (z == STATES).all(1).double()
    share = levels.share.tolist()
    for i, (a_t, a_s) in enumerate(itertools.pairwise(share[: steps + 1])):
        reveal = (a_s - (1 - sigma(i)) * a_t) / (1 - a_t)
        weight = weight @ _step(model, z, levels, i, reveal, sigma(i), change)
        weight = weight if after is None else weight @ after(i)
    return weight


def corrupted(share: float) -> Tensor:
    """The law of z, [64], if each token of the data is visible with probability ``share``."""
    z = every_state((TOKENS,), STATES + 1)
    law = torch.zeros(len(z), dtype=torch.float64)
    for x, probability in zip(table().states, table().probabilities, strict=True):
        each = torch.where(z == STATES, 1 - share, torch.where(z == x, share, 0.0)).double()
        law += probability * each.prod(1)
    return law


def divergence(law: Tensor, other: Tensor) -> float:
    """KL(law || other), of enumerated laws."""
    return float((torch.special.xlogy(law, law) - torch.special.xlogy(law, other)).sum())


def path_p_value(z: Tensor, law: Tensor) -> float:
    """How well z, hidden tokens included, agrees with a law over the 64 states."""
    return chi_square(counts(z, STATES + 1), law * len(z))


def chain_law(model: OracleModel, levels: Level, **options) -> Tensor:
    """The law of the finished tokens, [27]; what is hidden at the end takes its likeliest value."""
    z = every_state((TOKENS,), STATES + 1)
    last = len(levels.share) - 1
    weight = path_law(model, levels, last, **options)
    values = _values(model, z, levels, last, options.get("change", lambda logits: logits))
    x = torch.where(z == STATES, values.argmax(-1), z)
    return torch.zeros(STATES**TOKENS, dtype=torch.float64).index_add(0, number(x), weight)


def number(x: Tensor, states: int = STATES) -> Tensor:
    """The place of each row in the order of :func:`every_state`."""
    return (x * torch.tensor([states**k for k in reversed(range(TOKENS))])).sum(1)


def _values(model, z, levels, i, change) -> Tensor:
    level = levels.select(torch.full((len(z),), i)).over(z)
    logits = model.predict(z, level, None).logits.double()
    return change(logits).softmax(-1).nan_to_num(0.0)  # an impossible z has no answer


def _step(model, z, levels, i, reveal, sigma, change) -> Tensor:
    value = _values(model, z, levels, i, change)  # [64, 3, 3]
    hidden = (z == STATES).unsqueeze(-1)
    stay = torch.nn.functional.one_hot(z, STATES + 1).double()
    lost = torch.nn.functional.one_hot(torch.tensor(STATES), STATES + 1).double()
    shown = torch.cat([reveal * value, torch.full((*z.shape, 1), 1 - reveal).double()], -1)
    each = torch.where(hidden, shown, (1 - sigma) * stay + sigma * lost)  # [64, 3, 4]
    return torch.einsum("za,zb,zc->zabc", each[:, 0], each[:, 1], each[:, 2]).flatten(1)


def drawn(sampler, model, draws: int = DRAWS, seed: int = 0) -> Tensor:
    return sampler.sample(model, Noise.of(seed, draws)).x


def end(sampler, model, draws: int = DRAWS, seed: int = 0) -> Tensor:
    """z of the last frame over the signal's factor: real samples before they become integers."""
    for frame in sampler.frames(model, Noise.of(seed, draws)):
        last = frame
    assert last.x is not None
    signal = sampler.levels(model).share[-1].sqrt()
    return (last.z.double() / signal).flatten()
