"""Distances to the nearest training example."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from elbowroom.plugins.conformance import check_metric
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.metrics import neighbours as module
from elbowroom.plugins.metrics.neighbours import Neighbours

from tests.helpers.pictures import Pictures, Rows, pictures

DATA = Pictures()
TRAIN = DATA.split("train").take(torch.arange(120)).x
TEST = DATA.split("test").take(torch.arange(60)).x


def measured(samples):
    metric = Neighbours()
    metric.prepare(Subject(DATA, batch_size=13))
    for part in samples.split(11):
        metric.update(part, None)
    return metric.compute()


def nearest(samples):
    """By brute force."""
    a = samples.flatten(1).numpy()[:, None] / 4
    b = TRAIN.flatten(1).numpy()[None] / 4
    return np.sqrt(((a - b) ** 2).mean(2)).min(1)


def test_distances_are_those_of_brute_force():
    """Mean and least distance, of samples and of the test split beside them."""
    samples = pictures(40, seed=77)[0]
    measurements = measured(samples)
    assert measurements["neighbours_mean"].value == pytest.approx(nearest(samples).mean(), rel=1e-6)
    assert measurements["neighbours_least"].value == pytest.approx(nearest(samples).min(), rel=1e-6)
    assert measurements["neighbours_mean"].floor == pytest.approx(nearest(TEST).mean(), rel=1e-6)
    assert measurements["neighbours_least"].floor == pytest.approx(nearest(TEST).min(), rel=1e-6)
    error = nearest(samples).std() / np.sqrt(40)
    assert measurements["neighbours_mean"].standard_error == pytest.approx(error, rel=1e-5)


def test_a_model_that_copies_is_found_out():
    """Training examples as samples: distance zero, all of them copied."""
    measurements = measured(TRAIN[:50])
    assert measurements["neighbours_mean"].value == 0
    assert measurements["neighbours_copied"].value == 1


def test_a_copy_has_distance_zero_however_many_values_it_has():
    """No rounding of large sums makes it look like an original."""
    random = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (40, 16, 16, 3), generator=random)
    assert module.Train(Rows(x), 256, 8).distance(x).max() == 0


def test_a_model_like_the_data_is_not_accused():
    """Fresh examples are copied about as rarely as test examples are."""
    measurements = measured(pictures(2000, seed=5)[0])
    assert measurements["neighbours_copied"].value < 0.1
    assert measurements["neighbours_copied"].floor <= 0.02


def test_a_train_split_too_large_to_keep_gives_the_same(monkeypatch):
    """It is read batch by batch then."""
    kept = measured(TEST)["neighbours_mean"].value
    monkeypatch.setattr(module, "_KEPT", 0)
    assert measured(TEST)["neighbours_mean"].value == pytest.approx(kept, rel=1e-12)


def test_neighbours_keep_the_laws():
    """Batches and order change nothing."""
    check_metric(Neighbours(), pictures(31, seed=8)[0], DATA)
