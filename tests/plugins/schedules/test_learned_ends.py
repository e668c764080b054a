"""Ends of a schedule that follow the bound."""

from __future__ import annotations

import json

import elbowroom as er
import pytest
import torch
from elbowroom import DataSpec, ElbowroomError, IncompatibleError, Level, Noise, Process
from elbowroom.config.assembly import build_parts
from elbowroom.config.sections import load_config
from elbowroom.conformance import check_schedule
from elbowroom.contracts.normaliser import BatchMean
from elbowroom.objective.boundary import boundary
from elbowroom.objective.diffusion import Diffusion
from elbowroom.objective.learned_schedule import follow_the_bound, looked_at_the_ends
from elbowroom.objective.loss import Objective, bound
from elbowroom.plugins.diffusers.export import ElbowroomPipeline
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.normalisers.units import UnitMean
from elbowroom.plugins.schedules.gaussian import LinearLogSNR, VPCosine
from elbowroom.plugins.schedules.learned import Learned
from elbowroom.plugins.time_samplers.pairs import Antithetic
from elbowroom.plugins.time_samplers.uniform import Stratified
from elbowroom.plugins.weightings.paper import Elbo, Sigmoid
from elbowroom.runs.export import export_run
from elbowroom.runs.ranks import Ranks
from elbowroom.training.run import train
from elbowroom.training.step import Training
from torch import nn

from tests.helpers.accelerated import CPU, model
from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import same, tensors, tiny_config, trained_and_cut

LEVELS = 4
PROCESS = Gaussian(predict="v").bind(DataSpec((6,), levels=LEVELS))
BASE = VPCosine(log_snr_max=4.0, log_snr_min=-3.0)


def predict(z, level):
    """A network of no weights."""
    return PROCESS.read(-0.3 * z, z, level)


def data(batch: int) -> torch.Tensor:
    return PROCESS.encode(torch.arange(batch * 6).reshape(batch, 6) % LEVELS).double()


def learned(low: float = 0.0, high: float = 0.0, **options) -> Learned:
    schedule = Learned(of=BASE, learn_ends=True, **options)
    quarter = 7 / 4  # of the base's length
    schedule.moved.data.copy_(torch.tensor([low, high]) / quarter)
    return schedule


@pytest.fixture(autouse=True)
def _precise():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (-1.5, 2.0), (2.5, -3.0), (20.0, -20.0)])
def test_is_a_schedule_wherever_its_ends_are(low, high):
    """It falls from end to end, with its rate and inverse; the ends never meet."""
    schedule = learned(low, high, knots=5)
    schedule.shares.data.copy_(torch.tensor([0.3, -0.5, 0.1, 0.8, -0.2]))
    with torch.no_grad():
        ends = schedule.learned_ends
        torch.testing.assert_close(schedule.log_snr(torch.tensor([1.0, 0.0])), ends)
        assert ends[0] < 0.5 < ends[1]
        if abs(low) < 9:
            check_schedule(schedule.requires_grad_(False))
            torch.testing.assert_close(ends, torch.tensor([-3 + low, 4 + high]), rtol=0, atol=0.6)


def test_begins_as_its_base():
    t = torch.linspace(0, 1, 33)
    torch.testing.assert_close(learned().log_snr(t), BASE.log_snr(t))
    torch.testing.assert_close(learned().rate(t), BASE.rate(t))


def test_a_look_between_the_ends_does_not_move_them():
    """The loss at some time is none of their business."""
    schedule = learned(-0.5, 0.5)
    (schedule.log_snr(torch.rand(9)).sum() + schedule.rate(torch.rand(9)).sum()).backward()
    assert schedule.moved.grad is None and schedule.shares.grad is not None


