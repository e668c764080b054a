"""Batch files: one file with ``data`` (a row per image) and ``labels``, a pickle or an ``.npz``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from elbowroom import ElbowroomError
from numpy.typing import NDArray

from .npz import NpzArray
from .pickles import PickledArray, kind, read_pickle


def open_batch(path: Path) -> tuple[NpzArray | PickledArray, NDArray[np.int64]]:
    """``data``, still in the file, and ``labels`` [N]."""
    if path.suffix == ".npz":
        return _open_npz(path)
    content = read_pickle(path)
    if not isinstance(content, dict):
        raise ElbowroomError(f"{path}: a dict was expected, not {kind(content)}")
    # Python 2 wrote its keys as bytes.
    named = {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in content.items()}
    data = named.get("data")
    if not isinstance(data, PickledArray) or "labels" not in named:
        keys = ", ".join(sorted(map(str, named))) or "nothing"
        raise ElbowroomError(f"{path}: 'data' and 'labels' were expected, it has {keys}")
    return data, label_array(named["labels"], path)


def _open_npz(path: Path) -> tuple[NpzArray, NDArray[np.int64]]:
    data, labels = NpzArray(path, "data"), NpzArray(path, "labels")
    if labels.shape != data.shape[:1]:  # before they are read: zeros take no room in a file
        raise ElbowroomError(
            f"{path}: labels of shape {list(labels.shape)} for {data.shape[0]} images"
        )
    return data, label_array(labels, path)


def label_array(labels: Any, path: Path) -> NDArray[np.int64]:
    """[N] int64 of the list or array of whole numbers that a file holds as labels."""
    if isinstance(labels, NpzArray | PickledArray):
        array = labels.whole()
    elif isinstance(labels, list) and all(type(label) in (int, bool) for label in labels):
        array = np.asarray(labels)
    else:  # also lists of lists, of which a small file can hold more than memory
        raise ElbowroomError(f"{path}: labels are not a plain list of whole numbers")
    if array.dtype.kind not in "ui" and array.size:
        raise ElbowroomError(f"{path}: labels are not whole numbers")
    return array.reshape(-1).astype(np.int64)
