"""Positions with their own numbers of values (``DataSpec.sizes``) in every process."""

import json
import math

import attrs
import pytest
import torch
from elbowroom import (
    DataSpec,
    IncompatibleError,
    Level,
    Noise,
    Signature,
    assemble,
    installed,
    sample,
)
from elbowroom.contracts.dataset import Part
from elbowroom.errors import DataError
from elbowroom.objective import bound
from elbowroom.plugins.conformance.oracle import TableOracle, natural_schedule_of
from elbowroom.plugins.conformance.process import check_process
from elbowroom.plugins.denoisers.dit import DiT
from elbowroom.plugins.gaussian.discretised import log_probability

SIZES = DataSpec((4,), 5, sizes=(5, 2, 3, 4))
TABLE = TableOracle(
    torch.tensor([[0, 1], [2, 0], [1, 1]]), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
)


def process(name, **options):
    return installed().find("process", name).load()(**options)


@pytest.mark.parametrize("name", ["masked", "gaussian"])
def test_the_laws_of_a_process_hold_with_sizes(name):
    """Round trip, corruption, bound = entropy, reverse: as with one number of values."""
    check_process(process(name), data=DataSpec((2,), 3, sizes=(3, 2)), table=TABLE)


def test_equal_sizes_are_no_sizes():
    """The same spec, so the same computation, bit for bit."""
    assert DataSpec((4,), 5, sizes=(5, 5, 5, 5)) == DataSpec((4,), 5)
    assert DataSpec((4,), 5, sizes=(5, 5, 5, 5)).sizes is None


def test_a_spec_is_restored_from_its_record():
    parts = (Part("age", 0, 1, ("", "1..3"), ((1.0, 3.0),), 2), Part("unit", 1, 1, ("kg",)))
    spec = attrs.evolve(SIZES, parts=parts)
    back = DataSpec.recorded(json.loads(json.dumps(attrs.asdict(spec))))
    assert back == spec and back.parts == parts and spec.fits(back)
    old = {"shape": [4], "levels": 5, "classes": None}
    assert DataSpec.recorded(old) == DataSpec((4,), 5)


def test_data_of_other_sizes_do_not_fit():
    assert not SIZES.fits(DataSpec((4,), 5)) and not SIZES.fits(
        DataSpec((4,), 5, sizes=(5, 2, 4, 3))
    )
    renamed = attrs.evolve(SIZES, parts=(Part("a", 0, 1, tuple("abcde")),))
    other = attrs.evolve(SIZES, parts=(Part("a", 0, 1, tuple("abcdf")),))
    assert renamed.fits(SIZES) and not renamed.fits(other)


@pytest.mark.parametrize("sizes", [(5, 2, 3), (5, 1, 3, 4), (4, 2, 3, 4), (6, 2, 3, 4)])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="sizes"):
        DataSpec((4,), 5, sizes=sizes)


@pytest.mark.parametrize("name", ["masked", "gaussian"])
def test_a_value_out_of_range_is_named_with_its_position(name):
    with pytest.raises(DataError, match=r"values 0 to 2 at position 1; allowed are 0 to 1"):
        process(name).bind(SIZES).encode(torch.tensor([[0, 2, 0, 0], [0, 0, 0, 0]]))


@pytest.mark.parametrize("name", ["masked", "gaussian"])
def test_the_uniform_baseline_costs_the_sum_of_log_sizes(name):
    """A network whose output is zero knows nothing: log V_n at each position."""
    made = process(name).bind(SIZES)
    schedule = natural_schedule_of(made)
    out = torch.zeros(4000, 4, 5)
    every = torch.cartesian_prod(*(torch.arange(v) for v in SIZES.sizes))
    x = made.encode(every[torch.arange(4000) % len(every)])
    order = torch.randperm(4000, generator=torch.Generator().manual_seed(0))
    terms = bound(
        made, schedule, lambda z, level: made.read(out, z, level), x[order], Noise.of(0, 4000)
    )
    due, error = sum(map(math.log, SIZES.sizes)), float(terms.nats.std()) / math.sqrt(4000)
    assert abs(float(terms.nats.mean()) - due) < 4 * error + 0.02