def test_the_gradient_is_that_of_the_bound():
    """By differences of the whole bound with the same noise, at many examples and times."""
    x, noise = data(60_000), Noise.of(3, 60_000)

    def bound_at(ends) -> float:
        low, high = ends.tolist()
        return float(bound(PROCESS, LinearLogSNR(high, low), predict, x, noise).nats.mean() / 6)

    ends = torch.tensor([-2.0, 3.0], requires_grad=True)
    terms = follow_the_bound(ends, PROCESS, predict, x, noise)
    terms.mean().backward()
    assert terms.shape == (60_000,) and not terms.any()
    for k, step in enumerate(torch.eye(2) * 1e-3):
        slope = (bound_at(ends.detach() + step) - bound_at(ends.detach() - step)) / 2e-3
        assert ends.grad[k].item() == pytest.approx(slope, rel=0.03, abs=1e-3)


def test_an_end_moves_outwards_as_long_as_the_network_knows_more_than_what_stands_beyond_it():
    """d/d lambda of reconstruction and prior are plain losses too: those of two fixed guesses.

    Beyond the data's end every value is as likely as any other, beyond noise x is standard normal.
    """
    x, noise = data(40_000), Noise.of(4, 40_000)
    ends = torch.tensor([-1.0, 2.0], requires_grad=True)
    follow_the_bound(ends, PROCESS, predict, x, noise).mean().backward()
    values = PROCESS.encode(torch.arange(LEVELS)[:, None].expand(-1, 6)).double()[:, 0]

    def plain(end: float, guess) -> torch.Tensor:
        level = Level.at(torch.tensor([end]), PROCESS).over(x)
        z = PROCESS.corrupt(x, level, noise)
        return level.snr.flatten()[0] * (x - guess(z, level)).square().mean() / 2

    def of_values(z, level):
        log_p = (
            -level.snr[..., None] / 2 * (z[..., None] / level.share.sqrt()[..., None] - values) ** 2
        )
        return log_p.softmax(-1) @ values

    network = lambda z, level: predict(z, level).x  # noqa: E731
    expected = [
        plain(-1.0, lambda z, level: level.share.sqrt() * z) - plain(-1.0, network),
        plain(2.0, network) - plain(2.0, of_values),
    ]
    torch.testing.assert_close(ends.grad, torch.stack(expected), rtol=0.03, atol=3e-3)


@pytest.mark.parametrize("end", [-2.0, 1.0, 5.0])
def test_slopes_of_the_boundary_are_those_of_its_terms(end):
    """The process's own against what differentiation finds: of the prior each, else the mean."""
    x, noise = data(30_000), Noise.of(6, 30_000)
    level = Level.at(torch.tensor([end]), PROCESS).over(x)
    own = PROCESS.boundary_slopes(x, level, level, noise)
    found = Process.boundary_slopes(PROCESS, x, level, level, noise)
    torch.testing.assert_close(own[0], found[0])
    error = float((own[1] - found[1]).std()) / 30_000**0.5
    assert float((own[1] - found[1]).mean()) == pytest.approx(0, abs=4 * error)
    near = (0.999 * end, 1.001 * end)
    below, above = (
        PROCESS.reconstruction(x, Level.at(torch.tensor([at]), PROCESS).over(x), noise).mean()
        for at in near
    )
    slope = float(above - below) / (near[1] - near[0])
    assert float(found[1].mean()) == pytest.approx(slope, rel=1e-3)


