"""Vocabularies: a lossless map between text and integers.

    text  --encode-->  [M] integers 0 .. V-1  --decode-->  the same text

Decoding concatenates the texts of the tokens. A token may end inside a character (half of an
umlaut): such bytes are represented by Python's ``surrogateescape``, so that concatenation restores
the character.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from elbowroom import ElbowroomError
from numpy.typing import NDArray

Codes = NDArray[Any]
"""[M] unsigned integers, one for each token."""

_CHUNK = 1 << 22  # characters processed together, to limit memory
_UNICODE = 0x110000  # code points
_LARGEST = 4096  # characters


class Vocabulary(ABC):
    """Encodes a text as integers."""

    tokens: tuple[str, ...]  # the text of each integer

    @abstractmethod
    def encode(self, text: str) -> Codes:
        """Return the codes [M] of a text."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest dtype for all codes."""
        return np.min_scalar_type(len(self.tokens) - 1)


class Characters(Vocabulary):
    """All characters of some texts, in Unicode order."""

    def __init__(self, texts: list[str], source: object) -> None:
        present = np.zeros(_UNICODE, dtype=bool)
        for text in texts:
            for points in _points(text):
                present[points] = True
        alphabet = np.flatnonzero(present)
        if len(alphabet) < 2:
            raise ElbowroomError(
                f"{source} has {len(alphabet)} different characters; at least 2 are needed"
            )
        if len(alphabet) > _LARGEST:
            raise ElbowroomError(
                f"{source} has {len(alphabet)} different characters, more than {_LARGEST}. Set "
                "data.tokenizer=8192 to train a tokenizer, or data.lower=true."
            )
        if ((alphabet >= 0xD800) & (alphabet < 0xE000)).any():
            raise ElbowroomError(f"{source} has unpaired surrogates: data.encoding is wrong")
        self._source = source
        self.tokens = tuple(map(chr, alphabet.tolist()))
        self._number = np.full(_UNICODE, len(alphabet), dtype=np.uint16)  # V: unknown
        self._number[alphabet] = np.arange(len(alphabet))

    def encode(self, text: str) -> Codes:
        codes = np.empty(len(text), self.dtype)
        start = 0
        for points in _points(text):
            numbers = self._number[points]
            if unknown := points[numbers == len(self.tokens)][:1].tolist():
                raise ElbowroomError(f"{chr(unknown[0])!r} is not in the text of {self._source}")
            codes[start : start + len(points)] = numbers
            start += len(points)
        return codes


def counts(codes: Codes, size: int) -> NDArray[np.int64]:
    """[size] the number of occurrences of each code."""
    found = np.zeros(size, np.int64)
    for start in range(0, len(codes), _CHUNK):
        found += np.bincount(codes[start : start + _CHUNK], minlength=size)
    return found


def _points(text: str) -> Iterator[NDArray[np.uint32]]:
    """Yield the code points of a text in chunks."""
    for start in range(0, len(text), _CHUNK):
        part = text[start : start + _CHUNK]
        yield np.frombuffer(part.encode("utf-32-le", "surrogatepass"), dtype="<u4")
