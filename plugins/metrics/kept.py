"""What depends on data and code alone: worked out once, kept in the user's cache by content.

A key is the sha256 of everything the tensors are a function of. A file that is missing, damaged or
made of something else is made again; one that cannot be written is no fault.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import torch
from elbowroom import Dataset, ElbowroomError
from elbowroom.files import cache_folder, write_atomically
from elbowroom.plugins.evaluation.metric import Subject
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

_LOOK = 4096  # examples hashed at once

Tensors = dict[str, Tensor]


@attrs.frozen
class Kept:
    """A file of the cache."""

    path: Path

    @classmethod
    def of(cls, kind: str, *key: str) -> Kept:
        """The file for tensors of this kind that are a function of ``key``."""
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        return cls(cache_folder() / "features" / f"{kind}-{digest[:32]}.safetensors")

    def read(self) -> tuple[Tensors, dict[str, Any]] | None:
        """The tensors and what was said of them, if they are there and whole."""
        try:
            with safe_open(self.path, framework="pt") as file:
                about = json.loads(file.metadata()["about"])
                return _copied({name: file.get_tensor(name) for name in file.keys()}), about  # noqa: SIM118  # no dict
        except (OSError, SafetensorError, KeyError, ValueError, TypeError):
            return None

    def write(self, tensors: Tensors, about: Mapping[str, Any] | None = None) -> None:
        """Keep them, if that is possible."""
        whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
        with contextlib.suppress(OSError, ElbowroomError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, save(whole, {"about": json.dumps(dict(about or {}))}))


def of_real_data(
    subject: Subject,
    file: str,
    network: tuple[str, str] | None,
    settings: tuple[Any, ...],
    make: Callable[[], Tensors],
) -> Tensors:
    """What a metric, the code in ``file``, says of real examples with these ``settings``.

    ``network`` is the code and the weights it looks through, each a digest; None if the code is
    not known, and then nothing is kept.
    """
    if network is None:
        return make()
    used = (subject.batch_size, str(subject.device), torch.__version__, *settings)
    kept = Kept.of(Path(file).stem, code_digest(file), *network, digest_of(subject), repr(used))
    if (found := kept.read()) is not None:
        return found[0]
    made = _copied(make())
    kept.write(made)
    return made


def _copied(tensors: Tensors) -> Tensors:
    """Where and how numbers lie in memory decides in which order they are summed: always alike."""
    usual = torch.contiguous_format
    return {name: tensor.clone(memory_format=usual) for name, tensor in tensors.items()}


def code_digest(file: str) -> str:
    """sha256 of a source file."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def digest_of(subject: Subject) -> str:
    """The digest of a subject's data, computed once for all metrics."""
    return subject.once("data digest", lambda: data_digest(subject.data))


def data_digest(data: Dataset) -> str:
    """sha256 of a data set's training and test examples with their labels."""
    total = hashlib.sha256(repr((data.spec.shape, data.spec.levels, data.spec.classes)).encode())
    for name in ("train", "test"):
        for batch in data.split(name).batches(_LOOK):
            for part in (batch.x, batch.y):
                if part is not None:
                    total.update(part.to(torch.int32).contiguous().numpy().tobytes())
        total.update(name.encode())
    return total.hexdigest()
