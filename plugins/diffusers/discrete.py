"""Schedulers of diffusers for tokens that become random ones, as a sampler.

    sampler: {name: diffusers-discrete, scheduler: DiscreteDDIMScheduler, steps: 32}

They are made for uniform corruption without a mask, on the linear path: before step i of T a token
is kept with probability a = i/T, so the network is asked at lambda = log(a/(1 - a)), moved to
between the ends of the model's own schedule.

    DiscreteDDIMScheduler     x ~ p(x | z), then z ~ q(z_s | z, x): ancestral steps
    EntropyBoundScheduler     the surest tokens stay, as many as are nearly independent; the others
                              become random again; a is the share that stayed
    BlockRefinementScheduler  the surest tokens stay, an even number at each step

Only the first draws from the model, and only at temperature 1 (diffusers' own default is 0, the
likeliest token). Draws are in float32 and from torch's generators, one for each sample, so a seed
gives other samples than ``ancestral``, and values rarer than 1e-7 are not told apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import attrs
import torch
from elbowroom import ElbowroomError, EvenGrid, Frame, Grid, Level, Model, Noise, Sampler
from torch import Tensor

from .sampler import find_scheduler, generators, made_scheduler


@attrs.frozen
class DiscreteDiffusersSampler(Sampler):
    """A discrete scheduler of diffusers by its class name."""

    needs: ClassVar[frozenset[str]] = frozenset({"uniform"})

    steps: int = attrs.field(default=32, validator=attrs.validators.ge(1))
    grid: Grid = attrs.field(factory=EvenGrid, init=False)  # the scheduler brings it
    scheduler: str = attrs.field(default="DiscreteDDIMScheduler", kw_only=True)
    options: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)
    temperature: float = attrs.field(default=1.0, kw_only=True, validator=attrs.validators.ge(0))

    def build(self, length: int) -> Any:
        """The scheduler for sequences of ``length`` tokens, its timesteps set."""
        made = made_scheduler(find_scheduler(self.scheduler), self.scheduler, self.options)
        taken = inspect.signature(made.step).parameters
        if "generator" not in taken or hasattr(made, "alphas_cumprod") or hasattr(made, "sigmas"):
            raise ElbowroomError(
                f"sampler.scheduler: {self.scheduler} is none for tokens; DiscreteDDIMScheduler, "
                "EntropyBoundScheduler and BlockRefinementScheduler are"
            )
        sized = "block_length" in inspect.signature(made.set_timesteps).parameters
        made.set_timesteps(self.steps, **({"block_length": length} if sized else {}))
        return made

    def levels(self, model: Model) -> Level:
        """a = 0, 1/T, ..., 1, within the ends of the model's schedule."""
        kept = torch.arange(self.steps + 1, dtype=torch.float64) / self.steps
        return Level.at(_log_snr(kept, model), model.process)

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        path = self.path(model, noise, cond)
        z = path.start(z)  # [B, *D]
        rows = [self.build(z[0].numel()) for _ in range(len(z))]  # some remember what they did
        randomness = generators(path.noise)
        kept = torch.zeros(len(z), dtype=torch.float64)  # [B]
        yield Frame(z, 0)
        x = z
        for i in range(self.steps):
            level = Level.at(_log_snr(kept, model), path.process).over(z)
            logits = path.predict(z, level).logits.cpu()  # [B, *D, V]
            said = [
                self._step(row, logits[n : n + 1], i, z[n : n + 1].cpu(), randomness[n])
                for n, row in enumerate(rows)
            ]
            z, x = (
                torch.cat([getattr(one, name) for one in said]).reshape(z.shape).to(z)
                for name in ("prev_sample", "sampled_tokens")
            )
            kept = torch.stack([_stayed(one, (i + 1) / self.steps) for one in said])
            yield Frame(z, i + 1)
        yield Frame(z, self.steps, x, path.calls)  # what was drawn last, at every place

    def _step(
        self, scheduler: Any, logits: Tensor, i: int, z: Tensor, generator: torch.Generator
    ) -> Any:
        """One step of one sample: logits [1, *D, V], z [1, *D]."""
        heated = "temperature" in inspect.signature(scheduler.step).parameters
        return scheduler.step(
            logits.flatten(1, -2),
            i,
            z.flatten(1),
            generator=generator,
            **({"temperature": self.temperature} if heated else {}),
        )


def _stayed(said: Any, planned: float) -> Tensor:
    """The share of tokens that stayed: what was accepted, or as the path plans it."""
    accepted = getattr(said, "accepted_index", None)
    if accepted is None:
        return torch.tensor(planned, dtype=torch.float64)
    share: Tensor = accepted.double().mean()
    return share


def _log_snr(kept: Tensor, model: Model) -> Tensor:
    """lambda of a share of kept tokens, within the ends of the model's schedule."""
    ends = model.schedule.log_snr(torch.tensor([0.0, 1.0], dtype=torch.float64))
    return kept.logit().clamp(float(ends.min()), float(ends.max()))
