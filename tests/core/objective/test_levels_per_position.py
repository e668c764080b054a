"""Laws of paths: with an exact denoiser the bound along any path is the entropy."""

from __future__ import annotations

import itertools
import math

import attrs
import elbowroom as er
import numpy as np
import pytest
import torch
from elbowroom import DataSpec, Level, Noise, Objective, Path
from elbowroom.contracts import Completion, Shared
from elbowroom.objective import bound
from elbowroom.plugins.conformance import check_path
from elbowroom.plugins.conformance.oracle import TableOracle, every_state
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.paths.blocks import Blocks
from elbowroom.plugins.paths.columns import Columns
from elbowroom.plugins.paths.given import GivenPath
from elbowroom.plugins.paths.independent import Independent
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.ddim import DDIM
from elbowroom.plugins.samplers.first_hitting import FirstHitting
from elbowroom.plugins.samplers.top_p import TopP
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Linear
from elbowroom.plugins.time_samplers.uniform import Stratified
from elbowroom.plugins.weightings.paper import Sigmoid
from torch import Tensor

DATA = DataSpec((3,), 3)
STATES = every_state((3,), 3)
PROCESS = Masked().bind(DATA)
TABLE = TableOracle(STATES, torch.rand(27, generator=torch.Generator().manual_seed(0)).double())
TABLE = TableOracle(STATES, TABLE.probabilities / TABLE.probabilities.sum())
SCHEDULE = Linear(eps=0.0)


class Curved(Path):
    """Three different monotone clocks."""

    def __call__(self, t, noise, shape):
        powers = torch.tensor([1.0, 2.0, 3.0], dtype=t.dtype)
        return t[:, None] ** powers, powers * t[:, None] ** (powers - 1)


PATHS = {
    "shared": Shared(),
    "curved": Curved(),
    "columns": Columns({"0": [0.5, 1.0], "2": [0.0, 0.25]}).prepare(DATA),
    "one block": Blocks(3),
    "uneven blocks": Blocks(2),
    "blocks of one": Blocks(1),
}


def nodes(panels: int = 12, order: int = 24) -> tuple[Tensor, Tensor]:
    """Nodes and weights on (0, 1); the ends of all paths above are ends of panels."""
    x, w = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(0, 1, panels + 1)
    return (
        torch.from_numpy((edges[:-1, None] + (x + 1) / 2 / panels).ravel()),
        torch.from_numpy(np.tile(w / 2 / panels, panels)),
    )


def cost_at(times: Tensor, speed: Tensor) -> float:
    """E over x and z of the loss of all positions at the times [3], by enumeration."""
    level = Level.of(times[None], SCHEDULE, PROCESS)
    z = every_state((3,), 4)
    said = TABLE.predict(PROCESS)(z, level)
    total = torch.zeros((), dtype=torch.float64)
    weight = torch.where(speed > 0, level.elbo_weight * speed, 0.0)
    for x, probability in zip(STATES, TABLE.probabilities, strict=True):
        q = PROCESS.log_likelihood(z, x.expand_as(z), level).exp()
        plain = PROCESS.plain_loss(x.expand_as(z), z, said, level)
        seen = q[:, None] * torch.where(q[:, None] > 0, plain, 0.0)
        total += probability * (weight * seen).sum()
    return float(total)


def entropy(kept: tuple[int, ...]) -> float:
    """The entropy of the tokens ``kept``."""
    table = TABLE.probabilities.view(3, 3, 3)
    gone = tuple(n for n in range(3) if n not in kept)
    marginal = table.sum(gone) if gone else table
    return float(-torch.special.xlogy(marginal, marginal).sum())


@pytest.mark.parametrize("name", PATHS)
def test_the_bound_along_a_path_is_the_entropy(name):
    """Of an exact denoiser, whatever the clock of each position."""
    t, weights = nodes()
    times, speed = PATHS[name](t, Noise.of(0, len(t)), (3,))
    speed = torch.ones(len(t), 3).double() if speed is None else speed
    times = times if times.ndim > 1 else times[:, None].expand(-1, 3)
    total = sum(w * cost_at(a, b) for w, a, b in zip(weights.tolist(), times, speed, strict=True))
    assert total == pytest.approx(TABLE.entropy, abs=1e-9)


