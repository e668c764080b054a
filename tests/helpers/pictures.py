"""A small data set for metrics: blurred blobs of 6x6 pixels, five grey levels, three classes."""

from __future__ import annotations

import attrs
import torch
from elbowroom.contracts.dataset import Batch, Dataset, DataSpec, Split, check_split
from elbowroom.plugins.metrics.features import FeatureNetwork, weights_digest
from torch import Tensor, nn

SIZES = {"train": 120, "validation": 20, "test": 60}


@attrs.frozen(eq=False)
class Rows(Split):
    x: Tensor
    y: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    def take(self, indices: Tensor) -> Batch:
        return Batch(self.x[indices], None if self.y is None else self.y[indices])


@attrs.frozen(eq=False)
class Pictures(Dataset):
    """Each class has its bright corner; ``shift`` makes another data set."""

    shift: int = 0
    classes: int | None = 3

    @property
    def spec(self) -> DataSpec:
        return DataSpec((6, 6, 1), levels=5, classes=self.classes)

    def split(self, name: str) -> Split:
        seed = 100 * self.shift + list(SIZES).index(check_split(name))
        x, y = pictures(SIZES[name], seed)
        return Rows(x, y if self.classes else None)


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Integers [N, 6, 6, 1] and labels [N]."""
    random = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 3
    x = torch.randint(0, 3, (count, 6, 6, 1), generator=random)
    for k in range(count):
        row, column = divmod(int(y[k]), 2)
        x[k, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3] += 2
    return x, y


class Linear(FeatureNetwork):
    """Random projections: features and logits that any test can compute itself."""

    name = "linear"

    def __init__(self, data: Dataset) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(7)
            dims = data.spec.dims
            self.vectors = nn.Linear(dims, 5).double().requires_grad_(False)
            self.logits = nn.Linear(dims, 3).double().requires_grad_(False)
        self.digest = weights_digest(self)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.flatten(1).double()
        return self.vectors(flat), self.logits(flat)


LINEAR = f"{__name__}:Linear"
