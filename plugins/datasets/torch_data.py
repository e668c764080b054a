"""Any torch data set of integers as a data set: ``er.assemble(data=mine, ...)``.

    mine[i] -> (x, y), (x,) or x      x integers [*shape], channels last; y a label

How many values and classes there are is found in one pass over all examples unless it is said. The
splits that are not given are carved out of train: a tenth each, the same on every machine.
"""

from __future__ import annotations

from typing import Any

import attrs
from elbowroom import Batch, Dataset, DataSpec, ElbowroomError, Split
from elbowroom.contracts import SPLITS, check_split
from elbowroom.randomness import permute

_SEED = 0  # part of the definition of a carved split: never changes


class TorchData(Dataset):
    """Torch data sets of (x, y), or of x, for train and perhaps validation and test."""

    def __init__(
        self,
        train: Any,
        validation: Any = None,
        test: Any = None,
        *,
        levels: int | None = None,
        classes: int | None = None,
    ) -> None:
        given = {"train": train, "validation": validation, "test": test}
        parts = {
            name: _TorchSplit(data, range(len(data)))
            for name, data in given.items()
            if data is not None
        }
        for missing in (name for name in ("test", "validation") if name not in parts):
            parts["train"], parts[missing] = parts["train"].carved()
        self._parts = parts
        self._spec = _spec_of(parts, levels, classes)

    @property
    def spec(self) -> DataSpec:
        return self._spec

    def split(self, name: str) -> Split:
        return self._parts[check_split(name)]


def from_torch(given: Any) -> TorchData | None:
    """A torch data set, an array x or a pair of arrays (x, y) as data; None for other objects."""
    import numpy as np
    import torch
    from torch.utils.data import Dataset as TorchDataset, TensorDataset

    arrays = given if isinstance(given, tuple) else (given,)
    if arrays and all(isinstance(array, np.ndarray | torch.Tensor) for array in arrays):
        given = TensorDataset(*map(torch.as_tensor, arrays))
    return TorchData(given) if isinstance(given, TorchDataset) else None


@attrs.frozen(eq=False)
class _TorchSplit(Split):
    """Some examples of a torch data set."""

    data: Any
    rows: Any  # a sequence of integers

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: Any) -> Batch:
        import torch

        examples = [_example(self.data[self.rows[int(i)]]) for i in indices]
        labels = [y for _, y in examples if y is not None]
        return Batch(torch.stack([x for x, _ in examples]), torch.stack(labels) if labels else None)

    def carved(self) -> tuple[_TorchSplit, _TorchSplit]:
        """What stays, and a tenth of it."""
        import torch

        count = len(self)
        if count < 3:
            raise ElbowroomError(f"data: {count} examples cannot be split: give a test set too")
        tenth = set(permute(torch.arange(max(1, count // 10)), count, _SEED).tolist())
        stay = [row for n, row in enumerate(self.rows) if n not in tenth]
        return attrs.evolve(self, rows=stay), attrs.evolve(
            self, rows=[self.rows[n] for n in sorted(tenth)]
        )


def _example(given: Any) -> tuple[Any, Any]:
    """x [*shape] and y [], int64."""
    import torch

    parts = tuple(given) if isinstance(given, tuple | list) else (given,)
    x, y = (*parts, None) if len(parts) == 1 else parts
    values = torch.as_tensor(x)
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise ElbowroomError(
            f"data: an example is {values.dtype}. Data are integers 0 to levels-1, channels last: "
            "images x of 0 .. 1 become (x * 255).round() as uint8"
        )
    return values.long(), None if y is None else torch.as_tensor(y).long()


def _spec_of(parts: dict[str, _TorchSplit], levels: int | None, classes: int | None) -> DataSpec:
    first = parts["train"].take(range(1))
    shape = tuple(first.x.shape[1:])
    if len(shape) == 3 and shape[0] in (1, 3) and shape[-1] not in (1, 3, 4):
        raise ElbowroomError(
            f"data: an example has the shape {list(shape)}: channels first. Images are "
            "[height, width, channels]: pass x.permute(0, 2, 3, 1) for x of [N, C, H, W]"
        )
    if levels is None or (classes is None and first.y is not None):
        values, labels = 1, 0
        for batch in (batch for name in SPLITS for batch in parts[name].batches(1024)):
            values = max(values, int(batch.x.max()))
            labels = labels if batch.y is None else max(labels, int(batch.y.max()))
        levels = levels or 1 + values
        classes = classes or (None if first.y is None else 1 + labels)
    return DataSpec(shape, levels, classes)
