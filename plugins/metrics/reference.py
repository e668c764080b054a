"""Reference files: what FID needs to know of real data, in a file that others write and read too.

FID sees of a set of examples only the mean m and the covariance S of its features. ADM's evaluation
(Dhariwal & Nichol 2021) keeps these as an ``.npz``,

    mu [F], sigma [F, F]            of the features
    mu_s [S], sigma_s [S, S]        of spatial features, for sFID, where there are any
    arr_0 [N, H, W, 3] uint8        or the pictures themselves, to be looked at

so published references can be compared with, and a data set is looked at once for everybody. Files
made here also say ``count``, ``data``, ``features``, ``features_sha256``: those of another feature
network are refused, as far as they say.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
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
from .npz import Npz, Stored, open_npz

_WIDEST = 2**13  # features: their covariance then takes half a gigabyte
_WORDS = 1000  # of a text, in characters
_ROUNDING = 1e-5  # of a covariance in single precision, as a share of its largest value
_WHAT = "reference file"


@attrs.frozen(eq=False)
class Reference:
    """What a file says; its pictures, if it has those instead, are read when they are needed."""

    path: Path
    digest: str  # sha256 of the file
    moments: Mapping[str, Moments]  # "" of features, "_s" of spatial ones
    about: Mapping[str, str]  # data, features, features_sha256
    count: int | None  # examples; None: the file does not say
    pictures: Stored | None

    @classmethod
    def read(cls, path: str | Path) -> Reference:
        """Open a file, and believe nothing of it that was not looked at."""
        path = Path(path).expanduser()
        with open_npz(path, _WHAT) as file:
            kinds = [tail for tail in ("", "_s") if f"mu{tail}" in file.arrays]
            pictures = file.arrays.get("arr_0")
            if "" not in kinds and pictures is None:
                listed = ", ".join(list(file.arrays)[:8]) or "nothing"
                raise ValueError(f"it holds {listed}, and neither mu and sigma nor arr_0")
            moments = {tail: _moments(file, tail) for tail in kinds}
            about = {name: _text(file, name) for name in _ABOUT if name in file.arrays}
            count = _count(file) if moments or pictures is None else (*pictures.shape, 0)[0]
        return cls(path, _file_digest(path), moments, about, count, pictures)

    @property
    def name(self) -> str:
        """What a heading calls it: its data, or the file."""
        return self.about.get("data", self.path.name)

    def protocol(self) -> dict[str, Any]:
        """What a measurement against it says."""
        words = self.name if self.count is None else f"{self.count} examples of {self.name}"
        return {"against": words, "reference": self.name, "reference_sha256": self.digest[:16]}

    def stated(self, network: FeatureNetwork, size: int, kind: str) -> Moments:
        """The moments it has; those of another feature network are refused, if that is known."""
        if kind not in self.moments:
            raise ElbowroomError(f"{self.path} has no mu{kind} and sigma{kind}, nor pictures")
        said = self.about.get("features"), self.about.get("features_sha256")
        if said[0] not in (None, network.name) or said[1] not in (None, network.digest):
            raise ElbowroomError(
                f"{self.path} was made with the features {said[0]} (sha256 {(said[1] or '')[:16]}) "
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
        """The pictures of ``arr_0`` as the data's integers [B, H, W, C]."""
        assert self.pictures is not None
        high, wide, channels = (*spec.shape, 0, 0, 0)[:3]
        shape, form = self.pictures.shape, (high, wide)
        fits = len(shape) == 4 and shape[1:3] == form and shape[3] in (channels, 3)
        if fits and shape[0] < 2:
            raise ElbowroomError(f"{self.path}: arr_0 must have at least two pictures")
        if not fits or self.pictures.dtype != np.uint8:
            raise ElbowroomError(
                f"{self.path}: arr_0 is {self.pictures.dtype} of shape {shape}, and pictures to "
                f"compare with this data are uint8 [N, {high}, {wide}, {channels}]"
            )
        with open_npz(self.path, _WHAT) as file:
            for part in file.rows("arr_0", size):
                yield self._integers(torch.from_numpy(part.copy()), channels, spec.levels)

    def _integers(self, shades: Tensor, channels: int, levels: int) -> Tensor:
        """Bytes 0 .. 255 [B, H, W, C] -> integers 0 .. levels - 1, which have just these shades."""
        x = (shades.double() * ((levels - 1) / 255)).round()
        if not torch.equal((x * (255 / (levels - 1))).round(), shades.double()):
            raise ElbowroomError(
                f"{self.path}: arr_0 has shades that data of {levels} levels do not have"
            )
        if channels < shades.shape[3] and not (x == x[..., :1]).all():
            raise ElbowroomError(f"{self.path}: arr_0 is coloured, and this data is grey")
        return x[..., :channels].long()


_ABOUT = ("data", "features", "features_sha256")


def write_reference(
    path: Path, moments: Mapping[str, Moments], count: int, data: str, network: FeatureNetwork
) -> None:
    """A file in ADM's form, with what it is of beside it."""
    arrays: dict[str, Any] = {}
    for tail, one in moments.items():
        arrays[f"mu{tail}"], arrays[f"sigma{tail}"] = one.mean.numpy(), one.covariance.numpy()
    arrays |= zip(_ABOUT, (data, network.name, network.digest), strict=True)
    content = io.BytesIO()
    np.savez(content, count=np.int64(count), **arrays)
    write_atomically(path, content.getvalue())


def _moments(file: Npz, tail: str) -> Moments:
    """mu and sigma of a kind: of one width, finite, and a covariance."""
    names = (f"mu{tail}", f"sigma{tail}")
    if names[1] not in file.arrays:
        raise ValueError(f"it has {names[0]} and no {names[1]}")
    mu, sigma = (file.arrays[name] for name in names)
    width = mu.shape[0] if len(mu.shape) == 1 else 0
    if not 1 <= width <= _WIDEST or sigma.shape != (width, width):
        raise ValueError(
            f"{mu.name} {mu.shape} and {sigma.name} {sigma.shape} are no mean [F] and covariance "
            f"[F, F] of up to {_WIDEST} features"
        )
    if mu.dtype.kind != "f" or sigma.dtype.kind != "f":
        raise ValueError(f"{mu.name} and {sigma.name} are {mu.dtype} and {sigma.dtype}, not floats")
    mean, covariance = (torch.from_numpy(file.whole(n).astype(np.float64)) for n in names)
    if not (mean.isfinite().all() and covariance.isfinite().all()):
        raise ValueError(f"{mu.name} or {sigma.name} is not finite")
    apart = (covariance - covariance.T).abs().max()
    if apart > _ROUNDING * covariance.abs().max() or covariance.diagonal().min() < 0:
        raise ValueError(f"{sigma.name} is no covariance: not symmetric, or with a negative square")
    return Moments(mean, covariance)


def _text(file: Npz, name: str) -> str:
    stored = file.arrays[name]
    if stored.shape or stored.dtype.kind != "U" or stored.dtype.itemsize > 4 * _WORDS:
        raise ValueError(f"{name} is no short text")
    return str(file.whole(name))


def _count(file: Npz) -> int | None:
    stored = file.arrays.get("count")
    if stored is None:
        return None
    if stored.shape or stored.dtype.kind not in "iu" or (count := int(file.whole("count"))) < 2:
        raise ValueError("count is no number of examples")
    return count


def _file_digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(2**20):
            total.update(part)
    return total.hexdigest()
