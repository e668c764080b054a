"""The pipeline of an exported model; its samples are those of ``elbowroom sample``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    Frame,
    Objective,
    Sampler,
    installed,
    named_component,
)
from elbowroom.config import natural_schedule
from elbowroom.contracts import join_names
from elbowroom.plugins.sampling.drawing import Labels, draw
from elbowroom.plugins.sampling.given import GivenExamples
from elbowroom.plugins.sampling.picture import has_picture, pixels
from torch import Tensor

from ..sampler import DiffusersSampler, GivenScheduler
from .hub import SCHEME, fetch
from .model import ElbowroomModel
from .scheduler import ElbowroomScheduler

_WHERE = frozenset(
    ("cache_dir", "force_download", "proxies", "token", "local_files_only", "revision")
)
"""Options of ``from_pretrained`` that locate files."""


@dataclass
class ElbowroomPipelineOutput(BaseOutput):
    """Samples as images (None if the data are not images) and as integers."""

    images: Any  # PIL images, or float [B, H, W, C] in 0 .. 1
    tokens: Tensor  # [B, *shape] integers


class ElbowroomPipeline(DiffusionPipeline):
    """``pipe(4, class_labels=[0, 1, 2, 3], seed=0).images``."""

    model_cpu_offload_seq = "model"  # type: ignore[assignment]  # their default is None

    def __init__(self, model: ElbowroomModel, scheduler: Any) -> None:
        super().__init__()
        self.register_modules(  # type: ignore[no-untyped-call]  # diffusers' own
            model=model, scheduler=scheduler
        )

    @classmethod
    def from_pretrained(  # type: ignore[override]  # no model_index.json is followed
        cls,
        source: str | PathLike[str],
        *,
        trust: bool = False,
        scheduler: Any = None,
        **options: Any,
    ) -> ElbowroomPipeline:
        """The pipeline in a folder or on the hub, with diffusers' options for models.

        ``hf://OWNER/NAME@REVISION`` is resolved to its commit, recorded in
        ``pipe.config["_name_or_path"]``.

        The parts are of these classes; the modules named in model_index.json are not imported.
        ``trust`` allows running code that the parts' configs name. ``scheduler`` replaces the
        exported one, by one of these or of diffusers.
        """
        pinned = None
        if str(source).startswith(SCHEME):
            kept = ("cache_dir", "force_download", "token", "local_files_only")
            source, pinned = fetch(str(source), **{k: options[k] for k in kept if k in options})
        if (Path(source) / "unet").is_dir():
            raise ElbowroomError(
                f"{source} needs only diffusers: load it with "
                "diffusers.DiffusionPipeline.from_pretrained"
            )
        where = {key: value for key, value in options.items() if key in _WHERE}
        model = ElbowroomModel.from_pretrained(source, subfolder="model", trust=trust, **options)
        if scheduler is None:
            scheduler = ElbowroomScheduler.from_pretrained(
                source, subfolder="scheduler", trust=trust, **where
            )
        made = cls(model, scheduler)
        if pinned is not None:
            made.register_to_config(_name_or_path=pinned)  # type: ignore[no-untyped-call]
        return made

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
        *,
        given: Any = None,
        keep: Any = None,
        generator: torch.Generator | list[torch.Generator] | None = None,
        callback_on_step_end: Callable[..., Any] | None = None,
        callback_on_step_end_tensor_inputs: Sequence[str] = ("latents",),
    ) -> ElbowroomPipelineOutput | tuple[Any, Tensor]:
        """Draw ``batch_size`` samples, ``chunk`` at a time.

        ``sampler`` is a sampler as in a config (default: the run's). Without ``class_labels`` the
        labels cycle through all classes. ``output_type`` is pil, np or pt. A ``generator`` replaces
        ``seed``; a list has one for each sample. ``callback_on_step_end(pipe, step, timestep,
        {"latents": z})`` is called after each step of each chunk; it cannot change the latents.
        ``given`` are integers [G, *shape] to complete, ``keep`` is true where they stay, or a name
        as in ``elbowroom.sample``.
        """
        known = None
        if given is not None or keep is not None:
            known = GivenExamples.of(self.model.process.data, given, keep, seed=seed)
        model = self._diffusion(sampler, num_inference_steps, guidance_scale)
        watch = self._watcher(callback_on_step_end, callback_on_step_end_tensor_inputs, model)
        parts = []
        with self.progress_bar(total=batch_size) as bar:
            for count, labels, key in self._batches(batch_size, class_labels, seed, generator):
                for part in draw(model, count, labels, key, chunk, watch=watch, given=known):
                    parts.append(part.x)
                    bar.update(len(part.x))
        tokens = torch.cat(parts)
        images = self._images(tokens, output_type)
        if not return_dict:
            return images, tokens
        return ElbowroomPipelineOutput(images=images, tokens=tokens)

    def _batches(
        self,
        count: int,
        labels: Labels,
        seed: int,
        generator: torch.Generator | list[torch.Generator] | None,
    ) -> Iterator[tuple[int, Labels, int]]:
        """(samples, their labels, their seed): all of them, or one for each generator."""
        if not isinstance(generator, list):
            yield count, labels, seed if generator is None else _seed(generator)
            return
        if len(generator) != count:
            raise ElbowroomError(f"{len(generator)} generators were given for {count} samples")
        classes = self.model.process.signature().classes
        for i, one in enumerate(generator):
            own = labels[i] if isinstance(labels, list | tuple | Tensor) else labels
            yield 1, i % classes if own is None and classes else own, _seed(one)

    def _watcher(
        self, callback: Callable[..., Any] | None, wanted: Sequence[str], model: Diffusion
    ) -> Callable[[int, Frame], None] | None:
        """A function of each frame that calls the callback as diffusers' pipelines do."""
        if callback is None:
            return None
        if set(wanted) - {"latents"}:
            raise ElbowroomError(
                f"callback_on_step_end_tensor_inputs={list(wanted)}: only 'latents' is available"
            )
        assert model.sampler is not None
        times = self._timesteps(model.sampler, model)

        def watch(_: int, frame: Frame) -> None:
            if not frame.step or frame.x is not None:
                return
            inputs = {"latents": frame.z} if wanted else {}
            result = callback(self, frame.step - 1, times[frame.step - 1], inputs) or {}
            if result.get("latents", frame.z) is not frame.z:
                raise ElbowroomError(
                    "callback_on_step_end returned other latents, but it cannot change them; use "
                    "ElbowroomScheduler.step instead"
                )

        return watch

    def _timesteps(self, sampler: Sampler, model: Diffusion) -> Tensor:
        """The time of each step, from 1 to 0, or a diffusers scheduler's timesteps."""
        if isinstance(sampler, DiffusersSampler):
            timesteps: Tensor = sampler.build(model.schedule).timesteps
            return timesteps
        return sampler.levels(model).t[:-1]

    def _diffusion(
        self,
        sampler: str | Mapping[str, Any] | None,
        steps: int | None,
        guidance: float | None,
    ) -> Diffusion:
        """The model with a sampler; weighting and times do not affect samples."""
        process, ours = self.model.process, isinstance(self.scheduler, ElbowroomScheduler)
        chosen: Sampler = self.scheduler.sampler if ours else self._given()
        schedule = self.scheduler.schedule if ours else natural_schedule(process).build()
        if sampler is not None:
            chosen = named_component("sampler", sampler, path="sampler").build()
        if steps is not None:
            chosen = attrs.evolve(chosen, steps=steps)
        if guidance is not None:
            chosen = attrs.evolve(chosen, guidance=guidance)
        find = installed().find
        objective = Objective(
            process,
            schedule,
            find("weighting", "elbowroom/elbo").load()(),
            find("time_sampler", "elbowroom/stratified").load()(),
            path=self.model.path,
        )
        return Diffusion(objective, self.model.denoiser, chosen)

    def _given(self) -> Sampler:
        """The sampler of a diffusers scheduler that replaced the exported one."""
        missing = GivenScheduler.needs - self.model.process.traits
        if missing:
            raise ElbowroomError(
                f"{type(self.scheduler).__name__} needs a Gaussian model, but this model is not "
                f"{join_names(sorted(missing))}"
            )
        return GivenScheduler(given=self.scheduler)

    def _images(self, tokens: Tensor, output_type: str) -> Any:
        data = self.model.process.data
        if not has_picture(data.shape):
            return None
        colours = pixels(tokens, data.levels)  # [B, H, W, 3] uint8
        if output_type == "pil":
            from PIL import Image

            return [Image.fromarray(image.numpy()) for image in colours]
        if output_type == "np":
            return colours.numpy().astype("float32") / 255
        if output_type == "pt":
            return colours.permute(0, 3, 1, 2).float() / 255
        raise ValueError(f"output_type is {output_type!r}; it must be pil, np or pt")


def _seed(generator: torch.Generator) -> int:
    """A seed drawn from a generator of torch."""
    return int(torch.randint(2**62, (), generator=generator, device=generator.device))
