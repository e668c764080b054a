"""Byte-level tokenizers of Hugging Face's ``tokenizers`` (``elbowroom[text]``).

Byte-pair encoding starts with the 256 bytes and merges the most frequent pair until the vocabulary
has the requested size (Sennrich et al. 2016; Radford et al. 2019 for bytes). Its file writes a byte
as a letter: printable Latin-1 characters as themselves, the others, in order, as the letters
from U+0100 on. Every text can be encoded, and decoding is concatenation. Other tokenizers (words,
SentencePiece) lose spaces or characters, and are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from elbowroom import ElbowroomError

from .vocabulary import Codes, Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CHUNK = 1 << 16  # characters per call, to limit the tokenizer's memory
_LARGEST_ID = 1 << 22  # the vocabulary is a table of all ids
_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHER = tuple(byte for byte in range(256) if byte not in _PRINTABLE)
_BYTE = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(0x100 + k): byte for k, byte in enumerate(_OTHER)
}


class Tokens(Vocabulary):
    """The vocabulary of a tokenizer."""

    def __init__(self, tokenizer: Tokenizer, source: object) -> None:
        self._tokenizer = tokenizer
        added = {k: one.content for k, one in tokenizer.get_added_tokens_decoder().items()}
        pieces = {number: piece for piece, number in tokenizer.get_vocab().items()}
        if len(pieces) < 2:
            raise ElbowroomError(f"{source} has {len(pieces)} tokens; at least 2 are needed")
        if max(pieces) >= _LARGEST_ID:
            raise ElbowroomError(f"{source} has the token id {max(pieces)}, above {_LARGEST_ID}")
        read = {k: added[k] if k in added else _text(piece, source) for k, piece in pieces.items()}
        self.tokens = tuple(read.get(k, "") for k in range(max(read) + 1))

    @classmethod
    def trained(cls, text: str, size: int, source: object) -> Tokens:
        """Train a tokenizer with ``size`` tokens on a text; deterministic."""
        library = _library()
        tokenizer = library.Tokenizer(library.models.BPE())
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=size,
            initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(_parts(text), trainer)
        found = tokenizer.get_vocab_size()
        if found < size:
            raise ElbowroomError(
                f"{source}: the train split has only {found} different tokens. Set "
                f"data.tokenizer={found} or less."
            )
        return cls(tokenizer, source)

    @classmethod
    def read(cls, path: Path) -> Tokens:
        """Read a ``tokenizer.json``."""
        library = _library()
        try:
            tokenizer = library.Tokenizer.from_str(path.read_text("utf-8"))
        except OSError as error:
            raise ElbowroomError(f"cannot read the tokenizer {path}: {error.strerror}") from error
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the library may panic, which is not an Exception
            raise ElbowroomError(f"{path} is not a tokenizer file: {error}") from None
        if not isinstance(tokenizer.decoder, library.decoders.ByteLevel):
            raise _not_byte_level(path)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return cls(tokenizer, path)

    def encode(self, text: str) -> Codes:
        try:
            encoded = [
                self._tokenizer.encode(p, add_special_tokens=False).ids for p in _parts(text)
            ]
        except Exception as error:  # a file may name tokens that it does not have
            raise ElbowroomError(f"the tokenizer cannot encode the text: {error}") from error
        return np.concatenate(
            [np.empty(0, self.dtype), *(np.array(i, self.dtype) for i in encoded)]
        )


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise ElbowroomError(
            "data.tokenizer needs the package tokenizers: pip install 'elbowroom[text]'. Without "
            "data.tokenizer the tokens are characters."
        ) from None
    return tokenizers


def _parts(text: str) -> Iterator[str]:
    return (text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK))


def _text(piece: str, source: object) -> str:
    """The text of a token; incomplete characters by surrogateescape."""
    try:
        return bytes(_BYTE[letter] for letter in piece).decode("utf-8", "surrogateescape")
    except KeyError:
        raise _not_byte_level(source) from None


def _not_byte_level(source: object) -> ElbowroomError:
    return ElbowroomError(
        f"{source} is not a byte-level tokenizer, like those of GPT-2 and Llama 3. Only these "
        "decode by concatenation; data.tokenizer=1024 trains one."
    )
