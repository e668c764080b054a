"""Process, schedule and ancestral step as a scheduler of diffusers, for any process.

    noise = Noise.of(seed, count)
    scheduler.set_timesteps(64)
    z = scheduler.prior(noise)
    for t in scheduler.timesteps:
        seen, log_snr = scheduler.scale_model_input(z, t), scheduler.log_snr(t, z)
        z = scheduler.step(model(seen, log_snr, labels).sample, t, z, noise).prev_sample
    seen, log_snr = scheduler.scale_model_input(z, 0.0), scheduler.log_snr(0.0, z)
    x = scheduler.decode(z, model(seen, log_snr, labels).sample, noise)

A timestep is a time t of the schedule, from 1 (noise) down to 0 (data). ``noise`` is elbowroom's:
sample i of a seed does not depend on the batch. Without it, ``generator`` seeds one for the whole
trajectory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import attrs
import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.schedulers.scheduling_utils import SchedulerMixin
from diffusers.utils.outputs import BaseOutput
from elbowroom import ElbowroomError, Level, Noise, Process, Sampler, Schedule, Step
from elbowroom.contracts import check_examples, level_precision
from torch import Tensor

from .sections import Sections, bound_process, read_sections, reading


@dataclass
class ElbowroomSchedulerOutput(BaseOutput):
    """The sample at the next level."""

    prev_sample: Tensor


class ElbowroomScheduler(SchedulerMixin, ConfigMixin):  # type: ignore[misc]  # their bases differ
    """One ancestral step at a time, by elbowroom's process.

    ``sections`` are ``process``, ``schedule`` and ``sampler`` of a config, ``owners`` their
    suppliers, ``data`` the data's spec. The sampler gives the grid and the default number of steps.
    """

    order = 1
    init_noise_sigma = 1.0

    @register_to_config  # type: ignore[untyped-decorator]  # diffusers has no types
    def __init__(
        self,
        sections: Sections,
        owners: Mapping[str, Mapping[str, str]],
        data: Mapping[str, Any],
    ) -> None:
        config = read_sections(sections, owners)
        assert config.schedule is not None, "an exported schedule is always named"
        assert config.sampler is not None, "an exported sampler is always named"
        self.process: Process = bound_process(config, data)
        self.schedule: Schedule = config.schedule.build()
        self.sampler: Sampler = config.sampler.build()
        self._noise: Noise | None = None
        self._levels: Level | None = None

    @classmethod
    def from_pretrained(cls, *arguments: Any, trust: bool = False, **options: Any) -> Any:
        """As diffusers; ``trust`` allows running code that the folder names."""
        with reading(trust):
            return super().from_pretrained(*arguments, **options)

    def set_timesteps(
        self, num_inference_steps: int | None = None, device: torch.device | str | None = None
    ) -> None:
        """Set the grid of the run's sampler with this many steps (default: the sampler's)."""
        sampler = self.sampler
        if num_inference_steps is not None:
            sampler = attrs.evolve(sampler, steps=num_inference_steps)
        levels = sampler.levels(self)  # [T + 1] float64, on the CPU
        levels_of_its_own = bool(levels.t.isnan().any())
        if levels_of_its_own or float(levels.t[0]) != 1 or float(levels.t[-1]) != 0:
            uses = "levels of its own" if levels_of_its_own else "a part of the schedule"
            raise ElbowroomError(
                f"sampler {type(sampler).__name__} uses {uses}, so it cannot be used step by step; "
                "use the pipeline"
            )
        self._levels, self._noise = levels, None
        self.num_inference_steps = len(levels.t) - 1
        self.timesteps: Tensor = levels.t[:-1].to(device)

    @property
    def levels(self) -> Level:
        """The levels of the grid, from noise to data, [T + 1]."""
        if self._levels is None:
            self.set_timesteps()
        assert self._levels is not None
        return self._levels

    def prior(self, noise: Noise) -> Tensor:
        """z at t = 1, [B, *D]."""
        return self.process.prior(noise)

    def log_snr(self, timestep: Tensor | float, sample: Tensor) -> Tensor:
        """The network's input lambda, [B] float32."""
        return self._level(timestep, sample).per_example().to(torch.float32)

    def scale_model_input(self, sample: Tensor, timestep: Tensor | float) -> Tensor:
        """The network's input for a sample."""
        return self.process.network_input(sample, self._level(timestep, sample))

    def add_noise(self, original_samples: Tensor, noise: Noise, timesteps: Tensor) -> Tensor:
        """Data x (as ``encode`` makes it) [B, *D] at times [B]."""
        level = Level.of(timesteps.double().cpu(), self.schedule, self.process)
        return self.process.corrupt(original_samples, level.over(original_samples), noise)

    def encode(self, x: Tensor) -> Tensor:
        """Integers of the data -> the process's space."""
        check_examples(x, self.process.data)
        return self.process.encode(x)

    def step(
        self,
        model_output: Tensor,
        timestep: Tensor | float,
        sample: Tensor,
        noise: Noise | None = None,
        generator: torch.Generator | None = None,
        return_dict: bool = True,
    ) -> ElbowroomSchedulerOutput | tuple[Tensor]:
        """z at the next level of the grid, from z [B, *D] at ``timestep``."""
        noise = noise if noise is not None else self._own_noise(len(sample), generator, sample)
        index = torch.full((len(sample),), self._index(timestep))
        here, to, start = (
            self.levels.select(place).over(sample) for place in (index, index + 1, index * 0)
        )
        prediction = self._read(model_output, sample, here)
        if getattr(self.sampler, "clip", False):  # an option of some samplers
            prediction = self.process.clip_prediction(prediction)
        step = Step(index.to(sample.device), here, to, start)
        moved = self.process.reverse(sample, prediction, step, noise).to(sample.dtype)
        return ElbowroomSchedulerOutput(prev_sample=moved) if return_dict else (moved,)

    def decode(self, sample: Tensor, model_output: Tensor, noise: Noise | None = None) -> Tensor:
        """Integers [B, *D], from z at t = 0 and the network's output there."""
        noise = noise if noise is not None else self._own_noise(len(sample), None, sample)
        level = self._level(0.0, sample)
        x = self.process.decode(sample, None, level, noise)
        rows = self.process.needs_final_prediction(sample).nonzero().squeeze(1)
        if not len(rows):
            return x
        part, there = sample[rows], level.select(rows)
        prediction = self._read(model_output[rows], part, there)
        return x.index_copy(
            0, rows, self.process.decode(part, prediction, there, noise.select(rows))
        )

    def __len__(self) -> int:
        return len(self.levels.t) - 1

    def _level(self, timestep: Tensor | float, sample: Tensor) -> Level:
        t = torch.as_tensor(timestep, dtype=torch.float64).cpu().expand(len(sample))
        level = Level.of(t, self.schedule, self.process)
        return level.over(sample, level_precision(sample))

    def _read(self, output: Tensor, sample: Tensor, level: Level) -> Any:
        return self.process.read(output, sample, level.over(sample, level_precision(sample)))

    def _index(self, timestep: Tensor | float) -> int:
        away = (self.levels.t[:-1] - float(timestep)).abs()
        nearest = int(away.argmin())
        if float(away[nearest]) > 1e-9:
            raise ElbowroomError(
                f"{float(timestep):g} is none of the scheduler's timesteps: use "
                "scheduler.timesteps after set_timesteps"
            )
        return nearest

    def _own_noise(self, count: int, generator: torch.Generator | None, sample: Tensor) -> Noise:
        """One source for the whole trajectory: a token's uniforms are the same in every step."""
        if self._noise is None or len(self._noise) != count:
            seed = torch.randint(2**62, (), generator=generator)
            self._noise = Noise.of(int(seed), count, device=sample.device)
        return self._noise
