"""The characters of a text file as a data set.

    data: {name: elbowroom.contrib.text:Text, path: book.txt, length: 64}

The alphabet is every character the file has, in the order of Unicode; an example is a run of
``length`` characters. The file is cut into three stretches, in this order:

    train         the first 90 %: a run begins at every ``stride``-th character
    validation    the next 5 %     } runs follow each other, so that every character
    test          the last 5 %     } counts once (what does not fill a run is left out)

Stretches do not overlap, so no run is in two of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from attrs.validators import ge
from elbowroom import SPLITS, Batch, Dataset, DataSpec, ElbowroomError, Split, check_split
from numpy.typing import NDArray
from torch import Tensor

_ENDS = (0.0, 0.9, 0.95, 1.0)  # of the three stretches
_MOST = 4096  # an alphabet beyond this is no text that a model of characters should see


@attrs.frozen(kw_only=True, slots=False)  # no slots: the file is kept by cached_property
class Text(Dataset):
    """Runs of characters. ``lower`` makes one letter of big and small ones."""

    path: Path
    length: int = attrs.field(default=64, validator=ge(1))
    stride: int = attrs.field(default=1, validator=ge(1))
    lower: bool = False

    @property
    def spec(self) -> DataSpec:
        return DataSpec((self.length,), levels=len(self.alphabet))

    @property
    def alphabet(self) -> str:
        """The character of each level."""
        return self._codes[0]

    def split(self, name: str) -> Split:
        place = SPLITS.index(check_split(name))
        codes = self._codes[1]
        low, high = (round(end * len(codes)) for end in _ENDS[place : place + 2])
        return Runs(codes[low:high], self.length, self.stride if name == "train" else self.length)

    def encode(self, text: str) -> Tensor:
        """[N] int64: the levels of a text's characters."""
        level = {character: i for i, character in enumerate(self.alphabet)}
        unknown = sorted({character for character in text if character not in level})
        if unknown:
            raise ElbowroomError(f"{self.path} has no {unknown[0]!r}, so it has no level")
        return torch.tensor([level[character] for character in text], dtype=torch.int64)

    def decode(self, x: Tensor) -> list[str]:
        """The text of each example x [B, N]."""
        rows: Iterable[Iterable[int]] = x.tolist()
        return ["".join(self.alphabet[code] for code in row) for row in rows]

    @cached_property
    def _codes(self) -> tuple[str, NDArray[Any]]:
        """The alphabet, and the level of every character of the file."""
        text = self._read()
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        alphabet, codes = np.unique(points, return_inverse=True)
        if not 2 <= len(alphabet) <= _MOST:
            raise ElbowroomError(
                f"{self.path} has {len(alphabet)} different characters; 2 to {_MOST} are needed"
            )
        least = min(b - a for a, b in pairwise(_ENDS))
        if round(len(points) * least) < self.length + 1:
            raise ElbowroomError(
                f"{self.path} has {len(points)} characters, too few for runs of {self.length} in "
                f"each split: make data.length smaller, or give it at least "
                f"{round((self.length + 2) / least)} characters"
            )
        return "".join(map(chr, alphabet.tolist())), codes.astype(np.uint16)

    def _read(self) -> str:
        path = self.path.expanduser()
        try:
            text = path.read_bytes().decode("utf-8-sig")  # line ends stay as they are
        except OSError as error:
            raise ElbowroomError(
                f"cannot read the text {path}: {error.strerror}; set data.path to a text file"
            ) from error
        except UnicodeDecodeError as error:
            raise ElbowroomError(f"{path} is no UTF-8 text: {error}") from error
        return text.lower() if self.lower else text


@attrs.frozen(eq=False)
class Runs(Split):
    """Runs of ``length`` codes, one beginning at every ``stride``-th."""

    codes: NDArray[Any]  # [M]
    length: int
    stride: int

    def __len__(self) -> int:
        return (len(self.codes) - self.length) // self.stride + 1

    def take(self, indices: Tensor) -> Batch:
        rows = indices.detach().cpu().numpy()
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"indices {rows.min()} .. {rows.max()} of {len(self)} runs")
        where = rows[:, None] * self.stride + np.arange(self.length)
        return Batch(torch.from_numpy(self.codes[where].astype(np.int64)))
