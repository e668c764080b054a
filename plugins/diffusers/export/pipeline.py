"""Model and scheduler together: the very samples that ``elbowroom sample`` draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
import torch
from diffusers.pipelines.pipeline_utils import DiffusionPipeline
from diffusers.utils.outputs import BaseOutput
from elbowroom import (
    Diffusion,
    ElbowroomError,
    Labels,
    Objective,
    Sampler,
    draw,
    has_picture,
    installed,
    named_component,
    pixels,
)
from torch import Tensor

from .model import ElbowroomModel
from .scheduler import ElbowroomScheduler

_WHERE = frozenset(
    ("cache_dir", "force_download", "proxies", "token", "local_files_only", "revision")
)
"""What says where files are, for models and schedulers alike."""


@dataclass
class ElbowroomPipelineOutput(BaseOutput):
    """Samples as pictures (None where data has no picture) and as integers."""

    images: Any  # PIL pictures, or float [B, H, W, C] in 0 .. 1
    tokens: Tensor  # [B, *shape] integers


class ElbowroomPipeline(DiffusionPipeline):
    """``pipe(4, class_labels=[0, 1, 2, 3], seed=0).images``."""

    model_cpu_offload_seq = "model"  # type: ignore[assignment]  # None stands for no order

    def __init__(self, model: ElbowroomModel, scheduler: ElbowroomScheduler) -> None:
        super().__init__()
        self.register_modules(  # type: ignore[no-untyped-call]  # diffusers' own
            model=model, scheduler=scheduler
        )

    @classmethod
    def from_pretrained(  # type: ignore[override]  # no model_index.json is followed
        cls, source: str | PathLike[str], *, trust: bool = False, **options: Any
    ) -> ElbowroomPipeline:
        """The pipeline in a folder or on the hub, with diffusers' options for models.

        The parts are of these classes whatever its model_index.json says, which could name any
        module. ``trust`` lets modules run that the parts' configs name.
        """
        if (Path(source) / "unet").is_dir():
            raise ElbowroomError(
                f"{source} holds classes of diffusers alone, which draw without elbowroom: load it "
                "by diffusers.DiffusionPipeline.from_pretrained"
            )
        where = {key: value for key, value in options.items() if key in _WHERE}
        model = ElbowroomModel.from_pretrained(source, subfolder="model", trust=trust, **options)
        scheduler = ElbowroomScheduler.from_pretrained(
            source, subfolder="scheduler", trust=trust, **where
        )
        return cls(model, scheduler)

    @torch.no_grad()
    def __call__(
        self,
        batch_size: int = 1,
        class_labels: Labels = None,
        seed: int = 0,
        num_inference_steps: int | None = None,
        guidance_scale: float | None = None,
        sampler: str | Mapping[str, Any] | None = None,
        chunk: int = 64,
        output_type: str = "pil",
        return_dict: bool = True,
    ) -> ElbowroomPipelineOutput | tuple[Any, Tensor]:
        """Draw ``batch_size`` samples, ``chunk`` at a time.

        By default with the sampler of the run; ``sampler`` is another one, as a config would name
        it. Without ``class_labels`` every class comes in turn. ``output_type`` is pil, np or pt.
        """
        model = self._diffusion(sampler, num_inference_steps, guidance_scale)
        parts = []
        with self.progress_bar(total=batch_size) as bar:
            for part in draw(model, batch_size, class_labels, seed, chunk):
                parts.append(part.x)
                bar.update(len(part.x))
        tokens = torch.cat(parts)
        images = self._images(tokens, output_type)
        if not return_dict:
            return images, tokens
        return ElbowroomPipelineOutput(images=images, tokens=tokens)

    def _diffusion(
        self,
        sampler: str | Mapping[str, Any] | None,
        steps: int | None,
        guidance: float | None,
    ) -> Diffusion:
        """The whole model again; what it was trained for does not matter to samples."""
        chosen: Sampler = self.scheduler.sampler
        if sampler is not None:
            chosen = named_component("sampler", sampler, path="sampler").build()
        if steps is not None:
            chosen = attrs.evolve(chosen, steps=steps)
        if guidance is not None:
            chosen = attrs.evolve(chosen, guidance=guidance)
        find = installed().find
        objective = Objective(
            self.scheduler.process,
            self.scheduler.schedule,
            find("weighting", "elbowroom/elbo").load()(),
            find("time_sampler", "elbowroom/stratified").load()(),
        )
        return Diffusion(objective, self.model.denoiser, chosen)

    def _images(self, tokens: Tensor, output_type: str) -> Any:
        data = self.scheduler.process.data
        if not has_picture(data.shape):
            return None
        colours = pixels(tokens, data.levels)  # [B, H, W, 3] uint8
        if output_type == "pil":
            from PIL import Image

            return [Image.fromarray(picture.numpy()) for picture in colours]
        if output_type == "np":
            return colours.numpy().astype("float32") / 255
        if output_type == "pt":
            return colours.permute(0, 3, 1, 2).float() / 255
        raise ValueError(f"output_type is {output_type!r}; it must be pil, np or pt")
