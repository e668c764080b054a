"""Precision and recall by manifolds of nearest neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from elbowroom.errors import IncompatibleError
from elbowroom.plugins.conformance import check_metric
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.metrics import precision_recall as module
from elbowroom.plugins.metrics.precision_recall import Manifold, PrecisionRecall, squared_distances

from tests.helpers.pictures import LINEAR, Linear, Pictures, pictures

DATA = Pictures()
NETWORK = Linear(DATA)
TRAIN = DATA.split("train").take(torch.arange(120)).x
TEST = DATA.split("test").take(torch.arange(60)).x
SAMPLES = pictures(50, seed=50)[0].flip(1)


def measured(samples, batch=17, **options):
    metric = PrecisionRecall(LINEAR, **options)
    metric.prepare(Subject(DATA, batch_size=13))
    for part in samples.split(batch):
        metric.update(part, None)
    return metric.compute()


def held(others, members, k):
    """By brute force, pair by pair: the share of ``others`` in the manifold of ``members``."""
    radii = [sorted(np.linalg.norm(members - one, axis=1))[k] for one in members]  # [0] is itself
    inside = [(np.linalg.norm(members - one, axis=1) <= radii).any() for one in others]
    return np.mean(inside)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_they_are_those_of_brute_force(k):
    """Of samples, and of the test split beside them."""
    found = measured(SAMPLES, k=k)
    train, test, samples = (NETWORK(x)[0].numpy() for x in (TRAIN, TEST, SAMPLES))
    assert 0 < found["recall"].value < 1
    assert found["precision"].value == pytest.approx(held(samples, train, k), abs=1e-12)
    assert found["recall"].value == pytest.approx(held(train, samples, k), abs=1e-12)
    assert found["precision"].floor == pytest.approx(held(test, train, k), abs=1e-12)
    assert found["recall"].floor == pytest.approx(held(train, test, k), abs=1e-12)


def test_a_set_has_precision_and_recall_one_against_itself():
    """Copies too lie in balls of no width, though sums are rounded."""
    found = measured(TRAIN)
    assert (found["precision"].value, found["recall"].value) == (1, 1)
    random = torch.Generator().manual_seed(0)
    few = 1e3 + torch.randn(50, 300, generator=random, dtype=torch.float64) / 3
    copies = few.repeat(5, 1)
    manifold = Manifold.of(copies, 3)
    assert manifold.radii.max() == 0
    assert manifold.holds(few).all()
    assert squared_distances(few, few).fill_diagonal_(1).min() > 0


def test_sets_far_apart_have_neither():
    """No ball reaches over."""
    random = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 40, 6, generator=random)
    assert not Manifold.of(a, 3).holds(b + 1000).any()
    assert not Manifold.of(b + 1000, 3).holds(a).any()


def test_a_generator_of_one_mode_is_precise_and_recalls_little():
    """Real pictures of one class of three, many times: nothing of the other classes is found."""
    _, labels = pictures(120, seed=0)
    found = measured(TRAIN[labels == 0][:10].repeat(6, 1, 1, 1))
    assert found["precision"].value == 1
    assert found["recall"].value < 0.2 < found["recall"].floor


def test_what_is_done_in_chunks_is_what_is_done_at_once(monkeypatch):
    """Memory holds some rows of the distances at a time."""
    whole = {name: one.value for name, one in measured(SAMPLES).items()}
    monkeypatch.setattr(module, "_ROWS", 7)
    assert {name: one.value for name, one in measured(SAMPLES).items()} == whole


def test_the_first_samples_are_looked_at_and_memory_is_bounded():
    """However they come and on whichever rank: those with the smallest numbers."""
    wanted = measured(SAMPLES[:30])
    assert measured(SAMPLES, batch=8, limit=30)["recall"].value == wanted["recall"].value
    first, second = (PrecisionRecall(LINEAR, limit=30) for _ in range(2))
    for metric, skipped, part in ((first, 0, SAMPLES[:20]), (second, 20, SAMPLES[20:])):
        metric.prepare(Subject(DATA))
        metric.skip(skipped)
        metric.update(part, None)
    assert len(second.state()["vectors"]) == 10
    first.merge([first.state(), second.state()])
    found = first.compute()
    assert found["recall"].value == wanted["recall"].value
    assert found["precision"].value == wanted["precision"].value
    assert found["recall"].of["samples"] == 30


def test_they_keep_the_laws():
    """Batches, order, ranks and the global generator change nothing."""
    check_metric(PrecisionRecall(LINEAR), SAMPLES, DATA)


def test_more_neighbours_than_examples_are_refused():
    """The k-th nearest of fewer than k others is nobody."""
    with pytest.raises(IncompatibleError, match="more than 60 examples, and the test split has 60"):
        PrecisionRecall(LINEAR, k=60).prepare(Subject(DATA))
