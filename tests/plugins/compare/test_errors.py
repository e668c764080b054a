"""The standard error over training seeds and replicates of the evaluation, by simulation."""

from __future__ import annotations

import math

import pytest
import torch
from elbowroom.plugins.compare.differences import differences
from elbowroom.plugins.compare.errors import combined_error, crossed_error
from elbowroom.plugins.evaluation.metric import Measurement

from tests.helpers.reporting import models

TABLES = 4000


def tables(seeds, columns, a, b, e):
    """[TABLES, S, T] of y = A_s + B_t + E_st with these standard deviations."""
    torch.manual_seed(0)
    parts = ((a, (seeds, 1)), (b, (1, columns)), (e, (seeds, columns)))
    return sum(sd * torch.randn(TABLES, *shape, dtype=torch.float64) for sd, shape in parts)


@pytest.mark.parametrize(
    ("seeds", "columns", "a", "b", "e"),
    [
        (3, 5, 1.0, 1.0, 0.5),
        (3, 5, 0.3, 2.0, 0.5),  # sampling noise that all training seeds share
        (5, 2, 1.0, 0.8, 1.0),
        (3, 64, 1.0, 5.0, 2.0),  # groups of examples
        (4, 1, 1.0, 0.0, 0.5),
        (1, 6, 0.0, 1.0, 0.5),
    ],
)
def test_the_error_has_the_variance_of_the_mean(seeds, columns, a, b, e):
    """On average over tables its square is var(mean) = a²/S + b²/T + e²/(ST)."""
    y = tables(seeds, columns, a, b, e)
    due = a**2 / seeds + b**2 / columns + e**2 / (seeds * columns)
    assert float(y.mean((1, 2)).var()) == pytest.approx(due, rel=0.1)
    found = sum(crossed_error(table).value ** 2 for table in y.tolist()) / TABLES
    assert found == pytest.approx(due, rel=0.1)


def test_without_components_it_is_a_little_too_large():
    """No component is taken as negative: the error of pure interaction is not too small."""
    y = tables(3, 5, 0.0, 0.0, 1.0)
    found = sum(crossed_error(table).value ** 2 for table in y.tolist()) / TABLES
    assert 1 / 15 < found < 2 / 15


def _difference(folder, *tables):
    table = {
        str(k): {s: run(sum(row) / len(row), 1.0, row, "lower") for s, row in enumerate(rows)}
        for k, rows in enumerate(tables)
    }
    return differences(models(folder, table)).models[1]["fid"]


def test_the_interval_of_a_difference_covers_it(tmp_path):
    """In 19 of 20 comparisons, and what both models share does not widen it."""
    own = tables(4, 4, 0.7, 0.5, 0.4)
    shared = 9 * torch.randn(TABLES // 2, 4, 1) + 9 * torch.randn(TABLES // 2, 1, 4)
    first, other = own[::2] + shared, own[1::2] + shared
    covered, widest = 0, 0.0
    for x, y in zip(first.tolist(), other.tolist(), strict=True):
        found = _difference(tmp_path, x, y)
        widest = max(widest, found.interval)
        covered += not found.beyond_noise
    assert 0.93 < covered / len(first) < 0.99
    assert widest < 9


def run(value, error=None, replicates=(), better=None):
    return Measurement(value, error, better, replicates=list(replicates))


def test_what_the_error_includes_is_recorded():
    """Without replicates the error of the evaluation is added; without that, seeds are alone."""
    assert combined_error([run(1.0, 0.2)]) == (0.2, ["evaluation"])
    assert combined_error([run(1.0)]) == (None, [])
    error, includes = combined_error([run(1.0, 0.3), run(3.0, 0.3)])
    assert error == pytest.approx(math.sqrt(1 + 0.09))
    assert includes == ["training seeds", "evaluation"]
    assert combined_error([run(1.0), run(3.0)]) == (pytest.approx(1.0), ["training seeds"])
    table = [[0.0, 2.0, 5.0], [1.0, 1.0, 7.0]]
    error, includes = combined_error([run(sum(row) / 3, 0.0, row) for row in table])
    assert error == crossed_error(table).value and includes == ["training seeds", "evaluation"]
