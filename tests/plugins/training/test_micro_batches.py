"""Micro batches: the gradient of the whole batch, with room for a part of it."""

from __future__ import annotations

import attrs
import pytest
import torch
from elbowroom import Normaliser
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.config.sections import load_config
from elbowroom.errors import IncompatibleError
from elbowroom.plugins.training.ranks import Ranks, replicated, sharded
from elbowroom.plugins.training.run import resume, train
from elbowroom.plugins.training.step import Training
from elbowroom.runs.folder import RunFolder

from tests.helpers.tiny_run import found, tiny_config

QUIET = {"console", "tensorboard"}
CPU = Ranks(torch.device("cpu"))


def config(process="masked", normalise="batch", **options):
    """No dropout: torch draws its masks for all examples of a call together."""
    changes = {"denoiser.dropout": 0.0, "objective.normalise": normalise}
    return load_config(tiny_config(process, **options), changes)


def training(config):
    parts = build_parts(config)
    return Training(build_model(parts), parts.data, config.train, seed=1, ranks=CPU)


def gradients(config, n=3):
    """Losses and gradients of one update, in double precision."""
    with_double = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        one = training(config)
        losses = one.gradients(n)
        one.batches.close()
        return losses, {name: p.grad for name, p in one.model.named_parameters()}
    finally:
        torch.set_default_dtype(with_double)


@pytest.mark.parametrize("micro", [1, 3, 4])
@pytest.mark.parametrize("normalise", ["batch", "units"])
@pytest.mark.parametrize("process", ["masked", "gaussian"])
def test_gradients_and_losses_are_those_of_the_whole_batch(process, normalise, micro):
    """Each example keeps its time, its noise and its share in the loss, in parts of any size."""
    whole, wanted = gradients(config(process, normalise))
    parts, got = gradients(config(process, normalise, micro_batch=micro))
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
    assert not parts.loss.requires_grad
    for name in ("loss", "per_example", "elbo"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-9, atol=0)
    for name in ("log_snr", "time", "density"):
        assert torch.equal(getattr(parts, name), getattr(whole, name))


def test_parts_are_unequal_in_units_where_it_matters():
    """A mean of the parts' means would be another loss: the test above can fail."""
    one = training(config())
    x, _, noise = one.batch(3)
    one.batches.close()
    units = one.model.objective.units(one.model.encode(x), noise)
    assert units[:4].sum() != units[4:].sum()


def test_a_weighting_with_parameters_learns_the_same():
    """Its penalty belongs to the examples, and is shared out like their losses."""
    learned = {"weighting": "tests.helpers.tiny_run:Learned"}
    _, wanted = gradients(load_config(config("gaussian"), learned))
    _, got = gradients(load_config(config("gaussian", micro_batch=3), learned))
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
    assert got["weighting.u"].abs().min() > 0


def test_no_more_examples_than_asked_are_in_the_network_at_once():
    """Which is what saves the memory."""
    one, seen = training(config(micro_batch=3)), []
    one.model.denoiser.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    one.step(0)
    one.batches.close()
    assert seen == [3, 3, 2]


def test_a_run_logs_and_learns_as_with_whole_batches(tmp_path):
    """Loss, bound, gradient norm, clipping and weights agree up to rounding."""
    options = {"normalise": "units", "clip_norm": 0.05, "log_every": 2, "evaluate_every": 6}
    for name, micro in (("whole", None), ("parts", 3)):
        train(config(micro_batch=micro, **options), tmp_path / name, without=QUIET)
    for a, b in zip(*(RunFolder(tmp_path / n).rows() for n in ("whole", "parts")), strict=True):
        for key in a.keys() & {"loss", "bits_per_dim", "gradient_norm", "validation/bits_per_dim"}:
            assert b[key] == pytest.approx(a[key], rel=1e-4)
    whole, parts = (found(tmp_path / n)[-1].read("model") for n in ("whole", "parts"))
    torch.testing.assert_close(parts, whole, rtol=2e-3, atol=2e-4)


def test_a_resumed_run_may_have_other_micro_batches(tmp_path):
    """Another machine has another memory; the batch stays what it was."""
    train(config(steps=2), tmp_path / "run", without=QUIET)
    resumed = resume(tmp_path / "run", ["train.micro_batch=2", "train.steps=4"], without=QUIET)
    assert resumed.step == 4
    assert RunFolder(tmp_path / "run").config().train.micro_batch == 2


@pytest.fixture
def group(tmp_path):
    """A process group of one: enough for DDP and FSDP2 to do their work."""
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_replicas_exchange_gradients_once_an_update(group):
    """With the last micro batch, however many there are."""
    counts = []
    for micro in (None, 2):
        one, sent = training(config(micro_batch=micro)), []
        one.distributed = replicated(one.model)

        def count(_, bucket, sent=sent):
            sent.append(bucket.index())
            done = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

        one.distributed.register_comm_hook(None, count)
        one.gradients(0)
        one.gradients(1)
        one.batches.close()
        counts.append(len(sent))
    assert counts[0] == counts[1] > 0


def test_shards_get_their_gradients_with_the_last_micro_batch(group):
    """Before it, none of them has one."""
    one, seen = training(config(micro_batch=3)), []
    one.distributed = sharded(one.model, one.model.denoiser, CPU)
    shards = list(one.model.parameters())
    look = lambda *_: seen.append(all(p.grad is None for p in shards))  # noqa: E731
    one.model.denoiser.register_forward_pre_hook(look)
    one.gradients(0)
    one.batches.close()
    assert seen == [True] * 3
    assert all(p.grad is not None for p in shards)


@attrs.frozen
class Largest(Normaliser):
    """Only the worst example counts: no sum over examples."""

    def __call__(self, losses, units, mean_over_ranks):
        return losses.max()


def test_a_normaliser_that_is_no_sum_is_refused(tmp_path):
    """Said before anything is written."""
    made = load_config(tiny_config(micro_batch=2), {"objective.normalise": Largest()})
    with pytest.raises(IncompatibleError, match=r"micro_batch: normaliser Largest is not linear"):
        train(made, tmp_path / "run", without=QUIET)
    assert not (tmp_path / "run").exists()
