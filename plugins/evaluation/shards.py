"""Samples of an unfinished evaluation, stored so that it can be resumed.

    EVALUATION/shards/000000250.safetensors     the chunk that starts at sample number 250

A shard contains a key (sha256 of weights, config, seed, labels, chunks, precision and versions) and
the sha256 of key and tensors. A damaged shard, or one with another key, is drawn again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs
import torch
from elbowroom import Diffusion, Samples
from elbowroom.files import replace_file
from elbowroom.plugins.sampling.drawing import from_tensors, to_tensors
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .feature_network import weights_digest


@attrs.frozen
class Shards:
    """Stored chunks of samples."""

    folder: Path
    of: Mapping[str, Any]  # further dependencies of the samples: config, precision
    key: str = ""  # sha256 of everything the samples are a function of

    def of_seed(self, seed: int) -> Shards:
        """Return the shards of another sample seed."""
        return attrs.evolve(self, folder=self.folder / f"seed-{seed}")

    def keyed(
        self, model: Diffusion, count: int, labels: Tensor | None, seed: int, batch_size: int
    ) -> Shards:
        """Return the same shards with the key of these samples."""
        device = next((p.device.type for p in model.parameters()), "cpu")
        sampler = model.sampler
        depends = {
            **self.of,
            "files": {} if sampler is None else dict(sampler.grid.made_from()),
            "weights": weights_digest(model),
            "chunks": [count, batch_size, seed],
            "labels": None if labels is None else labels.tolist(),
            "where": [device, torch.__version__, version("elbowroom")],
        }
        words = json.dumps(depends, sort_keys=True, default=str)
        return attrs.evolve(self, key=hashlib.sha256(words.encode()).hexdigest())

    def read(self, first: int) -> Samples | None:
        """Return the chunk that starts at a number, if it is intact and has this key."""
        try:
            with safe_open(self._path(first), framework="pt") as file:
                metadata = file.metadata() or {}
                if metadata.get("key") != self.key:
                    return None
                found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no dict
            same = metadata.get("sha256") == _digest(self.key, found)
            return from_tensors(found) if same and int(found["first"]) == first else None
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError):
            return None

    def write(self, chunk: Samples) -> None:
        """Store a chunk. Errors of the disk are ignored: the chunk would be drawn again."""
        tensors = {name: tensor.contiguous() for name, tensor in to_tensors(chunk).items()}
        content = save(tensors, {"key": self.key, "sha256": _digest(self.key, tensors)})
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._path(chunk.first), content)

    def clear(self) -> None:
        """Delete all chunks."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, first: int) -> Path:
        return self.folder / f"{first:09d}.safetensors"


def _digest(key: str, tensors: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256(key.encode())
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()
