"""Metrics of samples that are rows of a table.

    c2st       2 (1 - max(A, 1/2)), A the area under the ROC curve of boosted trees that tell
               samples from test rows, out of fold in 5-fold cross-validation: 1 where they cannot,
               0 where they always can. ``c2st_accuracy`` is their accuracy, 0.5 at best.
    utility    the area under the ROC curve, on test rows, of boosted trees that were trained on
               samples to predict a column of two values
    nearest    the share of samples that are nearer to one of m training rows than to any of the m
               test rows (ties count half): 0.5 where nothing is copied; and the share that equal a
               training row. The distance is the mean over columns of |a - b| / (V - 1) for numbers
               and of a != b for texts and missing cells.
    controls   bits per row of independent columns and of the tree of pairs

c2st and utility are also given for samples of these two controls
(:mod:`elbowroom.plugins.tables.controls`), and as floor for training rows in the place of samples.
All use as many samples, or rows, as there are test rows, or fewer where there are fewer samples;
columns are their integers, texts as categories; a label is a column. Shape scores of single columns
and linear classifiers rate independent columns best, so they are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import torch
from elbowroom import DataSpec, Display, IncompatibleError, Measurement, Metric, Subject
from elbowroom.errors import did_you_mean
from elbowroom.plugins.sampling.rows import number
from numpy.typing import NDArray
from torch import Tensor

from .controls import Codes, Tree, chow_liu, independent

_FOLDS = 5
_CATEGORIES = 255  # of a column, at most, for boosted trees
_SEED = 0  # of folds, boosted trees and the rows that are compared
CONTROLS: dict[str, Callable[[Codes, Sequence[int], Codes], Tree]] = {
    "independent": lambda x, sizes, _: independent(x, sizes),
    "tree": chow_liu,
}


@attrs.frozen(eq=False)
class TableRows:
    """The splits of a table as integers, with a label as the last column."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    ordered: NDArray[np.bool_]  # [N] which columns are numbers
    first: NDArray[np.int64]  # [N] the first value that is not missing
    labels: int  # 0: no label
    splits: Mapping[str, Codes]

    @classmethod
    def of(cls, subject: Subject, metric: str) -> TableRows:
        """The rows of a subject's data; only tables have any."""
        if not subject.data.spec.parts:
            raise IncompatibleError(f"{metric}: the data are no table")
        return subject.once("table rows", lambda: cls._read(subject))

    @classmethod
    def _read(cls, subject: Subject) -> TableRows:
        spec = subject.data.spec
        parts = [part for part in spec.parts if part.stop > part.start]
        values = [part.values or () for part in parts]
        names = [part.name for part in parts]
        if spec.classes:
            names += [part.name for part in spec.parts if part.values is None]
            values.append(spec.names or tuple(map(str, range(spec.classes))))
        numbers = [part.bins is not None for part in parts] + [False] * bool(spec.classes)
        ordered = [
            binned or all(number(v) is not None for v in texts if v)
            for binned, texts in zip(numbers, values, strict=True)
        ]
        splits = {}
        for name in ("train", "validation", "test"):
            split = subject.data.split(name)
            batch = split.take(torch.arange(len(split)))
            splits[name] = with_labels(batch.x, batch.y)
        missing = [int(texts[:1] == ("",)) for texts in values]
        sizes = tuple(map(len, values))
        kinds = np.array(ordered), np.array(missing)
        return cls(tuple(names), sizes, *kinds, spec.classes or 0, splits)

    def control(self, name: str) -> tuple[Tree, ...]:
        """A control of the training rows: one for each label."""
        make = CONTROLS[name]
        train, validation = self.splits["train"], self.splits["validation"]
        if not self.labels:
            return (make(train, self.sizes, validation),)
        own = [(train[train[:, -1] == k, :-1], validation[validation[:, -1] == k, :-1])
               for k in range(self.labels)]  # fmt: skip
        return tuple(make(x, self.sizes[:-1], other) for x, other in own)

    def bits(self, trees: Sequence[Tree], x: Codes) -> NDArray[np.float64]:
        """[n] bits of rows under a control, given their labels where they have any."""
        if not self.labels:
            return trees[0].bits(x)
        each = np.empty(len(x))
        for k, tree in enumerate(trees):
            each[x[:, -1] == k] = tree.bits(x[x[:, -1] == k, :-1])
        return each

    def drawn(self, trees: Sequence[Tree], count: int) -> Codes:
        """Rows of a control; labels as often as in train."""
        if not self.labels:
            return trees[0].sample(count, _SEED)
        y = np.random.default_rng(_SEED).choice(self.splits["train"][:, -1], count)
        x = np.empty((count, len(self.sizes)), np.int64)
        for k, tree in enumerate(trees):
            x[y == k, :-1] = tree.sample(int((y == k).sum()), k)
        x[:, -1] = y
        return x

    def trees(self, columns: Sequence[int]) -> Any:
        """Boosted trees for these columns."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        few = [not self.ordered[k] and self.sizes[k] <= _CATEGORIES for k in columns]
        return HistGradientBoostingClassifier(categorical_features=few, random_state=_SEED)

    def features(self, x: Codes, columns: Sequence[int]) -> NDArray[np.float64]:
        """[n, columns] for boosted trees: a missing number is NaN."""
        found = x[:, columns].astype(np.float64)
        gone = (x < self.first)[:, columns] & self.ordered[list(columns)]
        found[gone] = np.nan
        return found


def with_labels(x: Tensor, y: Tensor | None) -> Codes:
    """[n, N] rows as integers, the label as their last column."""
    rows = x.flatten(1) if y is None else torch.cat([x.flatten(1), y[:, None].to(x)], 1)
    return rows.cpu().numpy().astype(np.int64)


@attrs.define(eq=False)
class RowMetric(Metric):
    """Keeps samples as integers of two bytes, and compares them at the end."""

    _rows: TableRows = attrs.field(init=False, repr=False)
    _seen: list[Tensor] = attrs.field(init=False, factory=list, repr=False)

    def suits(self, data: DataSpec) -> bool:
        return bool(data.parts)

    def prepare(self, subject: Subject) -> None:
        self._rows, self._seen = TableRows.of(subject, type(self).__name__.lower()), []

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        y = labels if self._rows.labels else None
        if self._rows.labels and y is None:
            y = torch.zeros(len(samples), dtype=torch.int64)
        self._seen.append(torch.from_numpy(with_labels(samples, y).astype(np.int32)))

    def state(self) -> dict[str, Tensor]:
        none = torch.empty(0, len(self._rows.sizes), dtype=torch.int32)
        return {"rows": torch.cat([none, *self._seen])}

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        self._seen = [state["rows"] for state in states]

    def _samples(self) -> Codes:
        """All samples in an order that does not depend on how they came."""
        x = torch.cat(self._seen).numpy().astype(np.int64)
        return mixed(x[np.lexsort(x.T)])

    def _alternatives(self, count: int) -> dict[str, Codes]:
        """Rows in the place of samples: real ones ("floor"), and those of each control."""
        rows = self._rows
        found = {name: rows.drawn(rows.control(name), count) for name in CONTROLS}
        return {"floor": mixed(rows.splits["train"])[:count], **found}


def mixed(x: Codes) -> Codes:
    """Rows in a random order, always the same."""
    return x[np.random.default_rng(_SEED).permutation(len(x))]


@attrs.define(eq=False)
class C2ST(RowMetric):
    """The two-sample test of boosted trees; see the module's text."""

    usual: ClassVar[int | None] = 60
    display: ClassVar[Mapping[str, Display]] = {
        "c2st": Display("C2ST"),
        "c2st_accuracy": Display("C2ST accuracy", "detail"),
        **{f"c2st_{name}": Display(f"C2ST of {name}", "report", ranked=False) for name in CONTROLS},
    }

    def compute(self) -> dict[str, Measurement]:
        test, samples = self._rows.splits["test"], self._samples()
        count = min(len(test), len(samples))
        real = mixed(test)[:count]
        others = {name: self._test(real, x) for name, x in self._alternatives(count).items()}
        of = {"rows": count, "folds": _FOLDS, "classifier": "HistGradientBoosting"}
        score, error, accuracy = self._test(real, samples[:count])
        floor = others.pop("floor")
        found = {"c2st": Measurement(score, error, "higher", floor[0], of)}
        found["c2st_accuracy"] = Measurement(accuracy, None, "lower", floor[2], of)
        for name, (value, spread, _) in others.items():
            found[f"c2st_{name}"] = Measurement(value, spread, "higher", floor[0], of)
        return found

    def _test(self, real: Codes, other: Codes) -> tuple[float, float, float]:
        """The score, its standard error over folds, and the accuracy."""
        from sklearn.metrics import accuracy_score, roc_auc_score
        from sklearn.model_selection import StratifiedKFold

        columns = range(real.shape[1])
        x = self._rows.features(np.concatenate([real, other]), columns)
        y = np.repeat([1, 0], [len(real), len(other)])
        folds = StratifiedKFold(min(_FOLDS, len(real)), shuffle=True, random_state=_SEED)
        areas, right = [], []
        for learn, held in folds.split(x, y):
            p = self._rows.trees(columns).fit(x[learn], y[learn]).predict_proba(x[held])[:, 1]
            areas.append(roc_auc_score(y[held], p))
            right.append(accuracy_score(y[held], p > 0.5))
        score = 2 * (1 - max(float(np.mean(areas)), 0.5))
        return score, 2 * _error(np.array(areas)), float(np.mean(right))


