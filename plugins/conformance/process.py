"""Laws of a process.

They are checked on a table of three examples of two tokens with three levels, for which every sum
is exact (or a few thousand draws are enough), with the table's oracle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import attrs
import torch
from elbowroom import DataSpec, Level, Noise, Process, Schedule, Step
from elbowroom.objective import bound
from torch import Tensor

from .law import chi_square, close, ensure, run
from .oracle import DATA, TABLE, TableOracle, counts_in, every_state, natural_schedule_of

_DRAWS = 20_000
_TIMES = torch.tensor([0.15, 0.4, 0.65, 0.9], dtype=torch.float64)
_UNLIKELY = 1e-5  # p-values below this count as broken


@attrs.frozen(eq=False)
class _Setting:
    """A process bound to a small table, under a schedule."""

    process: Process
    schedule: Schedule
    table: TableOracle

    def level(self, t: Tensor, x: Tensor) -> Level:
        dtype = x.dtype if x.is_floating_point() else torch.float32
        return Level.of(t.double(), self.schedule, self.process).over(x, dtype)

    def examples(self, count: int) -> Tensor:
        """Encoded examples in proportion to the table's probabilities, [count, 2]."""
        edges = (self.table.probabilities.cumsum(0) * count).round().long()
        which = torch.searchsorted(edges, torch.arange(count), right=True)
        return self.process.encode(self.table.states[which])


def check_process(
    process: Process,
    schedule: Schedule | None = None,
    *,
    data: DataSpec = DATA,
    table: TableOracle = TABLE,
) -> None:
    """Check the laws of a process, under ``schedule`` or its natural one.

    ``table`` has states of two tokens, of the form ``data``.
    """
    laws = [
        _round_trip,
        _shapes,
        _levels_per_example,
        _prices,
        _corruption,
        _exact_costs_nothing,
        _step_to_density,
        _prior_reached,
        _bound_is_entropy,
        _reverse,
        _inactive,
        _own_stream,
    ]
    schedule = schedule or natural_schedule_of(process)
    run(process, laws, _Setting(process.bind(data), schedule, table))


def _round_trip(setting: _Setting) -> None:
    """decode undoes encode at the cleanest level, with the exact denoiser."""
    every = setting.table.states.repeat(200, 1)
    noise = Noise.of(0, len(every))
    x = setting.process.encode(every)
    level = setting.level(torch.zeros(len(every)), x)
    z = setting.process.corrupt(x, level, noise)
    back = setting.process.decode(z, setting.table.predict(setting.process)(z, level), level, noise)
    kept = float((back == every).double().mean())
    ensure(kept > 0.95, f"only {kept:.0%} of the integers are recovered.")


def _shapes(setting: _Setting) -> None:
    """prior, corrupt, plain_loss, units and the boundary terms have the expected shapes."""
    process, noise = setting.process, Noise.of(0, 5)
    x = setting.examples(5)
    level = setting.level(torch.full((5,), 0.5), x)
    z = process.corrupt(x, level, noise)
    prediction = setting.table.predict(process)(z, level)
    whole, each = (5, *DATA.shape), (5,)
    for name, value, shape in (
        ("prior", process.prior(noise), whole),
        ("corrupt", z, whole),
        ("plain_loss", process.plain_loss(x, z, prediction, level), whole),
        ("units", process.units(z), each),
        ("step_kl", process.step_kl(x, z, prediction, level, level), each),
        ("prior_kl", process.prior_kl(x, level), each),
        ("reconstruction", process.reconstruction(x, level, noise), each),
        ("needs_final_prediction", process.needs_final_prediction(z), each),
    ):
        got = tuple(value.shape)
        ensure(got == shape, f"{name} has shape {got}, expected {shape}.")
    states = process.signature().in_states
    ensure(
        (states is None) == z.is_floating_point(),
        f"the signature has {states} input states but z is {z.dtype}.",
    )


def _levels_per_example(setting: _Setting) -> None:
    """A level [B] is one per example, also where B is the size of the last dimension."""
    process, count = setting.process, DATA.shape[-1]
    x, noise = setting.examples(count), Noise.of(0, count)
    level = Level.of(torch.linspace(0.1, 0.9, count), setting.schedule, process)
    for name, value, due in (
        ("corrupt", process.corrupt(x, level, noise), process.corrupt(x, level.over(x), noise)),
        ("prior_kl", process.prior_kl(x, level), process.prior_kl(x, level.over(x))),
    ):
        close(value.double(), due.double(), f"{name} at levels [B]", relative=1e-5, absolute=1e-6)


