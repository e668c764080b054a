"""``dinov2``: the self-supervised vision transformer DINOv2, out of a folder of ``transformers``.

Inception was taught the classes of ImageNet and sees textures; DINOv2 learned from pictures alone,
and Fréchet distances of its features agree better with what people find real (Stein et al. 2023).
As there, pictures are enlarged to 224 x 224 by bicubic interpolation, scaled by ImageNet's mean and
deviation, and described by the last layer's class token.

The folder is one that ``save_pretrained`` writes (config.json and model.safetensors), named as
``dinov2:FOLDER``. Nothing is downloaded, no code of the folder is run and nothing is unpickled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from elbowroom import Dataset, ElbowroomError, IncompatibleError
from elbowroom.plugins.evaluation.feature_network import FeatureNetwork, weights_digest
from elbowroom.plugins.sampling.picture import has_picture
from torch import Tensor, nn

from .kept import code_digest

_SIDE, _AT_ONCE = 224, 32
_OF_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and deviation
_FILES = ("config.json", "model.safetensors")


class DINOv2(FeatureNetwork):
    """A DINOv2 of any size, and how the data's integers become its input."""

    name = "dinov2"

    def __init__(self, data: Dataset, folder: str) -> None:
        super().__init__()
        if not has_picture(data.spec.shape):
            raise IncompatibleError(
                "features: dinov2 sees pictures (H, W, 1 or 3), and this data has shape "
                f"{data.spec.shape}"
            )
        self.network = _read(Path(folder).expanduser())
        self.digest, self.levels = weights_digest(self.network), data.spec.levels
        library = f"{code_digest(__file__)} transformers {version('transformers')}"
        self.code = hashlib.sha256(library.encode()).hexdigest()

    @property
    def about(self) -> Mapping[str, Any]:
        config: Any = self.network.config
        return {"features_size": f"{config.num_hidden_layers} layers of {config.hidden_size}"}

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        told = [self.network(self._seen(part)).pooler_output for part in x.split(_AT_ONCE)]
        return torch.cat(told), None

    def _seen(self, x: Tensor) -> Tensor:
        """Integers [B, H, W, C] -> [B, 3, 224, 224]."""
        shades = x.movedim(-1, 1).to(torch.float32) / (self.levels - 1)
        form = (_SIDE, _SIDE)
        large = F.interpolate(shades, form, mode="bicubic", align_corners=False, antialias=True)
        mean, deviation = (torch.tensor(c, device=x.device)[:, None, None] for c in _OF_IMAGENET)
        return (large.clamp(0, 1).expand(-1, 3, -1, -1) - mean) / deviation


def _read(folder: Path) -> nn.Module:
    """The network in a folder, every weight of it out of the file."""
    try:
        from transformers import AutoConfig, AutoModel
    except ImportError:
        raise ElbowroomError(
            "features: dinov2 needs the package transformers: pip install 'elbowroom[dinov2]'"
        ) from None
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise ElbowroomError(
            f"features: {folder} is no folder of a DINOv2: it has no {' and no '.join(missing)}"
        )
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(folder, **local)
        if not config.model_type.startswith("dinov2"):
            raise ValueError(f"its config.json describes a {config.model_type}")
        network, loaded = AutoModel.from_pretrained(
            folder, config=config, use_safetensors=True, output_loading_info=True, **local
        )
    except Exception as error:  # whatever a stranger's file does to the library
        words = " ".join(str(error).split())[:200]
        raise ElbowroomError(f"features: {folder} is no DINOv2: {words}") from error
    if lost := sorted({*loaded["missing_keys"], *(key[0] for key in loaded["mismatched_keys"])}):
        raise ElbowroomError(
            f"features: {folder} lacks weights of its DINOv2: {', '.join(lost[:3])}"
        )
    found: nn.Module = network.requires_grad_(False).eval().float()
    return found