class Scale(nn.Module):
    """A network of one weight, and labels it does not read."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(-0.3))

    def forward(self, z, log_snr, cond):
        assert cond is None or len(cond) == len(z) == len(log_snr)
        return self.weight * z


@pytest.mark.parametrize("weighting", [Elbo(), Sigmoid()])
def test_a_model_moves_its_ends_by_the_bound_alone(weighting):
    """Whatever the weighting; the loss's value and the network's gradient are what they were."""

    def model(schedule):
        objective = Objective.prepared(PROCESS, schedule, weighting, Stratified())
        return Diffusion(objective, Scale())

    x, cond, noise = torch.arange(64 * 6).reshape(64, 6) % LEVELS, torch.zeros(64), Noise.of(1, 64)
    moving, still = model(learned()), model(Learned(of=BASE))
    losses = {name: one(x, cond, noise) for name, one in {"moving": moving, "still": still}.items()}
    for one in losses.values():
        one.loss.backward()
    torch.testing.assert_close(losses["moving"].loss, losses["still"].loss)
    torch.testing.assert_close(moving.denoiser.weight.grad, still.denoiser.weight.grad)

    ends = moving.schedule.learned_ends
    some = slice(None, None, 8)
    term = follow_the_bound(
        ends, PROCESS, moving.predict, moving.encode(x)[some], noise.select(some)
    )
    (expected,) = torch.autograd.grad(term.mean(), moving.schedule.moved)
    torch.testing.assert_close(moving.schedule.moved.grad, expected)
    assert (expected != 0).all()


@pytest.mark.parametrize("normaliser", [BatchMean(), UnitMean()])
@pytest.mark.parametrize("size", [1, 3, 8, 20])
@pytest.mark.parametrize("pairs", [False, True])
def test_parts_of_a_batch_move_them_as_the_whole(normaliser, size, pairs):
    """Micro batches of any size: the same examples are looked at, and count the same."""
    times = Antithetic() if pairs else Stratified()
    objective = Objective.prepared(PROCESS, learned(), Elbo(), times, normaliser=normaliser)
    model = Diffusion(objective, Scale())
    x, noise = torch.arange(64 * 6).reshape(64, 6) % LEVELS, Noise.of(1, 64)
    noise = noise.in_pairs() if pairs else noise
    model(x, None, noise).loss.backward()
    whole, model.schedule.moved.grad = model.schedule.moved.grad.clone(), None
    shares = normaliser.shares(torch.full((64,), 6), lambda value: value)
    for start in range(0, 64, size):
        part = slice(start, start + size)
        model(x[part], None, noise.select(part), shares=shares[part]).loss.backward()
    torch.testing.assert_close(model.schedule.moved.grad, whole)


def test_every_eighth_example_is_looked_at():
    for noise in (
        Noise.of(1, 21),
        Noise.of(1, 40).in_pairs(),
        Noise.of(1, 64).select(slice(9, 15)),
    ):
        rows, counts = looked_at_the_ends(noise)
        place = noise.positions if noise.mirrored is None else 2 * noise.positions + noise.mirrored
        assert len(rows) == -(-len(noise) // 8) and set(counts.tolist()) <= {0.0, 8.0}
        assert sorted(rows[counts > 0].tolist()) == (place % 8 == 0).nonzero().flatten().tolist()


def test_is_refused_where_it_means_nothing():
    masked = Masked().bind(DataSpec((6,), levels=4))
    with pytest.raises(IncompatibleError, match="no gradient"):
        Objective.prepared(masked, learned(), Elbo(), Stratified())
    with pytest.raises(ValueError, match="no finite ends to begin with"):
        Learned(of=VPCosine(eps=0.0), learn_ends=True)
    with pytest.raises(ValueError, match="learned already"):
        Learned(of=learned())


def test_ends_that_nothing_trains_are_refused():
    class Named(VPCosine):
        learned_ends = torch.tensor([-3.0, 4.0])

    with pytest.raises(
        IncompatibleError, match=r"schedule Named is learned: .* no torch.nn.Module"
    ):
        Objective.prepared(PROCESS, Named(), Elbo(), Stratified())


@pytest.fixture
def run(tmp_path):
    """A run whose ends have moved."""
    torch.set_default_dtype(torch.float32)
    of = {"name": "vp-cosine", "log_snr_max": 6.0}
    schedule = {"name": "learned", "of": of, "knots": 4, "learn_ends": True}
    options = {"weighting": "sigmoid", "schedule": schedule, "train.learning_rate": 0.1}
    config = load_config(tiny_config("gaussian", steps=4), options)
    train(config, tmp_path / "run", without={"console", "tensorboard"})
    return tmp_path / "run"


def test_an_export_walks_the_path_that_was_learned(run, tmp_path):
    """Its config says what the schedule learned; one that does not is refused."""
    trained = er.load_run(run).model.schedule
    export_run(run, "diffusers", tmp_path / "out")
    pipeline = ElbowroomPipeline.from_pretrained(str(tmp_path / "out"))
    t = torch.linspace(0, 1, 9, dtype=torch.float64)
    assert torch.equal(pipeline.scheduler.schedule.log_snr(t), trained.log_snr(t))
    assert trained.moved.all() and trained.shares.all()
    said = tmp_path / "out" / "scheduler" / "scheduler_config.json"
    record = json.loads(said.read_text())
    for wrong in ({}, {"shares": [0.0] * 4}, {**record["learned"], "moved": [float("nan")] * 2}):
        said.write_text(json.dumps({**record, "learned": wrong}))
        with pytest.raises(ElbowroomError, match="schedule"):
            ElbowroomPipeline.from_pretrained(str(tmp_path / "out"))


def test_another_schedule_may_be_walked_and_says_what_was_learned(run):
    """Overrides replace it for sampling; a warning names the ends that training moved it to."""
    ends = [float(end) for end in er.load_run(run).model.schedule.learned_ends]
    other = ("schedule={name: vp-cosine, log_snr_max: 9.0}",)
    model = er.load_run(run, other).model
    assert model.trained_ends == pytest.approx(ends) and model.schedule.learned_ends is None
    with pytest.warns(UserWarning, match=f"trained on {ends[0]:.4g} to {ends[1]:.4g}"):
        er.sample(model, 2)


def test_what_is_logged_follows_the_ends():
    """The boundary terms in the log are those between the ends of that moment."""
    torch.set_default_dtype(torch.float32)
    of = {"name": "vp-cosine", "log_snr_max": 6.0}
    schedule = {"name": "learned", "of": of, "learn_ends": True}
    config = load_config(tiny_config("gaussian"), {"weighting": "sigmoid", "schedule": schedule})
    parts = build_parts(config)
    training = Training(model(parts, CPU), parts.data, config.train, seed=0, ranks=Ranks(CPU))
    before = training.window.boundary
    training.model.schedule.moved.data.copy_(torch.tensor([0.5, -0.5]))
    logged = training.moved_ends()
    training.feed.close()
    ends = [logged["log_snr_min"], logged["log_snr_max"]]
    assert ends == pytest.approx(training.model.schedule.learned_ends.tolist())
    due = boundary(training.model, parts.data.split("train"), CPU)
    assert training.window.boundary == due and due > before + 0.1


def test_its_cost_is_counted(tmp_path):
    torch.set_default_dtype(torch.float32)
    schedule = "{name: learned, of: {name: vp-cosine, log_snr_max: 6.0}, learn_ends: true}"
    asked = ("process=gaussian", "weighting=sigmoid", f"schedule={schedule}")
    ran = elbowroom("cost", "digits", "data.size=4", "denoiser.channels=8", *asked, "--json")
    assert ran.code == 0, ran.err


def test_a_run_moves_its_ends_and_resumes_exactly(tmp_path):
    """The log says where they are and whether the weighting is a bound between them."""
    torch.set_default_dtype(torch.float32)
    of = {"name": "vp-cosine", "log_snr_max": 6.0}
    schedule = {"name": "learned", "of": of, "knots": 4, "learn_ends": True}
    config = load_config(
        tiny_config("gaussian", steps=9, save_every=3, keep=9, micro_batch=4, evaluate_every=4),
        {"weighting": "sigmoid", "schedule": schedule},
    )
    last, resumed = trained_and_cut(config, tmp_path)
    assert same(last, resumed)
    moved = [t for name, t in tensors(last).items() if name.endswith("learned_schedule.moved")]
    assert moved and all((t != 0).all() for t in moved)
    rows = [json.loads(line) for line in (tmp_path / "whole" / "log.jsonl").open()]
    logged = [row for row in rows if "log_snr_max" in row]
    assert len(logged) == 3 and logged[-1]["is_bound"] == 1
    assert logged[-1]["log_snr_max"] != logged[0]["log_snr_max"]