def _prices(setting: _Setting) -> None:
    """Prices are not negative, and step_price / (t - s) tends to rate * price."""
    process, schedule, h = setting.process, setting.schedule, 1e-6
    level = Level.of(_TIMES, schedule, process)
    ensure(level.price >= 0, "the price is negative somewhere.")
    step = process.step_price(level.log_snr, schedule.log_snr(_TIMES - h)) / h
    close(step, level.elbo_weight, "step_price / (t - s) at a tiny step", relative=1e-4)
    far = process.step_price(schedule.log_snr(_TIMES), schedule.log_snr(_TIMES / 2))
    ensure(far >= 0, "the price of a long step is negative.")


def _corruption(setting: _Setting) -> None:
    """corrupt draws from the distribution whose log-likelihood is log_likelihood."""
    process = setting.process
    x = process.encode(setting.table.states[:1]).expand(_DRAWS, -1)
    for t in (0.3, 0.7):
        level = setting.level(torch.full((_DRAWS,), t), x)
        z = process.corrupt(x, level, Noise.of(int(100 * t), _DRAWS))
        if z.is_floating_point():
            _check_density(setting, z, x, level)
        else:
            _check_table(setting, z, x, level)


def _check_table(setting: _Setting, z: Tensor, x: Tensor, level: Level) -> None:
    states = setting.process.signature().in_states
    assert states is not None
    every = every_state(DATA.shape, states)
    few = level.select(slice(0, len(every)))
    probability = setting.process.log_likelihood(every, x[: len(every)], few).double().exp()
    total = float(probability.sum())
    ensure(abs(total - 1) < 1e-4, f"the likelihood sums to {total:.4f} over all z.")
    index = (every[None] == z[:, None]).all(-1).long().argmax(1)
    counts = torch.bincount(index, minlength=len(every))
    p = chi_square(counts, probability * len(z))
    ensure(p > _UNLIKELY, f"draws and likelihood disagree (chi-square p = {p:.1e}).")


def _check_density(setting: _Setting, z: Tensor, x: Tensor, level: Level) -> None:
    """Compare draws of the first element with the density's distribution function."""
    grid = torch.linspace(-12, 12, 6001, dtype=torch.float64)
    wide = x[:1].double().expand(len(grid), -1).clone()
    probe = wide.clone()
    probe[:, 0] = grid
    one = level.select(slice(0, 1)).over(probe, torch.float64)
    density = setting.process.log_likelihood(probe, wide, one).exp()
    cumulative = torch.cumulative_trapezoid(density, grid)
    cumulative = cumulative / cumulative[-1]
    sorted_z = z[:, 0].double().sort().values
    at = torch.searchsorted(grid, sorted_z).clamp(1, len(grid) - 1) - 1
    empirical = (torch.arange(len(z), dtype=torch.float64) + 0.5) / len(z)
    distance = float((cumulative[at] - empirical).abs().max())
    limit = 2.5 / math.sqrt(len(z))  # Kolmogorov-Smirnov, p about 1e-5
    ensure(distance < limit, f"draws and likelihood disagree (KS distance {distance:.4f}).")


def _exact_costs_nothing(setting: _Setting) -> None:
    """The loss of the exact x is zero, and no plain loss is negative."""
    process, x = setting.process, setting.process.encode(setting.table.states[:1]).expand(64, -1)
    level = setting.level(torch.linspace(0.1, 0.9, 64), x)
    z = process.corrupt(x, level, Noise.of(1, 64))
    exact = TableOracle.point_mass(setting.table.states[0]).predict(process)
    loss = process.plain_loss(x, z, exact(z, level), level)
    ensure(loss.abs() < 1e-4, f"the loss of the exact x is {float(loss.abs().max()):.3g}.")
    other = process.plain_loss(x, z, setting.table.predict(process)(z, level), level)
    ensure(other >= 0, f"a plain loss is {float(other.min()):.3g}.")


def _step_to_density(setting: _Setting) -> None:
    """step_kl / (t - s) tends to rate * price * sum of plain losses."""
    process, h = setting.process, 1e-5
    x = process.encode(setting.table.states[:1]).expand(len(_TIMES), -1)
    x = x.double() if x.is_floating_point() else x
    exact = Level.of(_TIMES, setting.schedule, process).over(x)
    to = Level.of(_TIMES - h, setting.schedule, process).over(x)
    z = process.corrupt(x, exact, Noise.of(2, len(x)))
    prediction = setting.table.predict(process)(z, exact)
    plain = process.plain_loss(x, z, prediction, exact)
    due = (exact.elbo_weight * plain).flatten(1).sum(1)
    got = process.step_kl(x, z, prediction, exact, to) / h
    close(got, due, "step_kl / (t - s) at a tiny step", relative=1e-2, absolute=1e-6)


