"""Reference files: mean and covariance of the features of real data, in ADM's form.

ADM's evaluation (Dhariwal & Nichol 2021) keeps the statistics that FID needs as an ``.npz``,

    mu [F], sigma [F, F]            of the features
    mu_s [S], sigma_s [S, S]        of spatial features, for sFID, where there are any
    arr_0 [N, H, W, 3] uint8        or the images themselves

so published references can be used, and a data set is processed once for many models. Files
written here also have ``count``, ``data``, ``features`` and ``features_sha256``; a file that
records another feature network is refused. Files are read without unpickling.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from elbowroom import DataSpec, ElbowroomError
from elbowroom.files import write_atomically
from torch import Tensor

from .features import FeatureNetwork
from .moments import Moments

_WIDEST = 2**13  # features: their covariance then takes half a gigabyte
_LONGEST = 1000  # characters of a text
_ROUNDING = 1e-5  # of a covariance in single precision, as a share of its largest value
_DAMAGE = (OSError, EOFError, ValueError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error)
_ABOUT = ("data", "features", "features_sha256")


@attrs.frozen(eq=False)
class Reference:
    """The content of a reference file; its images, if it has those, are read when needed."""

    path: Path
    digest: str  # sha256 of the file
    moments: Mapping[str, Moments]  # "" of features, "_s" of spatial ones
    about: Mapping[str, str]  # data, features, features_sha256
    count: int | None  # examples; None: not recorded
    has_images: bool

    @classmethod
    def read(cls, path: str | Path) -> Reference:
        """Read and validate a file.

        Args:
            path: An ``.npz`` file in ADM's form.

        Returns:
            Its statistics.

        Raises:
            ElbowroomError: The file is damaged, or is not a reference file.
        """
        path = Path(path).expanduser()
        with _opened(path) as file:
            kinds = [tail for tail in ("", "_s") if f"mu{tail}" in file]
            has_images = "arr_0" in file
            if "" not in kinds and not has_images:
                listed = ", ".join(file.files[:8]) or "nothing"
                raise ValueError(f"it holds {listed}, and neither mu and sigma nor arr_0")
            moments = {tail: _moments(file, tail) for tail in kinds}
            about = {name: _text(file, name) for name in _ABOUT if name in file}
            count = _count(file) if moments else (*np.shape(file["arr_0"]), 0)[0]
        return cls(path, _file_digest(path), moments, about, count, has_images)

    @property
    def name(self) -> str:
        """Its data set, or the file's name."""
        return self.about.get("data", self.path.name)

    def protocol(self) -> dict[str, Any]:
        """The protocol of a measurement against it."""
        words = self.name if self.count is None else f"{self.count} examples of {self.name}"
        return {"against": words, "reference": self.name, "reference_sha256": self.digest[:16]}

    def stated(self, network: FeatureNetwork, size: int, kind: str) -> Moments:
        """The recorded moments; raises ElbowroomError if they are of another feature network."""
        if kind not in self.moments:
            raise ElbowroomError(f"{self.path} has no mu{kind} and sigma{kind}, nor images")
        name, digest = self.about.get("features"), self.about.get("features_sha256")
        if name not in (None, network.name) or digest not in (None, network.digest):
            raise ElbowroomError(
                f"{self.path} was made with the features {name} (sha256 {(digest or '')[:16]}) "
                f"and is compared with {network.name} (sha256 {network.digest[:16]}): name those "
                "with --features"
            )
        found = self.moments[kind]
        if (width := len(found.mean)) != size:
            raise ElbowroomError(
                f"{self.path} was made with a feature network of width {width}, and "
                f"{network.name} gives {size} features"
            )
        return found

    def batches(self, spec: DataSpec, size: int) -> Iterator[Tensor]:
        """The images of ``arr_0`` as the data's integers [B, H, W, C]."""
        high, wide, channels = (*spec.shape, 0, 0, 0)[:3]
        with _opened(self.path) as file:
            images = file["arr_0"]
        shape = images.shape
        fits = len(shape) == 4 and shape[1:3] == (high, wide) and shape[3] in (channels, 3)
        if fits and shape[0] < 2:
            raise ElbowroomError(f"{self.path}: arr_0 must have at least two images")
        if not fits or images.dtype != np.uint8:
            raise ElbowroomError(
                f"{self.path}: arr_0 is {images.dtype} of shape {shape}, and images to compare "
                f"with this data are uint8 [N, {high}, {wide}, {channels}]"
            )
        for part in torch.from_numpy(images).split(size):
            yield self._integers(part, channels, spec.levels)

    def _integers(self, shades: Tensor, channels: int, levels: int) -> Tensor:
        """Bytes 0 .. 255 [B, H, W, C] -> the integers 0 .. levels - 1 with these shades."""
        x = (shades.double() * ((levels - 1) / 255)).round()
        if not torch.equal((x * (255 / (levels - 1))).round(), shades.double()):
            raise ElbowroomError(
                f"{self.path}: arr_0 has shades that data of {levels} levels do not have"
            )
        if channels < shades.shape[3] and not (x == x[..., :1]).all():
            raise ElbowroomError(f"{self.path}: arr_0 is coloured, and this data is grey")
        return x[..., :channels].long()


