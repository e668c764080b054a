"""The small parts of training, each on its own."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import warnings

import pytest
import torch
from elbowroom.contracts.dataset import Batch, Split
from elbowroom.contracts.observer import RunEvent
from elbowroom.plugins.training.batches import BatchLoader, with_labels_dropped
from elbowroom.plugins.training.ema import EMA
from elbowroom.plugins.training.non_finite import NonFiniteGuard, numbers
from elbowroom.plugins.training.observers import Observers
from elbowroom.plugins.training.ranks import Ranks, blocks
from elbowroom.plugins.training.rate_schedule import Constant, Cosine, WarmupStableDecay
from elbowroom.plugins.training.signals import Interrupt
from elbowroom.plugins.training.step import clip, dropout_seed, gradient_norm
from elbowroom.randomness.generators import seed_generators
from elbowroom.randomness.noise import Noise
from hypothesis import given, strategies as st
from torch import nn

CPU = Ranks(torch.device("cpu"))


@pytest.mark.parametrize(
    ("n", "rate"),
    [
        (0, 0.0),
        (1, 2e-6),
        (50, 1e-4),
        (1000, 0.00019999990006027836),
        (1_000_000, 0.00010000785437434463),
        (2_000_000, 0.0),
    ],
)
def test_the_learning_rate_has_the_papers_values(n, rate):
    """Warm-up over 100 steps to 2e-4, then a cosine to zero at two million."""
    assert Cosine().rate(2e-4, n, 100, 2_000_000) == pytest.approx(rate, rel=1e-12, abs=1e-30)


@pytest.mark.parametrize("schedule", [Cosine(), Constant(), WarmupStableDecay(0.3)])
@given(st.integers(0, 500), st.integers(0, 300), st.integers(1, 400), st.floats(1e-8, 1.0))
def test_the_learning_rate_stays_between_zero_and_its_base(schedule, n, warmup, steps, base):
    """Whatever the lengths, it never leaves [0, base] and rises before it falls."""
    rate = schedule.rate(base, n, warmup, steps)
    assert 0 <= rate <= base
    if n + 1 < warmup:
        assert rate <= schedule.rate(base, n + 1, warmup, steps)
    elif n >= warmup:
        assert rate >= schedule.rate(base, n + 1, warmup, steps)


def test_the_average_follows_its_formula():
    """Each update mixes with d = min(decay, (1 + n)/(10 + n))."""
    model = nn.Linear(3, 2)
    ema = EMA(model, 0.9)
    expected = {name: p.detach().clone() for name, p in model.named_parameters()}
    for n in range(120):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.ones_like(p) * (n + 1))
        ema.update(n)
        d = min(0.9, (1 + n) / (10 + n))
        for name, p in model.named_parameters():
            expected[name] = d * expected[name] + (1 - d) * p.detach()
    torch.testing.assert_close(ema.average, expected)


def test_without_warm_up_the_decay_is_constant():
    """The plain form of long runs."""
    assert EMA(nn.Linear(1, 1), 0.9999, warmup=False).decay_at(0) == 0.9999
    assert EMA(nn.Linear(1, 1), 0.9999).decay_at(0) == 0.1


def test_an_average_put_in_place_is_taken_out_bit_by_bit():
    """Evaluation changes neither the parameters nor the average."""
    model = nn.Linear(3, 2)
    ema = EMA(model, 0.5, warmup=False)
    with torch.no_grad():
        model.weight.add_(1 / 3)
    before, average = model.weight.detach().clone(), ema.average["weight"].clone()
    with contextlib.suppress(ZeroDivisionError), ema.applied():
        assert torch.equal(model.weight, average)
        _ = 1 / 0  # whatever happens inside
    assert torch.equal(model.weight, before)
    assert torch.equal(ema.average["weight"], average)


def test_the_guard_stops_every_update_from_the_first_bad_one():
    """On a device that is not asked each step, nothing after the fault changes a weight."""
    model = nn.Linear(2, 1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    guard = NonFiniteGuard(40, CPU)
    weights = []
    for n in range(4):
        loss = model(torch.ones(1, 2)).sum() * (math.nan if n == 2 else 1.0)
        loss.backward()
        optimiser.found_inf = guard.flag(loss, gradient_norm(list(model.parameters())))
        optimiser.step()
        optimiser.zero_grad()
        weights.append(model.weight.detach().clone())
    assert guard.first_bad() == 42
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[1], weights[2])
    assert torch.equal(weights[2], weights[3])
    assert weights[3].isfinite().all()
    assert optimiser.state[model.weight]["step"] == 2


def test_the_guard_sees_a_bad_gradient_behind_a_good_loss():
    """sqrt at zero: the loss is finite, its gradient is not."""
    x = nn.Parameter(torch.zeros(1))
    loss = x.sqrt().sum()
    loss.backward()
    guard = NonFiniteGuard(0, CPU)
    guard.flag(loss, gradient_norm([x]))
    assert loss.isfinite()
    assert guard.first_bad() == 0


def test_clipping_shortens_long_gradients_only():
    """The direction stays; a short gradient is not touched."""
    x = nn.Parameter(torch.zeros(2))
    x.grad = torch.tensor([3.0, 4.0])
    norm = gradient_norm([x])
    assert norm == 5
    clip([x], norm, 10.0)
    assert x.grad.tolist() == [3.0, 4.0]
    clip([x], norm, 1.0)
    torch.testing.assert_close(x.grad, torch.tensor([0.6, 0.8]))


def test_labels_are_dropped_as_often_as_asked_and_the_same_each_time():
    """The null class, one past the last, replaces the asked share of labels."""
    noise = Noise.of(3, 4000, step=7)
    labels = torch.arange(4000) % 10
    dropped = with_labels_dropped(labels, 0.25, 10, noise)
    share = (dropped == 10).double().mean()
    assert abs(share - 0.25) < 0.03  # four standard deviations
    assert torch.equal(dropped[dropped != 10], labels[dropped != 10])
    assert torch.equal(dropped, with_labels_dropped(labels, 0.25, 10, noise))
    part = noise.select(slice(100, 200))
    assert torch.equal(with_labels_dropped(labels[100:200], 0.25, 10, part), dropped[100:200])
    assert with_labels_dropped(labels, 0.0, 10, noise) is labels
    assert with_labels_dropped(None, 0.5, None, noise) is None


def test_dropout_has_its_own_seed_for_each_step_and_rank():
    """No two of them share torch's generator state."""
    seeds = {dropout_seed(s, n, r) for s in range(3) for n in range(50) for r in range(4)}
    assert len(seeds) == 600
    assert all(0 <= seed < 2**63 for seed in seeds)