@pytest.mark.parametrize("given", [(), (0,), (1,), (0, 2), (0, 1, 2)])
def test_with_given_positions_it_is_the_conditional_entropy(given):
    """H(rest | given) = H(all) - H(given)."""
    keep = torch.tensor([n in given for n in range(3)])
    t, weights = nodes()
    times, speed = Completion(keep.expand(len(t), -1))(t, Noise.of(0, len(t)), (3,))
    total = sum(w * cost_at(a, b) for w, a, b in zip(weights.tolist(), times, speed, strict=True))
    assert total == pytest.approx(TABLE.entropy - entropy(given), abs=1e-9)


def test_independent_times_average_the_conditional_entropies():
    """Each other token is visible with probability 1/2: the mean of H(x_n | x_S) over S."""
    t, weights = nodes(1, 8)
    total = 0.0
    for (a, u), (b, v), (c, w) in itertools.product(
        zip(t.tolist(), weights.tolist(), strict=True), repeat=3
    ):
        times = torch.tensor([a, b, c], dtype=torch.float64)
        total += u * v * w * cost_at(times, torch.ones(3, dtype=torch.float64))
    due = 0.0
    for n in range(3):
        others = [m for m in range(3) if m != n]
        for size in range(3):
            for seen in itertools.combinations(others, size):
                due += (entropy((*seen, n)) - (entropy(seen) if seen else 0.0)) / 4
    assert total == pytest.approx(due, abs=1e-9)


def objective(process, path: Path, **options) -> Objective:
    schedule = VPCosine() if "real" in process.traits else Linear(eps=1e-3)
    return Objective.prepared(process, schedule, Sigmoid(), Stratified(), path=path, **options)


def loss(process, path: Path, logits: Tensor, count: int = 64):
    """The losses of fixed logits on random integers."""
    x = torch.randint(0, 3, (count, 3), generator=torch.Generator().manual_seed(1))

    def predict(z, level):
        return process.read(logits.expand(len(z), -1, -1), z, level)

    return objective(process, path)(predict, process.encode(x), Noise.of(0, count))


@pytest.mark.parametrize("process", [Masked(), Gaussian("levels")], ids=["masked", "gaussian"])
def test_one_block_is_the_shared_clock_to_the_bit(process):
    """Levels per position that are all equal give the loss of one level."""
    process = process.bind(DATA)
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(2))
    for path in (Blocks(3), Completion(torch.zeros(64, 3).bool()), GivenPath(probability=0.0)):
        one, other = (loss(process, p, logits) for p in (Shared(), path))
        assert torch.equal(one.per_example, other.per_example)
        assert torch.equal(one.elbo, other.elbo)


@pytest.mark.parametrize("process", [Masked(), Gaussian("levels")], ids=["masked", "gaussian"])
def test_given_positions_have_no_gradient(process):
    """And the loss of examples that are given as a whole is zero."""
    process = process.bind(DATA)
    keep = torch.tensor([True, False, True]).repeat(64, 1)
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(2)).requires_grad_()
    loss(process, Completion(keep), logits).loss.backward()
    assert logits.grad is not None and bool(logits.grad.isfinite().all())
    assert logits.grad[0].abs().max() == 0 and logits.grad[2].abs().max() == 0
    assert logits.grad[1].abs().max() > 0
    whole = loss(process, Completion(torch.ones(64, 3).bool()), logits)
    assert whole.per_example.abs().max() == 0


def test_given_tokens_are_never_masked():
    """Also where the schedule ends before every token is visible."""
    keep = torch.tensor([True, False, True]).repeat(4096, 1)
    found = []

    def predict(z, level):
        found.append(z)
        return PROCESS.read(torch.zeros(len(z), 3, 3), z, level)

    x = torch.zeros(4096, 3).long()
    path = Completion(keep)
    Objective.prepared(PROCESS, Linear(eps=0.2), Sigmoid(), Stratified(), path=path)(
        predict, x, Noise.of(0, 4096)
    )
    assert bool((found[0][:, [0, 2]] == 0).all()) and bool((found[0][:, 1] == 3).any())


@pytest.mark.parametrize("process", [Masked(), Gaussian("levels")], ids=["masked", "gaussian"])
@pytest.mark.parametrize("clean", [True, False])
def test_given_positions_cost_nothing_at_the_ends(process, clean):
    """A uniform network pays log V for each position that is not given, whatever the ends."""
    process = process.bind(DataSpec((4,), 8))
    schedule = Linear(eps=1e-2) if "absorbing" in process.traits else VPCosine()
    keep = torch.tensor([True, False, False, True]).repeat(4096, 1)
    x = torch.randint(0, 8, (4096, 4), generator=torch.Generator().manual_seed(1))
    found = bound(
        process,
        schedule,
        lambda z, level: process.read(torch.zeros(*z.shape, 8), z, level),
        process.encode(x),
        Noise.of(0, 4096),
        path=Completion(keep, clean),
    )
    assert float(found.nats.mean()) == pytest.approx(2 * math.log(8), rel=0.06)


