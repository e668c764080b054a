"""Standard error of a mean over training seeds and replicates of the evaluation.

A model is trained with S seeds and each run is evaluated in T replicates: sample seeds, or groups
of test examples. The replicates are the same for all runs (same noise, same examples), so the
design is crossed, with training seeds A, replicates B and their interaction E:

    y_st = mu + A_s + B_t + E_st,        var(mean) = a²/S + b²/T + e²/(S T).

More training seeds do not reduce b²/T, which the std over training seeds does not contain. With the
mean squares of the two-way table,

    M_A = T sum_s (y_s. - y..)²/(S - 1)                              E M_A = T a² + e²
    M_B = S sum_t (y_.t - y..)²/(T - 1)                              E M_B = S b² + e²
    M_E = sum_st (y_st - y_s. - y_.t + y..)²/((S - 1)(T - 1))        E M_E = e²

    var(mean) = (M_A + M_B - M_E)/(S T),

where M_A and M_B are taken as at least M_E, as no component is negative. The degrees of freedom are
Satterthwaite's. A table of one column leaves b² out, one of a single row a². Differences of two
models are a table too, of y'_st - y_st: what both share in A_s and B_t cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import torch
from elbowroom.plugins.evaluation.metric import Measurement

TRAINING, EVALUATION = "training seeds", "evaluation"


@attrs.frozen
class StandardError:
    """A standard error with its degrees of freedom."""

    value: float
    freedom: int


def crossed_error(table: Sequence[Sequence[float]]) -> StandardError:
    """Standard error of the mean of y [S, T], of which S or T is at least 2."""
    y = torch.tensor(table, dtype=torch.float64)
    rows, columns = y.shape
    if min(rows, columns) == 1:
        return StandardError(float(y.std()) / math.sqrt(y.numel()), y.numel() - 1)
    by_row, by_column = y.mean(1, keepdim=True), y.mean(0, keepdim=True)
    freedom = (rows - 1, columns - 1, (rows - 1) * (columns - 1))
    squares = (
        columns * (by_row - y.mean()).square().sum(),
        rows * (by_column - y.mean()).square().sum(),
        (y - by_row - by_column + y.mean()).square().sum(),
    )
    a, b, e = (float(one) / n for one, n in zip(squares, freedom, strict=True))
    a, b = max(a, e), max(b, e)
    total = a + b - e
    parts = sum(one**2 / n for one, n in zip((a, b, e), freedom, strict=True))
    known = int(total**2 / parts) if parts else min(freedom)
    return StandardError(math.sqrt(total / y.numel()), max(known, 1))


def replicates(measurements: Sequence[Measurement]) -> list[list[float]] | None:
    """[S, T] replicates of each run; None where some run has none or another number."""
    found = [list(one.replicates or ()) for one in measurements]
    whole = all(len(one) == len(found[0]) > 1 and None not in one for one in found)
    return found if found and whole else None


def combined_error(measurements: Sequence[Measurement]) -> tuple[float | None, list[str]]:
    """Standard error of the mean over training seeds, and the sources of noise it includes.

    Without replicates it is sqrt(std²/S + mean of the runs' own variances): all of these variances
    are counted as shared between training seeds, as the shared part is not known.
    """
    values = [one.value for one in measurements]
    own = [one.standard_error for one in measurements]
    known = [EVALUATION] if None not in own else []
    if len(values) == 1:
        return own[0], known
    if (table := replicates(measurements)) is not None:
        return crossed_error(table).value, [TRAINING, EVALUATION]
    scatter = crossed_error([[value] for value in values]).value
    shared = sum(error**2 for error in own if error is not None) / len(own) if known else 0.0
    return math.sqrt(scatter**2 + shared), [TRAINING, *known]
