"""Rows of a table: integers as CSV and back, by the data's parts alone (no data files needed).

    x [B, N]  --decode-->  one text per column  --encode-->  x

A value that is a range of numbers (a bin) is decoded to a number drawn uniformly between the least
and the greatest training number of the bin, rounded to the column's decimals. So no training number
is copied unless its bin has no other, and a run can be sampled without its data.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path

import attrs
import numpy as np
import torch
from elbowroom import DataSpec, ElbowroomError, Noise
from elbowroom.contracts import Part
from elbowroom.errors import did_you_mean
from torch import Tensor

MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null")
"""Cells that count as missing, unless told otherwise."""


def number(text: str) -> float | None:
    """The finite number a cell is; None where it is text, such as ``007`` or ``1_000``."""
    body = text.lstrip("+-")
    if not body[:1].isdigit() and body[:1] != ".":
        return None
    if "_" in text or (len(body) > 1 and body[0] == "0" and body[1].isdigit()):
        return None
    with suppress(ValueError):
        value = float(text)
        return value if math.isfinite(value) else None
    return None


# -- reading


def csv_rows(
    path: Path,
    *,
    delimiter: str = ",",
    encoding: str = "utf-8",
    header: Sequence[str] | None = None,
) -> tuple[list[str], Iterator[list[str]]]:
    """The names of a CSV file's columns, and its rows; every row has as many cells."""
    rows = _checked_rows(path, delimiter, encoding)
    first = next(rows, None) if header is None else list(header)
    if first is None:
        raise ElbowroomError(f"{path} is empty: a table has a line of column names, and rows")
    names = [name.strip() or f"column {k}" for k, name in enumerate(first, 1)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ElbowroomError(f"{path}: two columns are named {twice[0]!r}; rename one of them")
    if len(names) == 1 and (other := next((c for c in ";\t|" if c in names[0]), None)):
        raise ElbowroomError(
            f"{path}: one column only, with {other!r} in its name; set data.delimiter={other!r}"
        )
    return names, _even(rows, names, path)


def _even(rows: Iterator[list[str]], names: Sequence[str], path: Path) -> Iterator[list[str]]:
    for k, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise ElbowroomError(
                f"{path}: row {k} has {len(row)} cells, and there are {len(names)} columns"
            )
        yield [cell.strip() for cell in row]


def _checked_rows(path: Path, delimiter: str, encoding: str) -> Iterator[list[str]]:
    codec = codecs.lookup(encoding).name
    codec = "utf-8-sig" if codec == "utf-8" else codec
    try:
        with path.open(encoding=codec, newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True, skipinitialspace=True)
            try:
                yield from (row for row in reader if row)  # an empty line is no row
            except csv.Error as error:
                raise ElbowroomError(f"{path} line {reader.line_num}: {error}") from error
    except OSError as error:
        raise ElbowroomError(f"cannot read the table {path}: {error.strerror}") from error
    except UnicodeError as error:
        raise ElbowroomError(
            f"{path} is no {encoding} text: {error}; set data.encoding, for example to latin-1"
        ) from error


# -- integers to text


def decode_rows(
    data: DataSpec, x: Tensor, labels: Tensor | None = None, seed: int = 0
) -> dict[str, list[str]]:
    """Column name -> the text of each row of x [B, N]; ``seed`` is that of numbers inside bins."""
    noise = Noise(seed, torch.arange(len(x)), len(x))
    return {part.name: _texts(data, part, x, labels, noise) for part in data.parts}


def _texts(data: DataSpec, part: Part, x: Tensor, labels: Tensor | None, noise: Noise) -> list[str]:
    if part.start == part.stop:
        if part.values is not None:
            return [part.values[0]] * len(x)
        return [""] * len(x) if labels is None else [data.class_name(k) for k in labels.tolist()]
    codes = x[:, part.start]
    assert part.values is not None, "a column's values have texts"
    if part.bins is None:
        return [part.values[code] for code in codes.tolist()]
    u, first = noise.uniform(f"cell {part.name}").tolist(), len(part.values) - len(part.bins)
    return [
        "" if code < first else _inside(part.bins[code - first], part.decimals, u[row])
        for row, code in enumerate(codes.tolist())
    ]


def _inside(ends: tuple[float, float], decimals: int, u: float) -> str:
    """A number between the ends: a whole one where there are no decimals."""
    low, high = ends
    if decimals == 0:
        return str(int(low) + int(u * (int(high) - int(low) + 1)))
    value = min(max(round(low + u * (high - low), decimals), low), high)
    return repr(value) if decimals > 15 else f"{value:.{decimals}f}"


def as_csv(columns: Mapping[str, Sequence[str]]) -> str:
    """Columns as CSV; text that a spreadsheet would take for a formula gets an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_not_a_formula, columns))
    writer.writerows(zip(*(map(_not_a_formula, cells) for cells in columns.values()), strict=True))
    return text.getvalue()


def _not_a_formula(cell: str) -> str:
    return f"'{cell}" if cell[:1] in tuple("=+-@\t\r") and number(cell) is None else cell


# -- text to integers


@attrs.frozen(eq=False)
class EncodedRows:
    """Rows of a file as a model's integers."""

    x: Tensor  # [B, N] int64; -1 where the file has no such column, or an empty cell in a column
    # that is never missing
    labels: Tensor | None  # [B], where the data have a label column and the file has it
    columns: Mapping[str, slice]  # columns of the file -> their positions

    def keep(self, names: Sequence[str]) -> Tensor:
        """[N] bool: the positions of these columns."""
        kept = torch.zeros(self.x.shape[1], dtype=torch.bool)
        for name in names:
            if name not in self.columns:
                raise ElbowroomError(
                    f"no column {name!r} in the given rows{did_you_mean(name, self.columns)}; "
                    f"they have {', '.join(self.columns)}"
                )
            kept[self.columns[name]] = True
        return kept


def encode_rows(
    path: str | PathLike[str], data: DataSpec, *, missing: Sequence[str] = MISSING
) -> EncodedRows:
    """The rows of a CSV file as integers of ``data``; columns in any order, some may be absent."""
    file, parts = Path(path), {part.name: part for part in data.parts}
    if not parts:
        raise ElbowroomError(f"{file}: the model's data are no table, so rows cannot be given")
    names, rows = csv_rows(file)
    for name in names:
        if name not in parts:
            raise ElbowroomError(
                f"{file}: the model has no column {name!r}{did_you_mean(name, parts)}; "
                f"it has {', '.join(parts)}"
            )
    columns = list(zip(*rows, strict=True))
    if not columns:
        raise ElbowroomError(f"{file} has no rows below its column names")
    x, labels = torch.full((len(columns[0]), data.dims), -1), None
    for name, cells in zip(names, columns, strict=True):
        part = parts[name]
        if part.stop > part.start:
            codes = {cell: _code(part, cell, missing) for cell in set(cells)}
            x[:, part.start] = torch.tensor([codes[cell] for cell in cells])
        elif part.values is None:
            labels = torch.tensor([data.label_of(cell) for cell in cells])
    found = {name: slice(parts[name].start, parts[name].stop) for name in names}
    return EncodedRows(x, labels, found)


def _code(part: Part, cell: str, missing: Sequence[str]) -> int:
    """The integer of a cell, -1 of one to complete; what training had not is refused."""
    values = part.values or ()
    cell = cell[1:] if cell[:1] == "'" and cell not in values else cell  # as ``as_csv`` wrote it
    cell = "" if cell in missing and cell not in values else cell
    if cell in values:
        return values.index(cell)
    if cell == "":
        return -1
    value = number(cell)
    same = [k for k, text in enumerate(values) if value is not None and number(text) == value]
    if same:  # 20.0 is 20
        return same[0]
    if value is not None and part.bins is not None:
        code = int(bin_codes(np.array([value]), part.bins)[0])
        low, high = part.bins[0][0], part.bins[-1][1]
        if low <= value <= high:
            return len(values) - len(part.bins) + code
        nearest = f"{low:g}" if value < low else f"{high:g}"
    else:
        nearest = _nearest(cell, value, values)
    raise ElbowroomError(
        f"column {part.name!r}: {cell!r} was not in training; the nearest known value is {nearest}"
    )


def _nearest(cell: str, value: float | None, values: Sequence[str]) -> str:
    if value is not None:
        numbers = [
            (abs(known - value), text) for text in values if (known := number(text)) is not None
        ]
        if numbers:
            return min(numbers)[1]
    near = difflib.get_close_matches(cell, values, n=1, cutoff=0)
    return repr(near[0] if near else values[-1])


def bin_codes(
    numbers: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    bins: Sequence[tuple[float, float]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """[n] the bin of each number: between two bins the nearer one, beyond all the last."""
    ends = np.array(bins)
    cuts = ends[:-1, 1] + (ends[1:, 0] - ends[:-1, 1]) / 2
    return np.searchsorted(cuts, numbers, side="right" if len(cuts) == 0 else "left")