class _Numbers(Split):
    """Each example is its own index."""

    def __len__(self) -> int:
        return 37

    def take(self, indices):
        return Batch(indices[:, None], indices)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_the_ranks_share_a_global_batch(world):
    """Put together, the parts of the ranks are the batch of one process, from any step on."""
    whole = BatchLoader(_Numbers(), 5, 8, CPU)
    parts = [
        BatchLoader(_Numbers(), 5, 8, Ranks(torch.device("cpu"), r, world)) for r in range(world)
    ]
    for step in (0, 1, 2, 9, 3):
        together = torch.cat([part(step).x for part in parts])
        assert torch.equal(together, whole(step).x)
    for feed in (whole, *parts):
        feed.close()


def test_signals_are_remembered_and_a_second_interrupt_stops_at_once():
    """SIGTERM and SIGINT ask; the second SIGINT raises; handlers come back afterwards."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert interrupt.signal is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.signal == "SIGTERM"
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_numbers_that_json_lacks_become_words():
    """A dump of non-finite losses is strict JSON."""
    assert numbers(torch.tensor([1.5, math.nan, math.inf])) == [1.5, "nan", "inf"]


def test_blocks_are_the_members_of_outermost_lists():
    """What is sharded one by one does not nest."""
    inner = nn.Sequential(nn.ModuleList([nn.Linear(1, 1)]))
    network = nn.ModuleDict({"a": nn.ModuleList([inner, nn.Linear(1, 1)]), "b": nn.Linear(1, 1)})
    assert blocks(network) == list(network["a"])


def test_an_observer_that_fails_is_left_out_and_the_others_go_on(tmp_path):
    """One warning, naming it; never a stopped run."""
    import pluggy
    from elbowroom.registry.hooks import Hooks, hookimpl

    class Broken:
        @hookimpl
        def step_logged(self, event):
            raise OSError("disk full")

    class Sound:
        def __init__(self):
            self.steps = []

        @hookimpl
        def step_logged(self, event):
            self.steps.append(event.step)

    manager, sound, muted = pluggy.PluginManager("elbowroom"), Sound(), Sound()
    manager.add_hookspecs(Hooks)
    manager.register(sound, "pkg/sound")
    manager.register(Broken(), "pkg/broken")
    manager.register(muted, "pkg/muted")
    observers = Observers(manager.hook, without={"muted"})
    with pytest.warns(UserWarning, match="pkg/broken failed in step_logged at step 1: .*disk full"):
        observers.notify("step_logged", RunEvent(tmp_path, 1, 5, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was said once
        observers.notify("step_logged", RunEvent(tmp_path, 2, 5, {}))
    assert sound.steps == [1, 2]
    assert muted.steps == []
    assert list(observers.failed) == ["pkg/broken"]


def test_an_observer_may_add_scalars_to_a_logged_step(tmp_path):
    """They are collected over observers; one that returns None adds nothing."""
    import pluggy
    from elbowroom.registry.hooks import Hooks, hookimpl

    class Adds:
        @hookimpl
        def step_scalars(self, event, model):
            return {"double": 2 * event.scalars["loss"], "model": model}

    class Silent:
        @hookimpl
        def step_scalars(self):
            return None

    manager = pluggy.PluginManager("elbowroom")
    manager.add_hookspecs(Hooks)
    manager.register(Adds(), "pkg/adds")
    manager.register(Silent(), "pkg/silent")
    event = RunEvent(tmp_path, 1, 5, {}, {"loss": 1.5})
    assert Observers(manager.hook).scalars(event, 7) == {"double": 3.0, "model": 7.0}


@pytest.mark.parametrize("error", [SystemExit(3), RuntimeError("no"), AssertionError()])
def test_an_observer_cannot_end_a_run(tmp_path, error):
    """Neither by exiting, nor where warnings are errors; the result says which failed."""
    import pluggy
    from elbowroom.registry.hooks import Hooks, hookimpl

    class Broken:
        @hookimpl
        def run_started(self, event):
            raise error

    manager = pluggy.PluginManager("elbowroom")
    manager.add_hookspecs(Hooks)
    manager.register(Broken(), "pkg/broken")
    observers = Observers(manager.hook)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        observers.notify("run_started", RunEvent(tmp_path, 0, 5, {}))
    assert type(error).__name__ in observers.failed["pkg/broken"]


def test_dropout_is_seeded_as_torch_seeds_it_and_nothing_is_kept():
    """The numbers of ``torch.manual_seed``, without its growing list of devices to seed later."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        expected, waiting = torch.rand(3), len(torch.cuda._queued_calls)
        seed_generators(7, CPU.device)
        assert torch.equal(torch.rand(3), expected)
        assert len(torch.cuda._queued_calls) == waiting


def test_what_an_observer_returns_at_the_end_is_a_remark_for_the_user(tmp_path):
    """Text alone: whatever else a hook returns says nothing."""
    import pluggy
    from elbowroom.registry.hooks import Hooks, hookimpl

    class Saying:
        def __init__(self, said):
            self.said = said

        @hookimpl
        def run_ended(self, event):
            return self.said

    manager = pluggy.PluginManager("elbowroom")
    manager.add_hookspecs(Hooks)
    for said in ("logs are in a drawer", None, 5):
        manager.register(Saying(said), f"pkg/{said}")
    observers = Observers(manager.hook)
    observers.notify("run_ended", RunEvent(tmp_path, 5, 5, {}, reason="finished"))
    assert observers.remarks == ["logs are in a drawer"]
    assert not observers.failed