def write_reference(
    path: Path, moments: Mapping[str, Moments], count: int, data: str, network: FeatureNetwork
) -> None:
    """Write a file in ADM's form, with data set and feature network."""
    arrays: dict[str, Any] = {}
    for tail, one in moments.items():
        arrays[f"mu{tail}"], arrays[f"sigma{tail}"] = one.mean.numpy(), one.covariance.numpy()
    arrays |= zip(_ABOUT, (data, network.name, network.digest), strict=True)
    content = io.BytesIO()
    np.savez(content, count=np.int64(count), **arrays)
    write_atomically(path, content.getvalue())


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file without unpickling; any damage is one ElbowroomError."""
    try:
        with zipfile.ZipFile(path):  # np.load reads other forms too
            pass
        with np.load(path, allow_pickle=False) as file:
            yield file
    except _DAMAGE as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise ElbowroomError(f"{path} is no reference file: {why}") from error


def _moments(file: Any, tail: str) -> Moments:
    """mu and sigma of a kind: of one width, finite, and a covariance."""
    names = (f"mu{tail}", f"sigma{tail}")
    if names[1] not in file:
        raise ValueError(f"it has {names[0]} and no {names[1]}")
    mu, sigma = (file[name] for name in names)
    width = mu.shape[0] if mu.ndim == 1 else 0
    if not 1 <= width <= _WIDEST or sigma.shape != (width, width):
        raise ValueError(
            f"{names[0]} {mu.shape} and {names[1]} {sigma.shape} are no mean [F] and covariance "
            f"[F, F] of up to {_WIDEST} features"
        )
    if mu.dtype.kind != "f" or sigma.dtype.kind != "f":
        raise ValueError(f"{names[0]} and {names[1]} are {mu.dtype} and {sigma.dtype}, not floats")
    mean, covariance = (torch.from_numpy(one.astype(np.float64)) for one in (mu, sigma))
    if not (mean.isfinite().all() and covariance.isfinite().all()):
        raise ValueError(f"{names[0]} or {names[1]} is not finite")
    apart = (covariance - covariance.T).abs().max()
    if apart > _ROUNDING * covariance.abs().max() or covariance.diagonal().min() < 0:
        raise ValueError(f"{names[1]} is no covariance: not symmetric, or with a negative variance")
    return Moments(mean, covariance)


def _text(file: Any, name: str) -> str:
    stored = file[name]
    if stored.shape or stored.dtype.kind != "U" or stored.dtype.itemsize > 4 * _LONGEST:
        raise ValueError(f"{name} is no short text")
    return str(stored)


def _count(file: Any) -> int | None:
    stored = file.get("count")
    if stored is None:
        return None
    if stored.shape or stored.dtype.kind not in "iu" or (count := int(stored)) < 2:
        raise ValueError("count is no number of examples")
    return count


def _file_digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(2**20):
            total.update(part)
    return total.hexdigest()