@attrs.define(eq=False)
class Utility(RowMetric):
    """How well a classifier trained on samples predicts a column of test rows."""

    usual: ClassVar[int | None] = 61
    display: ClassVar[Mapping[str, Display]] = {
        "utility": Display("AUC trained on samples"),
        **{f"utility_{name}": Display(f"AUC of {name}", "report", ranked=False)
           for name in CONTROLS},
    }  # fmt: skip

    target: str | None = None  # the column; None: the last one of two values
    _target: int = attrs.field(init=False, default=0, repr=False)

    def prepare(self, subject: Subject) -> None:
        RowMetric.prepare(self, subject)
        rows = self._rows
        two = [k for k, size in enumerate(rows.sizes) if size == 2]
        if self.target is not None and self.target not in rows.names:
            raise IncompatibleError(
                f"utility: no column {self.target!r}{did_you_mean(self.target, rows.names)}"
            )
        chosen = two[-1:] if self.target is None else [rows.names.index(self.target)]
        if not chosen or chosen[0] not in two:
            raise IncompatibleError("utility: it needs a column of two values to predict")
        self._target = chosen[0]

    def compute(self) -> dict[str, Measurement]:
        test, samples = self._rows.splits["test"], self._samples()
        count = min(len(test), len(samples))
        others = {name: self._area(x, test) for name, x in self._alternatives(count).items()}
        of = {"rows": count, "target": self._rows.names[self._target]}
        floor = others.pop("floor")
        error = self._error(test, value := self._area(samples[:count], test))
        found = {"utility": Measurement(value, error, "higher", floor, of)}
        for name, area in others.items():
            error = self._error(test, area)
            found[f"utility_{name}"] = Measurement(area, error, "higher", floor, of)
        return found

    def _area(self, learn: Codes, test: Codes) -> float:
        from sklearn.metrics import roc_auc_score

        y, held = learn[:, self._target], test[:, self._target]
        if len(set(y.tolist())) < 2 or len(set(held.tolist())) < 2:
            return 0.5  # nothing to learn, or to predict
        columns = [k for k in range(learn.shape[1]) if k != self._target]
        trees = self._rows.trees(columns).fit(self._rows.features(learn, columns), y)
        p = trees.predict_proba(self._rows.features(test, columns))[:, 1]
        return float(roc_auc_score(held, p))

    def _error(self, test: Codes, area: float) -> float:
        """Of an area under the curve, for other test rows (Hanley & McNeil 1982)."""
        ones = int((test[:, self._target] == 1).sum())
        zeros = len(test) - ones
        a, b = area / (2 - area), 2 * area**2 / (1 + area)
        spread = area * (1 - area) + (ones - 1) * (a - area**2) + (zeros - 1) * (b - area**2)
        return float(np.sqrt(max(spread, 0) / max(ones * zeros, 1)))


