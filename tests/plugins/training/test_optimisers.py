"""Optimisers in training: laws, a NaN at some step, resume, what is refused."""

from __future__ import annotations

import attrs
import pytest
import torch
from elbowroom import (
    ElbowroomError,
    IncompatibleError,
    Optimiser,
    Rates,
    Weights,
    assemble,
    load_config,
)
from elbowroom.contracts.denoiser import hidden_weights
from elbowroom.plugins.conformance import check_optimiser
from elbowroom.plugins.training.muon import Muon, OrthogonalSteps, polar
from elbowroom.plugins.training.optimiser import AdamW
from elbowroom.plugins.training.ranks import Ranks
from elbowroom.plugins.training.rate_schedule import Constant, Cosine
from elbowroom.plugins.training.run import resume, train
from elbowroom.plugins.training.step import check_sharding
from elbowroom.plugins.training.updates import Updates
from hypothesis import given, settings, strategies as st

from tests.helpers.tiny_run import found, same, tiny_config

HERE = "tests.plugins.training.test_optimisers"
QUIET = frozenset({"console", "tensorboard"})


@attrs.frozen
class Plain(Optimiser):
    """An optimiser of another author: torch's, unfused, with momentum and a counter."""

    def build(self, weights: Weights, rates: Rates) -> list[torch.optim.Optimizer]:
        rate = rates.learning_rate
        return [
            torch.optim.SGD(weights.hidden, lr=10 * rate, momentum=0.9),
            torch.optim.Adam(weights.other, lr=rate, fused=False, foreach=True),
        ]


OPTIMISERS = [AdamW(), Muon(), Muon(rate=3.0, momentum=0.5, nesterov=False), Plain()]


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=repr)
def test_built_in_optimisers_keep_the_laws(optimiser):
    check_optimiser(optimiser)


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=repr)
@pytest.mark.parametrize("bad", [0, 3])
def test_an_update_is_skipped_where_the_flag_is_up(optimiser, bad):
    """With a NaN at update ``bad`` and the flag up, weights and state stay as they were."""
    torch.manual_seed(0)
    network = torch.nn.ModuleList([torch.nn.Linear(5, 5), torch.nn.Linear(5, 5)])
    names = {id(p): name for name, p in network.named_parameters()}
    weights = Weights(list(network.parameters()), [one.weight for one in network])
    updates = Updates(optimiser.build(weights, Rates(1e-2, (0.9, 0.99), 0.1)), Constant(), 0, 9)

    def update(n: int, scale: float) -> None:
        x = torch.linspace(-1, 1, 20).reshape(4, 5)
        (scale * network[1](network[0](x).tanh()).square().mean()).backward()
        updates.step(n, torch.tensor(float(scale != scale)))  # NaN

    for n in range(bad):
        update(n, 1.0)
    before = {k: t.detach().clone() for k, t in network.state_dict().items()}
    held = {k: t.clone() for k, t in updates.tensors(names).items() if t.ndim}
    update(bad, float("nan"))
    assert all(torch.equal(before[k], t) for k, t in network.state_dict().items())
    for key, tensor in updates.tensors(names).items():
        if tensor.ndim:
            assert torch.equal(tensor, held.get(key, torch.zeros_like(tensor)))
    update(bad + 1, 1.0)
    assert all(t.isfinite().all() for t in network.state_dict().values())


@pytest.mark.parametrize("name", ["adamw", "muon", f"{HERE}:Plain"])
def test_a_run_is_resumed_bit_by_bit_under_every_optimiser(tmp_path, name):
    """A run whose end is taken away comes to the same end again."""
    config = load_config(tiny_config(), {"train.optimiser": name})
    train(config, tmp_path / "whole", without=QUIET)
    train(config, tmp_path / "again", without=QUIET)
    assert same(found(tmp_path / "whole")[-1], found(tmp_path / "again")[-1])
    for step in found(tmp_path / "again")[1:]:
        for file in step.path.iterdir():
            file.unlink()
        step.path.rmdir()
    resume(tmp_path / "again", without=QUIET, trust=True)
    assert same(found(tmp_path / "whole")[-1], found(tmp_path / "again")[-1])


def test_muon_moves_weights_of_hidden_layers_only():
    """Its group holds the blocks' matrices and filters; embeddings, stem and head are AdamW's."""
    for denoiser, lists in (("uvit", {"blocks", "way_in", "way_out"}), ("dit", {"blocks"})):
        network = assemble("digits", denoiser=denoiser).denoiser
        hidden = {id(p) for p in hidden_weights(network)}
        names = {name for name, p in network.named_parameters() if id(p) in hidden}
        assert {word for name in names for word in name.split(".")} >= lists
        assert all(lists & set(name.split(".")) and name.endswith(".weight") for name in names)
        muon, adamw = Muon().build(
            Weights(list(network.parameters()), hidden_weights(network)),
            Rates(1e-3, (0.9, 0.99), 0.0),
        )
        assert {id(p) for group in muon.param_groups for p in group["params"]} == hidden
        others = [p for group in adamw.param_groups for p in group["params"]]
        assert not hidden & {id(p) for p in others}


