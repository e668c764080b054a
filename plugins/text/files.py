"""Which texts there are, and which split each is for.

    FILE                          one text: its first 90 % train, 5 % validation, its last 5 % test
    FOLDER/*.txt, FOLDER/a/*.txt  one text: all files, in an order that no name decides, cut so
    FOLDER/train.txt, test.txt    the splits are as the names say (also folders of these names;
                                  validation, valid or val); what is missing is cut off train's end

Files in a row are parted by a line's end. The order of a folder's files is the keyed permutation
of seed 0 of their sorted names: the same on every machine, and the last files of an alphabet are
not all of the test split.
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
_ENDS = (0.9, 0.95)  # of train and of validation, where one text is all there is
_SEED = 0  # part of the definition of a folder's order: never changes
MOST_BYTES = 1 << 31
"""Of all files together, unless a limit is set: text is kept in memory."""


def read_splits(path: Path, pattern: str, encoding: str, limit: int | None) -> dict[str, str]:
    """Split -> its text. ``limit`` is the most characters of each text that are read."""
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
    """Split -> its files in order; train alone where nothing says what is for what."""
    if path.is_file():
        return {"train": [path]}
    if not path.is_dir():
        what = "is neither a file nor a folder" if path.exists() else "is not there"
        raise ElbowroomError(f"cannot read the text {path}: it {what}; set data.path to a text")
    try:
        found = [file for file in path.rglob(pattern) if file.is_file()]
    except (ValueError, NotImplementedError) as error:
        raise ElbowroomError(f"data.pattern={pattern!r} is no pattern of files: {error}") from None
    inside = {file: file.relative_to(path).parts for file in found}
    files = sorted(f for f in found if not any(part.startswith(".") for part in inside[f]))
    if not files:
        raise ElbowroomError(
            f"{path} has no file that matches {pattern!r}: set data.pattern, like '*.md' or '*'"
        )
    named = {file: _NAMES.get(Path(inside[file][0]).stem) for file in files}
    if None in named.values() or "train" not in named.values():
        return {"train": _mixed(files)}
    parts: dict[str, list[Path]] = {}
    for file, name in named.items():
        parts.setdefault(name or "", []).append(file)
    return {name: _mixed(of_it) for name, of_it in parts.items()}


def _mixed(files: Sequence[Path]) -> list[Path]:
    if len(files) < 2:
        return list(files)
    return [files[k] for k in permute(torch.arange(len(files)), len(files), _SEED).tolist()]


def _check_size(files: Sequence[Path], path: Path, limit: int | None) -> None:
    size = sum(file.stat().st_size for file in files)
    if limit is None and size > MOST_BYTES:
        raise ElbowroomError(
            f"{path} has {size / 2**30:.1f} GiB of text, which is kept in memory: set data.limit "
            "to a number of characters, and only so many are read"
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
    codec = "utf-8-sig" if codec == "utf-8" else codec  # a mark at its beginning is no text
    try:
        with file.open(encoding=codec, newline="") as opened:  # line ends stay as they are
            return opened.read(-1 if limit is None else limit)
    except OSError as error:
        raise ElbowroomError(f"cannot read the text {file}: {error.strerror}") from error
    except MemoryError:
        raise ElbowroomError(f"{file} does not fit into memory: set data.limit") from None
    except UnicodeError as error:
        raise ElbowroomError(_undecodable(file, encoding, error)) from error


def _undecodable(file: Path, encoding: str, error: UnicodeError) -> str:
    with file.open("rb") as opened:
        begins = opened.read(4096)
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if begins.startswith(mark):
            return f"{file} is no {encoding} text: it begins as one of data.encoding={name} does"
    advice = (
        "it looks like no text at all" if b"\0" in begins else "set data.encoding, like latin-1"
    )
    return f"{file} is no {encoding} text: {error}; {advice}"
