"""A vocabulary: from text to numbers and back, so that no character is lost on the way.

    text  --encode-->  [M] integers 0 .. V-1  --decode-->  the same text

A token reads as a text of its own, and a text is its tokens in a row. A token may be bytes that
are no whole character (half of an umlaut): such bytes are written as Python's ``surrogateescape``
does, so that the tokens in a row are whole again.
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

_AT_ONCE = 1 << 22  # characters looked at together: memory beside the text and its codes
_UNICODE = 0x110000  # code points
_MOST = 4096  # an alphabet beyond this is no text that a model of characters should see


class Vocabulary(ABC):
    """What the numbers of a text mean."""

    tokens: tuple[str, ...]  # what each number reads as

    @abstractmethod
    def encode(self, text: str) -> Codes:
        """[M] of a text."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest that holds every token's number."""
        return np.min_scalar_type(len(self.tokens) - 1)


class Characters(Vocabulary):
    """Every character of some texts, in the order of Unicode."""

    def __init__(self, texts: list[str], source: object) -> None:
        there = np.zeros(_UNICODE, dtype=bool)
        for text in texts:
            for points in _points(text):
                there[points] = True
        alphabet = np.flatnonzero(there)
        if len(alphabet) < 2:
            raise ElbowroomError(
                f"{source} has {len(alphabet)} different characters; 2 are needed to learn anything"
            )
        if len(alphabet) > _MOST:
            raise ElbowroomError(
                f"{source} has {len(alphabet)} different characters, more than {_MOST}: set "
                "data.tokenizer=8192 to learn pieces of text instead, or data.lower=true"
            )
        if ((alphabet >= 0xD800) & (alphabet < 0xE000)).any():
            raise ElbowroomError(f"{source} has halves of characters: its encoding is another")
        self._source = source
        self.tokens = tuple(map(chr, alphabet.tolist()))
        self._number = np.full(_UNICODE, len(alphabet), dtype=np.uint16)  # V: not in it
        self._number[alphabet] = np.arange(len(alphabet))

    def encode(self, text: str) -> Codes:
        codes = np.empty(len(text), self.dtype)
        start = 0
        for points in _points(text):
            numbers = self._number[points]
            if unknown := points[numbers == len(self.tokens)][:1].tolist():
                raise ElbowroomError(
                    f"{self._source} has no {chr(unknown[0])!r}, so it has no level"
                )
            codes[start : start + len(points)] = numbers
            start += len(points)
        return codes


def counts(codes: Codes, size: int) -> NDArray[np.int64]:
    """[size] how often each number occurs."""
    found = np.zeros(size, np.int64)
    for start in range(0, len(codes), _AT_ONCE):
        found += np.bincount(codes[start : start + _AT_ONCE], minlength=size)
    return found


def _points(text: str) -> Iterator[NDArray[np.uint32]]:
    """The code points of a text, some at a time."""
    for start in range(0, len(text), _AT_ONCE):
        part = text[start : start + _AT_ONCE]
        yield np.frombuffer(part.encode("utf-32-le", "surrogatepass"), dtype="<u4")