def _prior_reached(setting: _Setting) -> None:
    """At t = 1 z looks like the prior, and prior_kl is near zero."""
    process, x = setting.process, setting.examples(_DRAWS)
    level = setting.level(torch.ones(_DRAWS), x)
    kl = process.prior_kl(x, level)
    ensure(kl >= -1e-6, f"prior_kl is negative ({float(kl.min()):.3g}).")
    ensure(kl < 0.05, f"prior_kl is {float(kl.max()):.3g} nats at t = 1.")
    z = process.corrupt(x, level, Noise.of(3, _DRAWS)).double()
    prior = process.prior(Noise.of(4, _DRAWS)).double()
    both = torch.cat([z[:, 0], prior[:, 0]]).unique()
    cdf = [torch.searchsorted(v[:, 0].sort().values, both, right=True) / _DRAWS for v in (z, prior)]
    distance = float((cdf[0] - cdf[1]).abs().max())
    ensure(distance < 0.03, f"z at t = 1 and the prior differ by {distance:.3f} in distribution.")


def _bound_is_entropy(setting: _Setting) -> None:
    """With the exact denoiser the bound is the entropy, up to its two boundary terms."""
    x = setting.examples(_DRAWS)
    process, predict = setting.process, setting.table.predict(setting.process)
    order = Noise.of(5, _DRAWS).uniform("order").argsort()  # no tie between x and its time
    terms = bound(process, setting.schedule, predict, x[order], Noise.of(5, _DRAWS))
    nats, entropy = terms.nats, setting.table.entropy
    mean, error = float(nats.mean()), float(nats.std() / math.sqrt(len(nats)))
    margin = float((terms.prior + terms.reconstruction).mean())
    ensure(
        entropy - 5 * error - 1e-3 < mean < entropy + margin + 5 * error + 1e-2,
        f"it is {mean:.4f} +- {error:.4f} nats where the entropy is {entropy:.4f} "
        f"(boundary terms {margin:.4f}).",
    )


def _reverse(setting: _Setting) -> None:
    """Ancestral steps with the exact denoiser draw from the data's distribution."""
    process, predict = setting.process, setting.table.predict(setting.process)
    steps, count = 192, 3000  # many steps: two tokens rarely change in the same one
    noise = Noise.of(6, count)
    *_, z = _path(setting, steps, count, noise)
    last = setting.level(torch.zeros(count), z)
    x = process.decode(z, predict(z, last), last, noise)
    counts, outside = counts_in(setting.table, x)
    p = chi_square(counts, setting.table.probabilities * counts.sum())
    ensure(outside < 0.02 * count, f"{outside} of {count} samples are not in the data.")
    ensure(p > _UNLIKELY, f"counts {counts.tolist()} do not fit (chi-square p = {p:.1e}).")


def _path(setting: _Setting, steps: int, count: int, noise: Noise) -> Iterator[Tensor]:
    """z [count, 2] from the prior on, after each of ``steps`` ancestral steps."""
    process, predict = setting.process, setting.table.predict(setting.process)
    t = 1 - torch.arange(steps + 1, dtype=torch.float64) / steps
    z = process.prior(noise)
    yield z
    for i in range(steps):
        start, here, to = (setting.level(t[j].expand(count), z) for j in (0, i, i + 1))
        step = Step(torch.full((count,), i), here, to, start)
        z = process.reverse(z, predict(z, here), step, noise)
        yield z


def _inactive(setting: _Setting) -> None:
    """A step that active_steps rules out does not change the sample."""
    steps, count = 16, 32
    t = 1 - torch.arange(steps + 1, dtype=torch.float64) / steps
    noise = Noise.of(7, count)
    level = Level.of(t, setting.schedule, setting.process)
    active = setting.process.active_steps(level, noise, setting.process.prior(noise))
    ensure(tuple(active.shape) == (count, steps), f"active_steps is {tuple(active.shape)}.")
    for i, (z, after) in enumerate(pairwise(_path(setting, steps, count, noise))):
        changed = (after != z).flatten(1).any(1) & ~active[:, i]
        ensure(~changed, f"step {i} changed such a sample.")


def _own_stream(setting: _Setting) -> None:
    """A sample's noise does not depend on the batch it is in."""
    process, x = setting.process, setting.examples(8)
    noise, level = Noise.of(8, 8), setting.level(torch.full((8,), 0.5), x)
    whole = process.corrupt(x, level, noise)
    alone = process.corrupt(x[3:4], level.select(slice(3, 4)), noise.select(slice(3, 4)))
    close(alone, whole[3:4], "corrupt of a sample alone", relative=1e-6)
    prior = process.prior(noise.select(slice(3, 4)))
    close(prior, process.prior(noise)[3:4], "the prior of a sample alone", relative=1e-6)