def test_impossible_values_have_no_probability_and_gradients_are_finite():
    made = process("masked").bind(SIZES)
    output = torch.randn(64, 4, 5, requires_grad=True)
    x = torch.stack([torch.arange(64) % v for v in SIZES.sizes], 1)
    level = Level.of(torch.full((64,), 0.9), natural_schedule_of(made), made).over(x)
    z = made.corrupt(x, level, Noise.of(0, 64))
    prediction = made.read(output, z, level)
    p = prediction.logits.softmax(-1)
    assert torch.allclose(p.sum(-1), torch.ones(64, 4))
    allowed = torch.arange(5) < torch.tensor(SIZES.sizes)[:, None]
    assert (p[:, ~allowed] == 0).all() and (p[:, allowed] > 0).all()
    made.plain_loss(x, z, prediction, level).sum().backward()
    assert output.grad.isfinite().all() and (output.grad[:, ~allowed] == 0).all()


def test_gradients_of_gaussian_levels_are_finite():
    made = process("gaussian").bind(SIZES)
    output = torch.randn(64, 4, 5, requires_grad=True)
    x = made.encode(torch.stack([torch.arange(64) % v for v in SIZES.sizes], 1))
    level = Level.of(torch.linspace(0, 1, 64), natural_schedule_of(made), made).over(x)
    z = made.corrupt(x, level, Noise.of(0, 64))
    prediction = made.read(output, z, level)
    assert (prediction.x.abs() <= 1).all()
    made.plain_loss(x, z, prediction, level).sum().backward()
    assert output.grad.isfinite().all()


def test_discretised_likelihoods_equal_those_of_each_position_alone():
    made = process("gaussian").bind(SIZES)
    schedule = natural_schedule_of(made)
    z = torch.randn(32, 4, dtype=torch.float64)
    level = Level.of(torch.linspace(0, 1, 32), schedule, made).over(z)
    k = torch.stack([torch.arange(32) % v for v in SIZES.sizes], 1)
    whole = log_probability(z, k, level, SIZES.counts())
    for n, v in enumerate(SIZES.sizes):
        alone = log_probability(z[:, n : n + 1], k[:, n : n + 1], level, v)
        assert torch.allclose(whole[:, n : n + 1], alone, atol=1e-12)
    total = torch.stack(
        [log_probability(z, torch.full_like(k, j), level, SIZES.counts()) for j in range(5)]
    )
    possible = torch.arange(5)[:, None, None] < torch.tensor(SIZES.sizes)
    assert torch.allclose(torch.where(possible, total.exp(), 0).sum(0), torch.ones_like(z))


@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        ("masked", "ancestral"),
        ("masked", "first-hitting"),
        ("masked", "confidence"),
        ("masked", "corrected"),
        ("masked", {"name": "top-p", "p": 0.8}),
        ("gaussian", "ancestral"),
        ("gaussian", "ddim"),
        ("gaussian", "heun"),
    ],
)
def test_samples_have_possible_values(name, sampler):
    """Also those of an untrained network, by every sampler."""
    torch.manual_seed(0)
    denoiser = {"name": "dit", "width": 16, "depth": 1}
    model = assemble({"process": name, "denoiser": denoiser, "sampler": sampler}, data=SIZES)
    for parameter in model.denoiser.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    x = sample(model, 200).x
    assert (x < torch.tensor(SIZES.sizes)).all() and (x >= 0).all()


def test_every_position_has_its_own_embedding_and_head():
    """A value of one position says nothing of the same number at another."""
    signature = Signature((3,), 5, 4, None, needs_level=False, sizes=(4, 2, 3))
    net = DiT(signature, width=16, depth=1)
    rows = net.values.embedding.first + torch.minimum(
        torch.tensor([[3, 1, 2], [4, 4, 4]]), net.values.embedding.last
    )
    assert rows.tolist() == [[3, 6, 10], [4, 7, 11]]
    assert len(net.values.embedding.table.weight) == 12
    assert net(torch.tensor([[4, 0, 4]]), None, None).shape == (1, 3, 4)
    real = DiT(attrs.evolve(signature, in_states=None, needs_level=True), width=16, depth=1)
    assert real(torch.randn(2, 3), torch.zeros(2), None).shape == (2, 3, 4)


def test_the_uniform_process_refuses_sizes():
    with pytest.raises(IncompatibleError, match="uniform needs"):
        process("uniform").bind(SIZES)
