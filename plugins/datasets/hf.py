"""``hf``: any image data set of the Hugging Face library ``datasets``, from the hub or a folder.

``path`` is a name on the hub (``ylecun/mnist``), a folder written by ``save_to_disk``, or a folder
of Parquet or image files. Tables are memory-mapped by the library; images are decoded, cropped to
the largest centred square and averaged down to ``size`` when they are read. Needs the extra
``elbowroom[hf]``.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from attrs.validators import in_
from elbowroom import Batch, ConfigError, DataSpec, ElbowroomError, Split
from torch import Tensor

from .files import check_labels
from .images import square
from .shrink import Shrinkable
from .splits import Rows, check_indices, with_tenths_of_train

_NAMES = {"train": ("train",), "validation": ("validation", "valid", "val"), "test": ("test",)}


@attrs.frozen(kw_only=True, slots=False)
class HuggingFace(Shrinkable):
    """A data set with an image column and optionally a label column."""

    path: str  # a name on the hub, or a folder
    subset: str | None = None  # the configuration, if there are several
    revision: str | None = None  # a commit or tag on the hub
    image: str = "image"  # the column of images
    label: str | None = "label"  # the column of labels; null: none
    channels: int = attrs.field(default=3, validator=in_((1, 3)))  # 1: grey, 3: RGB

    @property
    def full_spec(self) -> DataSpec:
        side = self._side
        return DataSpec((side, side, self.channels), 256, self._classes, self._class_names)

    def full_split(self, name: str) -> Split:
        table, rows = self._rows[name]
        return _TableSplit(self, table, rows)

    @cached_property
    def _side(self) -> int:
        if self.size is not None:
            return self.size
        return int(min(self._image(self._tables["train"][0][self.image]).size))

    @cached_property
    def _classes(self) -> int | None:
        if self.label is None:
            return None
        feature = self._tables["train"].features[self.label]
        count = getattr(feature, "num_classes", None)
        if count is None:
            raise ConfigError(
                f"{self.path}: column {self.label!r} is not a class label but {feature}; "
                "choose another data.label, or null for none"
            )
        return int(count)

    @property
    def _class_names(self) -> tuple[str, ...] | None:
        """The label column's class names, if they are distinct."""
        if self.label is None:
            return None
        feature = self._tables["train"].features[self.label]
        names = tuple(map(str, getattr(feature, "names", None) or ()))
        return names if len(set(names)) == len(names) == self._classes else None

    @cached_property
    def _tables(self) -> dict[str, Any]:
        """Split -> the source's table, with the image and label columns only."""
        source = self._load()
        tables: dict[str, Any] = {}
        for split, names in _NAMES.items():
            if found := next((name for name in names if name in source), None):
                tables[split] = source[found]
        if "train" not in tables:
            raise ElbowroomError(f"{self.path} has no split 'train', only {', '.join(source)}")
        wanted = [self.image] if self.label is None else [self.image, self.label]
        for split, table in tables.items():
            for column in wanted:
                if column not in table.column_names:
                    raise ConfigError(
                        f"{self.path}: no column {column!r} in {split}; it has "
                        f"{', '.join(table.column_names)} (data.image, data.label)"
                    )
            tables[split] = table.select_columns(wanted)
        return tables

    def _load(self) -> Any:
        try:
            import datasets
        except ImportError as error:
            raise ElbowroomError(
                "data set 'hf' needs the package 'datasets': pip install 'elbowroom[hf]'"
            ) from error
        if int(str(datasets.__version__).partition(".")[0]) < 4:
            raise ElbowroomError(
                f"data set 'hf' needs datasets 4 or later, not {datasets.__version__}, which "
                "can run code that comes with the data"
            )
        folder = Path(self.path).expanduser()
        try:
            if (folder / "dataset_dict.json").exists():
                return datasets.load_from_disk(str(folder))
            if (folder / "state.json").exists():
                return {"train": datasets.load_from_disk(str(folder))}
            path = str(folder) if folder.exists() else self.path
            return datasets.load_dataset(path, self.subset, revision=self.revision)
        # A loader of any format, over the network: it may raise anything.
        except Exception as error:
            raise ElbowroomError(
                f"cannot load {self.path!r} with the package 'datasets': {error}. "
                "It must be a folder or the name of a data set on the hub"
            ) from error

    @cached_property
    def _rows(self) -> dict[str, tuple[Any, Rows]]:
        """Split -> (table, rows of it); missing splits are carved out of train."""
        rows = {split: (table, np.arange(len(table))) for split, table in self._tables.items()}
        return with_tenths_of_train(rows, self.path)

    def _image(self, value: Any) -> Any:
        if not hasattr(value, "convert"):
            raise ConfigError(
                f"{self.path}: column {self.image!r} holds {type(value).__name__}, not images; "
                "choose another data.image"
            )
        return value

    def read(self, table: Any, rows: Rows) -> Batch:
        """The images and labels of some rows of a table."""
        columns = table[rows.tolist()]
        side = self._side
        x = torch.empty((len(rows), side, side, self.channels), dtype=torch.int64)
        for place, (row, value) in enumerate(zip(rows, columns[self.image], strict=True)):
            image = square(self._image(value), side, self.channels, f"{self.path} row {row}")
            x[place] = torch.from_numpy(image)
        if self.label is None or self._classes is None:
            return Batch(x)
        y = torch.tensor(columns[self.label], dtype=torch.int64)
        if len(y):
            check_labels(int(y.min()), int(y.max()), self._classes, Path(self.path))
        return Batch(x, y)


@attrs.frozen(eq=False)
class _TableSplit(Split):
    source: HuggingFace
    table: Any
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: Tensor) -> Batch:
        return self.source.read(self.table, self.rows[check_indices(indices, len(self))])
