"""Controls by brute force, and metrics of rows on samples whose quality is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from elbowroom import IncompatibleError, Subject, named_component
from elbowroom.plugins.conformance import check_metric
from elbowroom.plugins.tables.controls import chow_liu, independent
from elbowroom.plugins.tables.dataset import Table
from elbowroom.plugins.tables.row_metrics import C2ST, Controls, Nearest, TableRows, Utility

SIZES = (3, 2, 4, 2)
NAMES = ("no", "yes")


def chain(count: int, seed: int) -> np.ndarray:
    """Rows of a Markov chain 0 - 1 - 2 - 3, with other numbers of values each."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, count)
    b = (rng.random(count) < np.array([0.1, 0.5, 0.9])[a]).astype(int)
    c = np.where(rng.random(count) < 0.8, 3 * b, rng.integers(0, 4, count))
    d = (rng.random(count) < np.array([0.05, 0.4, 0.6, 0.95])[c]).astype(int)
    return np.stack([a, b, c, d], 1)


def every_row() -> np.ndarray:
    return np.array(list(itertools.product(*map(range, SIZES))))


@pytest.mark.parametrize("tree", [True, False])
def test_the_likelihood_of_a_control_is_a_distribution(tree):
    """It sums to one over all rows, and samples have it."""
    x = chain(4000, 0)
    model = chow_liu(x, SIZES, chain(400, 1)) if tree else independent(x, SIZES)
    rows = every_row()
    p = 2 ** -model.bits(rows)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    drawn = model.sample(200_000, 0)
    index = np.ravel_multi_index(drawn.T, SIZES)
    counts = np.bincount(index, minlength=len(rows)) / len(drawn)
    assert abs(counts - p).max() < 5e-3


def test_the_tree_is_the_best_of_all_trees():
    """Of all 16 trees on four columns, and it has the edges of the chain."""
    x = chain(4000, 0)
    tree = chow_liu(x, SIZES, chain(400, 1))
    edges = {frozenset((k, p)) for k, p in enumerate(tree.parents) if p is not None}
    assert edges == {frozenset((0, 1)), frozenset((1, 2)), frozenset((2, 3))}

    def bits(edges):
        """In-sample bits by counting pairs."""
        total = sum(_entropy(x[:, [k]]) for k in range(4))
        return total - sum(
            _entropy(x[:, [a]]) + _entropy(x[:, [b]]) - _entropy(x[:, [a, b]]) for a, b in edges
        )

    pairs = list(itertools.combinations(range(4), 2))
    trees = [three for three in itertools.combinations(pairs, 3) if _connected(three)]
    assert len(trees) == 16
    assert {frozenset(pair) for pair in min(trees, key=bits)} == edges
    assert tree.bits(x).mean() == pytest.approx(min(map(bits, trees)), abs=0.01)


def _entropy(x):
    _, counts = np.unique(x, axis=0, return_counts=True)
    p = counts / counts.sum()
    return -(p * np.log2(p)).sum()


def _connected(edges):
    group = {0}
    for _ in range(3):
        group |= {k for edge in edges if group & set(edge) for k in edge}
    return len(group) == 4


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "chain.csv"
    rows = chain(8000, 0)
    lines = (f"{a},{NAMES[b]},{c},{NAMES[d]}" for a, b, c, d in rows)
    path.write_text("a,b,c,d\n" + "\n".join(lines))
    return Table(path=path)


def measured(metric, data, x, y=None):
    metric.prepare(Subject(data))
    metric.update(torch.as_tensor(x), y)
    return metric.compute()


def test_c2st_is_one_for_real_rows_and_low_for_independent_columns(data):
    found = measured(C2ST(), data, chain(800, 7))
    assert found["c2st"].value > 0.9 and found["c2st"].floor > 0.9
    assert found["c2st_tree"].value > 0.85  # the data are a tree
    assert found["c2st_independent"].value < 0.5
    shuffled = np.stack(
        [np.random.default_rng(k).permutation(c) for k, c in enumerate(chain(800, 8).T)], 1
    )
    assert measured(C2ST(), data, shuffled)["c2st"].value == pytest.approx(
        found["c2st_independent"].value, abs=0.1
    )
    nonsense = measured(C2ST(), data, np.tile([0, 1, 0, 1], (800, 1)))
    assert nonsense["c2st"].value < 0.1 and nonsense["c2st_accuracy"].value > 0.9


def test_utility_of_real_rows_is_that_of_training_rows(data):
    found = measured(Utility(), data, chain(800, 7))
    assert found["utility"].of["target"] == "d"
    assert found["utility"].value == pytest.approx(found["utility"].floor, abs=0.03)
    assert found["utility_tree"].value > found["utility_independent"].value + 0.2
    assert measured(Utility(target="b"), data, chain(800, 7))["utility"].of["target"] == "b"
    with pytest.raises(IncompatibleError, match="two values"):
        measured(Utility(target="a"), data, chain(800, 7))


def test_nearest_finds_copies(data, tmp_path):
    """With a column that few rows share: copies of training rows, and fresh rows."""
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(f"{v:.6f},{w:.6f}" for v, w in rng.random((3000, 2))))
    data = Table(path=path)
    rows = TableRows.of(Subject(data), "nearest").splits["train"]
    fresh = rng.integers(0, 256, (300, 2))
    assert measured(Nearest(), data, fresh)["nearest_train"].value == pytest.approx(0.5, abs=0.1)
    some = np.random.default_rng(0).permutation(len(rows))[:300]  # those it is compared with
    copied = measured(Nearest(), data, rows[some])
    assert copied["nearest_train"].value > 0.95 and copied["nearest_equal"].value == 1


def test_controls_have_bits_per_row(data):
    metric = Controls()
    metric.prepare(Subject(data))
    found = metric.compute()
    entropy = _entropy(chain(200_000, 3))
    assert found["bits_per_row_tree"].value == pytest.approx(entropy, abs=0.1)
    assert found["bits_per_row_independent"].value > entropy + 0.5


def test_controls_are_given_the_label_where_the_model_is(data):
    """p(x | label): the tree's bits are those of the joint without the label's own."""
    labelled = Table(path=data.path, label="d")
    metric = Controls()
    metric.prepare(Subject(labelled))
    bits = metric.compute()["bits_per_row_tree"].value
    joint = chain(200_000, 3)
    assert bits == pytest.approx(_entropy(joint) - _entropy(joint[:, [3]]), abs=0.1)
    found = measured(C2ST(), labelled, chain(800, 7)[:, :3], torch.as_tensor(chain(800, 7)[:, 3]))
    assert found["c2st"].value > 0.9


@pytest.mark.parametrize("metric", [C2ST, Utility, Nearest])
def test_they_keep_the_laws_of_a_metric(metric, data):
    check_metric(metric(), torch.as_tensor(chain(80, 9)), data)


@pytest.mark.parametrize("metric", [C2ST, Utility, Nearest, Controls])
def test_data_that_are_no_table_are_refused(metric):
    digits = named_component("dataset", "digits").build()
    with pytest.raises(IncompatibleError, match="no table"):
        metric().prepare(Subject(digits))
