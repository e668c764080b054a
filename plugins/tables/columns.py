"""One column of a table: cells as integers, with the text or the numbers that each stands for.

    text                 a value for each different text, sorted
    number, few values   a value for each different number (at most ``bins``), in order: exact
    number, many values  ``bins`` ranges with equally many training rows; a number that fills a bin
                         alone has one to itself
    missing              a value of its own, the first

Cells are kept as codes of different texts (4 bytes each), or as floats (8 bytes) once there are
more than 4096 of these, never as both.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import attrs
import numpy as np
from elbowroom import ElbowroomError
from elbowroom.plugins.sampling.rows import bin_codes, number
from numpy.typing import NDArray

MOST = 4096
"""Different texts of a column, at most."""

Bins = tuple[tuple[float, float], ...]


@attrs.frozen(eq=False)
class Coded:
    """A column as integers."""

    codes: NDArray[Any]  # [rows]
    values: tuple[str, ...]
    bins: Bins | None = None
    decimals: int = 0


class Column:
    """Collects the cells of a column, chunk by chunk."""

    def __init__(self, name: str, missing: Collection[str], source: object) -> None:
        self.name = name
        self._missing, self._source = frozenset(missing), source
        self._known: dict[str, int] = {"": 0}  # text -> number in order of appearance
        self._codes: list[NDArray[np.uint32]] = []
        self._numbers: list[NDArray[np.float64]] | None = None  # in their place; NaN is missing

    def add(self, cells: Sequence[str]) -> None:
        """Append cells."""
        missing, known = self._missing, self._known
        if self._numbers is not None:
            self._numbers.append(self._parsed(cells))
            return
        count = len(cells)
        cleaned = ("" if cell in missing else cell for cell in cells)
        codes = np.fromiter((known.setdefault(c, len(known)) for c in cleaned), np.uint32, count)
        self._codes.append(codes)
        if len(known) - 1 > MOST:
            of_code = self._parsed(list(known))
            self._numbers = [of_code[codes] for codes in self._codes]
            self._codes = []

    def _parsed(self, cells: Sequence[str]) -> NDArray[np.float64]:
        found = np.empty(len(cells))
        for k, cell in enumerate(cells):
            value = np.nan if cell in self._missing or not cell else number(cell)
            if value is None:
                raise ElbowroomError(
                    f"{self._source}: column {self.name!r} has more than {MOST} different values "
                    f"and {cell!r} is no number, so there is nothing to learn from it; leave it "
                    f"out with data.drop=[{self.name}]"
                )
            found[k] = value
        return found

    def coded(self, train: NDArray[np.bool_], bins: int) -> Coded:
        """The whole column; bins are those of the rows in ``train``."""
        if self._numbers is not None:
            numbers = np.concatenate(self._numbers)
            self._numbers = []
            return self._binned(numbers, train, bins)
        codes = np.concatenate(self._codes) if self._codes else np.empty(0, np.uint32)
        self._codes = []
        texts = [text for text in self._known if text]
        as_numbers = {text: number(text) for text in texts}
        numeric = bool(texts) and None not in as_numbers.values()
        if numeric and len(set(as_numbers.values())) > bins:
            of_code = np.array([np.nan if not t else as_numbers[t] for t in self._known])
            return self._binned(of_code[codes], train, bins)
        if not numeric and len(texts) == len(codes) > 1:
            raise ElbowroomError(
                f"{self._source}: column {self.name!r} has another text in every row, so there is "
                f"nothing to learn from it; leave it out with data.drop=[{self.name}]"
            )
        key: dict[str, Any] = dict(as_numbers) if numeric else {text: text for text in texts}
        first = {key[text]: text for text in reversed(texts)}  # 1 and 1.0 are one number
        order = sorted(first)
        values = [""] * bool((codes == 0).any()) + [first[one] for one in order]
        place = {one: k + (values[:1] == [""]) for k, one in enumerate(order)}
        new = np.array([0 if not text else place[key[text]] for text in self._known], np.uint16)
        return Coded(new[codes], tuple(values))

    def _binned(self, numbers: NDArray[Any], train: NDArray[np.bool_], most: int) -> Coded:
        there = ~np.isnan(numbers)
        missing = not bool(there.all())
        if not bool((train & there).any()):
            raise ElbowroomError(
                f"{self._source}: column {self.name!r} has no number in the training rows; leave "
                f"it out with data.drop=[{self.name}]"
            )
        bins = quantile_bins(numbers[train & there], most - missing)
        codes = (bin_codes(numbers, bins) + missing).astype(np.uint16)
        codes[~there] = 0
        texts = tuple(f"{a:.12g}" if a == b else f"{a:.12g} to {b:.12g}" for a, b in bins)
        decimals = max(map(_decimals, self._known))
        if not decimals and not bool((numbers[there] % 1 == 0).all()):
            decimals = 6  # not those of the first different texts
        return Coded(codes, ("",) * missing + texts, bins, decimals)


def quantile_bins(numbers: NDArray[Any], most: int) -> Bins:
    """(least, greatest) number of at most ``most`` bins with about equally many numbers each."""
    different, counts = np.unique(numbers, return_counts=True)
    bins: list[tuple[float, float]] = []
    left, begin, inside = int(counts.sum()), 0, 0
    for k, count in enumerate(counts.tolist()):
        share = left / max(most - len(bins), 1)  # rows of each bin still to be made
        full = inside and inside + count / 2 > share  # nearer to the share without this number
        if (full or (inside and count >= share)) and len(bins) < most - 1:
            bins.append((float(different[begin]), float(different[k - 1])))
            left, begin, inside = left - inside, k, 0
        inside += count
    bins.append((float(different[begin]), float(different[-1])))
    return tuple(bins)


def _decimals(text: str) -> int:
    """Digits after the point; 16, beyond a float's, where the number has an exponent."""
    whole = text.lower()
    return 16 if "e" in whole else len(whole.partition(".")[2].rstrip("0"))
