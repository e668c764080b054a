"""A reference file made of a data set: looked at once, for FID of any number of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
import torch
from elbowroom import Dataset, ElbowroomError, named_component
from elbowroom.config import parse_spec
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.runs import resolve_device

from .features import Eye, FeatureSpec, eye
from .moments import Moments, Sums
from .reference import write_reference


@attrs.frozen
class ReferenceReport:
    """What was written, and of what."""

    path: Path
    data: str
    count: int  # examples
    width: int  # features of each
    features: Mapping[str, Any]  # what a measurement says of the network

    def record(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {**attrs.asdict(self), "path": str(self.path)}


def make_reference(
    data: str | Mapping[str, Any] | Dataset,
    out: str | PathLike[str],
    *,
    features: FeatureSpec = "classifier",
    split: str = "train",
    batch_size: int = 250,
    device: torch.device | str | None = None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> ReferenceReport:
    """Write mean and covariance of a split's features to ``out``, in ADM's form.

    make_reference("digits", "digits.npz", split="test")
    """
    path, known = Path(out), _dataset(data)
    if path.suffix != ".npz" or not path.absolute().parent.is_dir():
        raise ElbowroomError(
            f"--out {path}: a reference is an .npz file, in a folder that is there"
        )
    subject = Subject(known, batch_size=batch_size, device=resolve_device(device))
    count = len(known.split(split))
    if count < 2:
        raise ElbowroomError(f"the {split} split has {count} examples: a covariance needs two")
    progress("preparing features", 0, count)
    looking = eye(features, subject)
    moments = _moments(looking, split, subject, progress)
    name = f"{_name(data)} {split}"
    try:
        write_reference(path, moments, count, name, looking.network)
    except OSError as error:
        raise ElbowroomError(f"cannot write {path}: {error.strerror}") from error
    width = len(moments[""].mean)
    return ReferenceReport(path, name, count, width, looking.network.protocol())


def _dataset(data: str | Mapping[str, Any] | Dataset) -> Dataset:
    if isinstance(data, Dataset):
        return data
    spec = parse_spec(data) if isinstance(data, str) else data
    made: Dataset = named_component("dataset", spec, path="DATA").build()
    return made


def _name(data: str | Mapping[str, Any] | Dataset) -> str:
    """What a heading calls the data."""
    if isinstance(data, Dataset):
        return type(data).__name__.lower()
    spec = parse_spec(data) if isinstance(data, str) else data
    return str(spec["name"] if isinstance(spec, Mapping) else spec)


def _moments(
    looking: Eye, split: str, subject: Subject, progress: Callable[[str, int, int], None]
) -> dict[str, Moments]:
    """Of the features of a split, and of its spatial ones where the network gives them."""
    examples, done = subject.data.split(split), 0
    one = examples.take(torch.arange(1)).x
    sums = {"": Sums(looking(one).vectors.shape[1])}
    if looking.network.spatial(one.to(subject.device)) is not None:
        sums["_s"] = Sums(looking.spatial(one).shape[1])
    for batch in examples.batches(subject.batch_size):
        sums[""].update(looking(batch.x).vectors)
        if "_s" in sums:
            sums["_s"].update(looking.spatial(batch.x))
        done += len(batch)
        progress("looking at examples", done, len(examples))
    return {kind: total.moments() for kind, total in sums.items()}