@attrs.define(eq=False)
class Nearest(RowMetric):
    """Are samples nearer to training rows than to test rows?"""

    usual: ClassVar[int | None] = 62
    display: ClassVar[Mapping[str, Display]] = {
        "nearest_train": Display("nearer to train", ranked=False),
        "nearest_equal": Display("equal to a training row", "report", ranked=False),
    }

    def compute(self) -> dict[str, Measurement]:
        train, test = self._rows.splits["train"], self._rows.splits["test"]
        count = min(len(train), len(test))
        samples = self._samples()
        near, far = (self._distance(samples, mixed(x)[:count]) for x in (train, test))
        nearer = (near < far) + 0.5 * (near == far)
        known = {row.tobytes() for row in train}
        equal, floor = (
            np.array([row.tobytes() in known for row in x], np.float64) for x in (samples, test)
        )
        of = {"rows": count, "distance": "mean over columns, 0 to 1"}
        return {
            "nearest_train": Measurement(float(nearer.mean()), _error(nearer), None, 0.5, of),
            "nearest_equal": Measurement(
                float(equal.mean()), _error(equal), None, float(floor.mean()), of
            ),
        }

    def _distance(self, x: Codes, rows: Codes) -> NDArray[np.float64]:
        """[n] the distance of each x to the nearest of the rows."""
        found = [self._apart(part, rows).min(1) for part in np.array_split(x, len(x) // 256 + 1)]
        return np.concatenate(found)

    def _apart(self, x: Codes, rows: Codes) -> NDArray[np.float64]:
        total = np.zeros((len(x), len(rows)))
        about = zip(self._rows.sizes, self._rows.ordered, self._rows.first, strict=True)
        for k, (size, ordered, first) in enumerate(about):
            a, b = x[:, k, None], rows[None, :, k]
            differ = a != b
            if ordered:
                gone = (a < first) | (b < first)
                differ = np.where(gone, differ, abs(a - b) / max(size - first - 1, 1))
            total += differ
        return total / len(self._rows.sizes)


@attrs.define(eq=False)
class Controls(Metric):
    """Bits per row of independent columns and of the tree of pairs."""

    uses_samples: ClassVar[bool] = False
    usual: ClassVar[int | None] = 11
    display: ClassVar[Mapping[str, Display]] = {
        f"bits_per_row_{name}": Display(f"bits/row of {name}", "report", ranked=False)
        for name in CONTROLS
    }

    _rows: TableRows = attrs.field(init=False, repr=False)

    def suits(self, data: DataSpec) -> bool:
        return bool(data.parts)

    def prepare(self, subject: Subject) -> None:
        self._rows = TableRows.of(subject, "table-controls")

    def compute(self) -> dict[str, Measurement]:
        rows, test = self._rows, self._rows.splits["test"]
        found = {}
        for name in CONTROLS:
            bits = rows.bits(rows.control(name), test)
            of = {"split": f"{len(test)} test examples"}
            found[f"bits_per_row_{name}"] = Measurement(
                float(bits.mean()), _error(bits), "lower", None, of
            )
        return found


def _error(values: NDArray[np.float64]) -> float:
    """The standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
