"""``text``: runs of characters, or of a tokenizer's pieces, of a file or a folder.

    data: {name: text, path: book.txt, length: 64}                      characters
    data: {name: text, path: book.txt, length: 64, tokenizer: 1024}     1024 pieces, learnt from it
    data: {name: text, path: books/, length: 64, tokenizer: pieces.json}

An example is ``length`` tokens in a row. In train one begins at every ``stride``-th token; in
validation and test they follow each other, so that every token counts once (what does not fill an
example is left out). Splits are stretches of the text and share no token
(:mod:`elbowroom.plugins.text.files`).

Bits are said per character and per byte (UTF-8) too, so that vocabularies can be compared: with n
tokens, c characters and b bytes in a split, bits per character are n/c of those per token.
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
        raise ValueError(f"no encoding {name!r}: usual ones are utf-8, utf-16, latin-1") from None
    if not getattr(known, "_is_text_encoding", True):
        raise ValueError(f"{name!r} is no encoding of text")


def _is_size(_: object, __: attrs.Attribute[Any], tokenizer: int | Path | None) -> None:
    if isinstance(tokenizer, int) and tokenizer < 257:
        raise ValueError(
            f"a tokenizer of {tokenizer} pieces: 256 are the bytes, so 257 are the fewest"
        )


@attrs.frozen(kw_only=True, slots=False)  # no slots: what was read is kept by cached_property
class Text(Dataset):
    """Runs of tokens. ``lower`` makes one letter of big and small ones."""

    path: Path
    length: int = attrs.field(default=64, validator=ge(1))  # tokens of an example
    stride: int = attrs.field(default=1, validator=ge(1))  # between beginnings in train
    lower: bool = False
    tokenizer: int | Path | None = attrs.field(default=None, validator=_is_size)
    """None: characters. A number: so many pieces, learnt from train. A path: a tokenizer's file."""
    pattern: str = "*.txt"  # which files of a folder, also of those in it
    encoding: str = attrs.field(default="utf-8", validator=_is_encoding)
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))  # characters read

    @property
    def spec(self) -> DataSpec:
        tokens = self._vocabulary.tokens
        return DataSpec((self.length,), levels=len(tokens), tokens=tokens)

    @property
    def alphabet(self) -> str:
        """The character of each level, where tokens are characters."""
        return "".join(self._vocabulary.tokens)

    def split(self, name: str) -> Split:
        codes = self._codes[check_split(name)]
        return Runs(codes, self.length, self.stride if name == "train" else self.length)

    def units(self, split: str) -> Mapping[str, float]:
        """Characters and bytes of an example, on average over the split."""
        tokens, codes = self._vocabulary.tokens, self._codes[check_split(split)]
        often = counts(codes, len(tokens))  # [V] whole numbers: sums are exact
        characters = int(often @ [_begun(token) for token in tokens])
        size = int(often @ [len(_bytes(token)) for token in tokens])
        whole = {"character": characters, "byte": size}
        return {unit: number / len(codes) * self.length for unit, number in whole.items()}

    def encode(self, text: str) -> Tensor:
        """[N] int64: the levels of a text's tokens."""
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
        """What numbers mean, and those of each split; the text itself is not kept."""
        texts = read_splits(self.path.expanduser(), self.pattern, self.encoding, self.limit)
        if self.lower:
            texts = {name: text.lower() for name, text in texts.items()}
        vocabulary = self._vocabulary_of(texts)
        codes = {name: vocabulary.encode(text) for name, text in texts.items()}
        for name, of_it in codes.items():
            if len(of_it) < self.length:
                raise ElbowroomError(
                    f"{self.path} has {len(of_it)} tokens for {name}, too few for one example of "
                    f"{self.length}: make data.length smaller, or give it more text"
                )
        return vocabulary, codes

    def _vocabulary_of(self, texts: Mapping[str, str]) -> Vocabulary:
        if self.tokenizer is None:
            return Characters(list(texts.values()), self.path)
        from .tokenizer import Pieces

        if isinstance(self.tokenizer, int):
            return Pieces.learnt(texts["train"], self.tokenizer, self.path)
        return Pieces.read(self.tokenizer.expanduser())


@attrs.frozen(eq=False)
class Runs(Split):
    """Runs of ``length`` codes, one beginning at every ``stride``-th."""

    codes: Codes  # [M]
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


def _bytes(token: str) -> bytes:
    """A token in UTF-8; bytes of no whole character as they are."""
    return token.encode("utf-8", "surrogateescape")


def _begun(token: str) -> int:
    """How many characters begin in a token: one at each byte that continues none."""
    return sum(byte & 0xC0 != 0x80 for byte in _bytes(token))