def test_paths_that_are_drawn():
    """``given`` draws sides and scattered positions; ``independent`` uniform times."""
    keep = GivenPath(probability=1.0).draw(Noise.of(0, 4000), (8, 8, 1))
    share = keep.float().mean((1, 2, 3))
    assert abs(float(share.mean()) - 0.5) < 0.02 and float(share.std()) > 0.25
    left = keep.all((1, 3))  # [B, 8] whole columns
    assert bool((left.any(1) & ~left.all(1)).any())
    t = torch.linspace(0, 1, 2000, dtype=torch.float64)
    times, _ = Independent()(t, Noise.of(0, 2000), (3,))
    assert abs(float(times.mean()) - 0.5) < 0.02
    assert abs(float(torch.corrcoef(times.T)[0, 1])) < 0.06


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ({"name": "blocks", "size": 100}, "larger than the 64 positions"),
        ({"name": "columns", "intervals": {"age": [0, 1]}}, "no part 'age' in the data"),
        ({"name": "columns", "intervals": {"0": [1, 0]}}, "0 <= begin < end <= 1"),
    ],
)
def test_a_path_that_does_not_fit_is_refused(path, message):
    """In one sentence, when the model is assembled."""
    with pytest.raises(er.ElbowroomError, match=message):
        er.assemble("digits", {"objective.path": path})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective.steps": 10}, "needs continuous time"),
        ({"weighting": "uncertainty"}, "needs a fixed weighting"),
    ],
)
def test_what_a_path_cannot_be_combined_with(changes, message):
    """Discrete time and trainable weightings."""
    with pytest.raises(er.IncompatibleError, match=message):
        er.assemble("digits", {"objective.path": "given", **changes})


class Fast(Path):
    """Moves twice as far as there is."""

    def __call__(self, t, noise, shape):
        return t[:, None].expand(-1, *shape), torch.full((len(t), *shape), 2.0).double()


@pytest.mark.parametrize(
    "path", [Shared(), GivenPath(), Blocks(2), Columns({"1": [0.2, 0.7]}), Independent()], ids=str
)
def test_built_in_paths_keep_every_law(path):
    """The conformance kit passes."""
    check_path(path)


def test_a_wrong_path_is_caught():
    """A position cannot move further than from data to noise."""
    with pytest.raises(AssertionError, match="the mean speed of a position is 2"):
        check_path(Fast())


@attrs.frozen(eq=False)
class Exact:
    """An exact denoiser that samplers take, along a path."""

    process: er.Process
    schedule: er.Schedule
    path: Path

    def predict(self, z, level, cond):
        return TABLE.predict(self.process)(z, level)


def distance(sampler: er.Sampler, model: Exact, draws: int = 6000) -> float:
    """Total variation between samples and the table."""
    x = sampler.sample(model, Noise.of(0, draws)).x
    seen = torch.bincount((x * torch.tensor([9, 3, 1])).sum(1), minlength=27).double() / draws
    return float((seen - TABLE.probabilities).abs().sum() / 2)


def test_blocks_of_one_sample_exactly_in_as_many_steps_as_positions():
    """One token per step is drawn given those before it: the chain rule."""
    model = Exact(PROCESS, SCHEDULE, Blocks(1))
    assert distance(Ancestral(3), model) < 0.035  # 27 cells, 6000 draws: about 0.026 by chance
    assert distance(Ancestral(3, skip=False), model) < 0.035
    assert distance(TopP(3, p=1.0), model) < 0.035


@pytest.mark.parametrize("sampler", [Ancestral(90), DDIM(90)], ids=["ancestral", "ddim"])
def test_gaussian_blocks_sample_the_data(sampler):
    """Each block runs through all levels while the others rest."""
    process = Gaussian().bind(DATA)
    model = Exact(process, VPCosine(log_snr_max=8.0), Blocks(1))
    assert distance(sampler, model) < 0.06


def test_a_sampler_that_cannot_follow_a_path_is_refused():
    """With a sentence that names both."""
    model = Exact(PROCESS, SCHEDULE, Blocks(1))
    with pytest.raises(
        er.IncompatibleError, match=r"FirstHitting cannot follow objective\.path Blocks"
    ):
        FirstHitting(3).sample(model, Noise.of(0, 2))