SHAPES = [(8, 12), (12, 8), (8, 8)]


@pytest.mark.parametrize("nesterov", [True, False])
def test_matrices_move_as_torchs_own_muon_moves_them(nesterov):
    """Several steps, matrices of one shape and of others together, with momentum and decay."""
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in [*SHAPES, *SHAPES]]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    said = {"lr": 0.1, "weight_decay": 0.2, "momentum": 0.9, "nesterov": nesterov}
    pair = (
        OrthogonalSteps(ours, rounds=5, **said),
        torch.optim.Muon(theirs, ns_steps=5, adjust_lr_fn="match_rms_adamw", **said),
    )
    for _ in range(4):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        for one in pair:
            one.step()
    for p, q in zip(ours, theirs, strict=True):
        assert torch.allclose(p, q, atol=2e-3), (p - q).abs().max()  # bfloat16, summed in turn


def test_filters_move_as_the_matrix_they_are():
    """[out, in, *kernel] as [out, in * kernel]; a weight without a gradient stays."""
    torch.manual_seed(0)
    filters = torch.nn.Parameter(torch.randn(6, 4, 3, 3))
    matrix = torch.nn.Parameter(filters.detach().flatten(1).clone())
    idle = torch.nn.Parameter(torch.ones(6, 4, 3, 3))
    filters.grad = torch.randn_like(filters)
    matrix.grad = filters.grad.flatten(1)
    for held in ([filters, idle], [matrix]):
        OrthogonalSteps(
            held, lr=0.1, weight_decay=0.2, momentum=0.9, nesterov=True, rounds=5
        ).step()
    assert torch.equal(filters.flatten(1), matrix)
    assert torch.equal(idle, torch.ones_like(idle))


def test_vectors_cannot_move_along_orthogonal_matrices():
    with pytest.raises(ValueError, match=r"not for \[\(3,\)\]"):
        OrthogonalSteps(
            [torch.nn.Parameter(torch.zeros(3))],
            **{"lr": 0.1, "weight_decay": 0.0, "momentum": 0.9, "nesterov": True, "rounds": 5},
        )


@settings(max_examples=40)
@given(
    n=st.integers(1, 12), m=st.integers(1, 12), scale=st.floats(1e-3, 1e3), seed=st.integers(0, 99)
)
def test_a_polar_factor_has_the_gradients_directions_and_even_lengths(n, m, scale, seed):
    """polar(U S V^T) = U S' V^T with S' near 1, whatever the size of S, short or tall."""
    generator = torch.Generator().manual_seed(seed)
    u, s, v = torch.linalg.svd(torch.randn(n, m, generator=generator), full_matrices=False)
    even = s.clamp(min=0.1 * s.max())  # five rounds lift what is not below a tenth
    found = polar(scale * (u * even) @ v.unsqueeze(0), 5)[0]
    core = u.T @ found @ v.T
    lengths = core.diagonal()
    assert ((lengths > 0.5) & (lengths < 1.4)).all(), lengths
    assert (core - lengths.diag()).abs().max() < 0.1


def test_muon_needs_matrices_to_move():
    with pytest.raises(IncompatibleError, match="names no weights of hidden layers"):
        Muon().build(Weights([torch.nn.Parameter(torch.zeros(3))]), Rates(1e-3, (0.0, 0.0), 0.0))


def test_optimisers_are_chosen_in_a_config():
    """By one word, with options; a wrong one is refused."""
    config = load_config("digits", ("train.optimiser={name: muon, rate: 2}", "train.rate=constant"))
    assert config.train.optimiser.build() == Muon(rate=2.0)
    assert config.train.rate.build() == Constant()
    usual = load_config("digits").train
    assert (usual.optimiser.build(), usual.rate.build()) == (AdamW(), Cosine())
    with pytest.raises(ElbowroomError, match=r"unknown optimiser 'moun' \(did you mean 'muon'"):
        load_config("digits", ("train.optimiser=moun",))


def test_muon_is_refused_where_matrices_are_split():
    """Before anything is written; on one rank, with whole copies, or by AdamW it trains."""
    changes = {"train.optimiser": "muon", "train.parallel": "fsdp"}
    options = load_config(tiny_config(), changes).train
    several = attrs.evolve(Ranks(torch.device("cpu")), world=2)
    with pytest.raises(
        IncompatibleError, match="fsdp shards matrices, which optimiser muon cannot"
    ):
        check_sharding(options, several)
    check_sharding(options, Ranks(torch.device("cpu")))
    check_sharding(attrs.evolve(options, parallel="ddp"), several)
    check_sharding(attrs.evolve(options, optimiser=tiny_config().train.optimiser), several)
