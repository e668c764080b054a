"""``text``: sequences of characters, or of tokens of a tokenizer, from a file or folder.

    data: {name: text, path: book.txt, length: 64}                      characters
    data: {name: text, path: book.txt, length: 64, tokenizer: 1024}     1024 tokens, trained on it
    data: {name: text, path: books/, length: 64, tokenizer: tokens.json}

An example is ``length`` consecutive tokens. In train one starts at every ``stride``-th token; in
validation and test they do not overlap, so that every token counts once (an incomplete last example
is dropped). Splits are contiguous parts of the text (:mod:`elbowroom.plugins.text.files`).

Bits are also reported per character and per byte (UTF-8), which can be compared between
vocabularies: with n tokens and c characters in a split, bits per character are n/c times those per
token.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from attrs.validators import ge, optional
from elbowroom import Batch, Dataset, DataSpec, ElbowroomError, Split
from elbowroom.contracts import check_split
from torch import Tensor

from .files import read_splits
from .vocabulary import Characters, Codes, Vocabulary, counts


def _is_encoding(_: object, __: attrs.Attribute[str], name: str) -> None:
    try:
        known = codecs.lookup(name)
    except LookupError:
        raise ValueError(
            f"unknown encoding {name!r}. Common ones: utf-8, utf-16, latin-1"
        ) from None
    if not getattr(known, "_is_text_encoding", True):
        raise ValueError(f"{name!r} is not a text encoding")


def _is_size(_: object, __: attrs.Attribute[Any], tokenizer: int | Path | None) -> None:
    if isinstance(tokenizer, int) and tokenizer < 257:
        raise ValueError(
            f"tokenizer={tokenizer}: must be at least 257, as 256 tokens are the bytes"
        )


@attrs.frozen(kw_only=True, slots=False)  # no slots, for cached_property
class Text(Dataset):
    """Sequences of tokens. ``lower`` converts the text to lower case."""

    path: Path
    length: int = attrs.field(default=64, validator=ge(1))  # tokens per example
    stride: int = attrs.field(default=1, validator=ge(1))  # tokens between two starts in train
    lower: bool = False
    tokenizer: int | Path | None = attrs.field(default=None, validator=_is_size)
    """None: characters. A number: tokens, trained on train. A path: a tokenizer.json."""
    pattern: str = "*.txt"  # files of a folder and its subfolders
    encoding: str = attrs.field(default="utf-8", validator=_is_encoding)
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))  # characters read

    @property
    def spec(self) -> DataSpec:
        tokens = self._vocabulary.tokens
        return DataSpec((self.length,), levels=len(tokens), tokens=tokens)

    @property
    def alphabet(self) -> str:
        """The character of each level, if tokens are characters."""
        return "".join(self._vocabulary.tokens)

    def split(self, name: str) -> Split:
        codes = self._codes[check_split(name)]
        return Windows(codes, self.length, self.stride if name == "train" else self.length)

    def units(self, split: str) -> Mapping[str, float]:
        """Mean number of characters and bytes per example of the split."""
        tokens, codes = self._vocabulary.tokens, self._codes[check_split(split)]
        count = counts(codes, len(tokens))  # [V] integers: sums are exact
        characters = int(count @ [_characters(token) for token in tokens])
        size = int(count @ [len(_bytes(token)) for token in tokens])
        whole = {"character": characters, "byte": size}
        return {unit: number / len(codes) * self.length for unit, number in whole.items()}

    def encode(self, text: str) -> Tensor:
        """[N] int64: the tokens of a text."""
        return torch.from_numpy(self._vocabulary.encode(text).astype(np.int64))

    def decode(self, x: Tensor) -> list[str]:
        """The text of each example x [B, N]."""
        return self.spec.texts(x)

    @property
    def _vocabulary(self) -> Vocabulary:
        return self._read[0]

    @property
    def _codes(self) -> dict[str, Codes]:
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Vocabulary, dict[str, Codes]]:
        """The vocabulary and the codes of each split; the text itself is not kept."""
        texts = read_splits(self.path.expanduser(), self.pattern, self.encoding, self.limit)
        if self.lower:
            texts = {name: text.lower() for name, text in texts.items()}
        vocabulary = self._vocabulary_of(texts)
        codes = {name: vocabulary.encode(text) for name, text in texts.items()}
        for name, found in codes.items():
            if len(found) < self.length:
                raise ElbowroomError(
                    f"{self.path} has {len(found)} tokens for {name}, fewer than data.length="
                    f"{self.length}. Reduce data.length, or use more text."
                )
        return vocabulary, codes

    def _vocabulary_of(self, texts: Mapping[str, str]) -> Vocabulary:
        if self.tokenizer is None:
            return Characters(list(texts.values()), self.path)
        from .tokenizer import Tokens

        if isinstance(self.tokenizer, int):
            return Tokens.trained(texts["train"], self.tokenizer, self.path)
        return Tokens.read(self.tokenizer.expanduser())


@attrs.frozen(eq=False)
class Windows(Split):
    """Windows of ``length`` codes, one starting at every ``stride``-th."""

    codes: Codes  # [M]
    length: int
    stride: int

    def __len__(self) -> int:
        return (len(self.codes) - self.length) // self.stride + 1

    def take(self, indices: Tensor) -> Batch:
        rows = indices.detach().cpu().numpy()
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"indices {rows.min()} .. {rows.max()} of {len(self)} windows")
        where = rows[:, None] * self.stride + np.arange(self.length)
        return Batch(torch.from_numpy(self.codes[where].astype(np.int64)))


def _bytes(token: str) -> bytes:
    """A token as UTF-8, with incomplete characters as raw bytes."""
    return token.encode("utf-8", "surrogateescape")


def _characters(token: str) -> int:
    """Number of characters that start in a token: bytes that are not continuation bytes."""
    return sum(byte & 0xC0 != 0x80 for byte in _bytes(token))
