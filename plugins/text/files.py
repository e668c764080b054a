"""Find the texts of each split.

    FILE                          one text: the first 90 % train, 5 % validation, the last 5 % test
    FOLDER/*.txt, FOLDER/a/*.txt  one text: all files, shuffled, split in the same way
    FOLDER/train.txt, test.txt    splits by name (also folders of these names; validation, valid or
                                  val); a missing split is the end of train

Files are joined by a newline. The files of a folder are ordered by the keyed permutation of seed 0
of their sorted names: the same on every machine, and independent of the alphabet.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path

import torch
from elbowroom import ElbowroomError
from elbowroom.randomness import permute

_NAMES = {"train": "train", "validation": "validation", "valid": "validation",
          "val": "validation", "test": "test"}  # fmt: skip
_ENDS = (0.9, 0.95)  # of train and validation in a single text
_SEED = 0  # defines the order of files: never changes
LARGEST_SIZE = 1 << 31
"""Bytes of all files without ``data.limit``: text is kept in memory."""


def read_splits(path: Path, pattern: str, encoding: str, limit: int | None) -> dict[str, str]:
    """Return the text of each split, at most ``limit`` characters of each."""
    try:
        parts = _parts(path, pattern)
        _check_size([file for files in parts.values() for file in files], path, limit)
    except OSError as error:
        raise ElbowroomError(f"cannot read the text {path}: {error.strerror}") from error
    texts = {part: _read(files, encoding, limit) for part, files in parts.items()}
    if len(texts) == 1:
        whole = texts["train"]
        first, second = (round(end * len(whole)) for end in _ENDS)
        return {"train": whole[:first], "validation": whole[first:second], "test": whole[second:]}
    for missing in {"validation", "test"} - texts.keys():
        whole = texts["train"]
        cut = round(_ENDS[1] * len(whole))
        texts["train"], texts[missing] = whole[:cut], whole[cut:]
    return texts


def _parts(path: Path, pattern: str) -> dict[str, list[Path]]:
    """Return the files of each split in order; only train if names define no splits."""
    if path.is_file():
        return {"train": [path]}
    if not path.is_dir():
        what = "is neither a file nor a folder" if path.exists() else "does not exist"
        raise ElbowroomError(f"data.path: {path} {what}")
    try:
        found = [file for file in path.rglob(pattern) if file.is_file()]
    except (ValueError, NotImplementedError) as error:
        raise ElbowroomError(f"data.pattern={pattern!r} is not a file pattern: {error}") from None
    inside = {file: file.relative_to(path).parts for file in found}
    files = sorted(f for f in found if not any(part.startswith(".") for part in inside[f]))
    if not files:
        raise ElbowroomError(
            f"{path} has no file that matches {pattern!r}. Set data.pattern, e.g. '*.md' or '*'."
        )
    named = {file: _NAMES.get(Path(inside[file][0]).stem) for file in files}
    if None in named.values() or "train" not in named.values():
        return {"train": _shuffled(files)}
    parts: dict[str, list[Path]] = {}
    for file, name in named.items():
        parts.setdefault(name or "", []).append(file)
    return {name: _shuffled(found) for name, found in parts.items()}


def _shuffled(files: Sequence[Path]) -> list[Path]:
    if len(files) < 2:
        return list(files)
    return [files[k] for k in permute(torch.arange(len(files)), len(files), _SEED).tolist()]


def _check_size(files: Sequence[Path], path: Path, limit: int | None) -> None:
    size = sum(file.stat().st_size for file in files)
    if limit is None and size > LARGEST_SIZE:
        raise ElbowroomError(
            f"{path} has {size / 2**30:.1f} GiB of text, which is kept in memory. Set data.limit "
            "to the number of characters to read."
        )


def _read(files: Sequence[Path], encoding: str, limit: int | None) -> str:
    texts, left = [], limit
    for file in files:
        texts.append(_read_one(file, encoding, left))
        if left is not None:
            left -= len(texts[-1]) + 1
            if left <= 0:
                break
    return "\n".join(texts)


def _read_one(file: Path, encoding: str, limit: int | None) -> str:
    codec = codecs.lookup(encoding).name
    codec = "utf-8-sig" if codec == "utf-8" else codec  # skips a byte order mark
    try:
        with file.open(encoding=codec, newline="") as opened:  # keeps line ends
            return opened.read(-1 if limit is None else limit)
    except OSError as error:
        raise ElbowroomError(f"cannot read the text {file}: {error.strerror}") from error
    except MemoryError:
        raise ElbowroomError(f"{file} does not fit into memory. Set data.limit.") from None
    except UnicodeError as error:
        raise ElbowroomError(_undecodable(file, encoding, error)) from error


def _undecodable(file: Path, encoding: str, error: UnicodeError) -> str:
    with file.open("rb") as opened:
        head = opened.read(4096)
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if head.startswith(mark):
            return f"{file} is not {encoding} text. Set data.encoding={name}."
    advice = "it is not text" if b"\0" in head else "set data.encoding, e.g. latin-1"
    return f"{file} is not {encoding} text: {error}; {advice}"
