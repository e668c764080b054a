"""Any Gaussian scheduler of diffusers as a sampler: DPM-Solver++, UniPC, DEIS, Euler, ...

    sampler: {name: diffusers, scheduler: DPMSolverMultistepScheduler, steps: 20}

A scheduler brings its own levels: the network is called at the lambda of its sigmas or
alphas_cumprod, so any model serves that was trained over that range of lambda, whatever its own
schedule. ``options`` are the scheduler's own. Two of its defaults are changed: its first step is
at the noisiest level (``timestep_spacing: trailing``) and the data it expects is not clipped.

With a ``grid`` it walks the levels of that one instead, on the model's schedule: it is made from a
table of noise that has these and no others, and refused if it asks at any other. As of Heun's, the
last step goes from the grid's end to the data.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import attrs
import torch
from elbowroom import (
    ElbowroomError,
    Frame,
    Grid,
    Level,
    Model,
    Noise,
    RealPrediction,
    Sampler,
    Schedule,
)
from elbowroom.errors import require_package
from torch import Tensor

from .coordinates import coordinates, output_for
from .grid import SchedulersOwn
from .noise_table import HIGHEST, betas

_NEAR = 0.05  # what float32 may do to a lambda
_CHANGED = {"timestep_spacing": "trailing", "clip_sample": False}
_REFUSED = {
    "DPMSolverSDEScheduler": "its Brownian noise is drawn for a whole batch at once, so a sample "
    "would depend on the batch size",
    "UnCLIPScheduler": "it must be told where each step ends",
}


@attrs.frozen
class DiffusersSampler(Sampler):
    """A scheduler of diffusers by its class name."""

    needs: ClassVar[frozenset[str]] = frozenset({"real"})

    steps: int = attrs.field(default=20, validator=attrs.validators.ge(1))
    grid: Grid = attrs.field(factory=SchedulersOwn, validator=attrs.fields(Sampler).grid.validator)
    scheduler: str = attrs.field(default="DPMSolverMultistepScheduler", kw_only=True)
    options: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)

    def build(self, schedule: Schedule | None = None) -> Any:
        """The scheduler, its timesteps set; a grid of another's asks for a schedule."""
        cls = find_scheduler(self.scheduler)
        if isinstance(self.grid, SchedulersOwn):
            return self._set(made_scheduler(cls, self.scheduler, self.options), self.steps)
        log_snr = self._log_snr(schedule)
        table = {"num_train_timesteps": len(log_snr), "trained_betas": betas(log_snr.flip(0))}
        known = inspect.signature(cls.__init__).parameters
        if not table.keys() <= known.keys():
            raise ElbowroomError(
                f"sampler.grid: {self.scheduler} takes no table of noise and has its levels from "
                "no one else: leave the grid out"
            )
        twice = sorted(table.keys() & self.options.keys())
        if twice:
            raise ElbowroomError(f"sampler.options: {twice[0]}: the table is made from the grid")
        made = made_scheduler(cls, self.scheduler, {**self.options, **table})
        return self._asked_at(self._set(made, len(log_snr)), log_snr)

    def _log_snr(self, schedule: Schedule | None) -> Tensor:
        """[calls] lambda of the grid's levels, from noise to data."""
        assert schedule is not None, "times of a grid say nothing without a schedule"
        times = self.grid.times(max(self.steps - 1, 1), schedule)[: self.steps]
        log_snr = schedule.log_snr(times)
        if float(log_snr[-1]) > HIGHEST:
            raise ElbowroomError(
                f"sampler.grid: the path ends at log-SNR {float(log_snr[-1]):.4g}, and tables of "
                f"diffusers, in float32, end at {HIGHEST:g}: schedule.log_snr_max={HIGHEST:g}, or "
                "leave the grid out"
            )
        return log_snr

    def _asked_at(self, scheduler: Any, log_snr: Tensor) -> Any:
        """The scheduler, if it calls the network at these levels and no others."""
        asked = asked_levels(scheduler).unique()
        if asked.shape != log_snr.shape or not torch.allclose(asked, log_snr, rtol=0, atol=_NEAR):
            raise ElbowroomError(
                f"sampler.grid: {self.scheduler} does not keep to {type(self.grid).__name__}: it "
                f"asks at {len(asked)} levels of log-SNR {float(asked[0]):.2f} to "
                f"{float(asked[-1]):.2f}, and the grid has {len(log_snr)} of "
                f"{float(log_snr[0]):.2f} to {float(log_snr[-1]):.2f}. Options that place levels, "
                "very many steps and schedulers that look between levels go without a grid"
            )
        return scheduler

    def _set(self, scheduler: Any, steps: int) -> Any:
        try:
            scheduler.set_timesteps(steps)
            if hasattr(scheduler, "set_begin_index"):
                scheduler.set_begin_index(0)
        except Exception as error:
            raise ElbowroomError(
                f"sampler.scheduler: {self.scheduler} cannot take {steps} steps: {error}"
            ) from error
        return scheduler

    def levels(self, model: Model) -> Level:
        """The scheduler's: one for each of its calls, and the data at the end."""
        found = asked_levels(self.build(model.schedule))
        if not isinstance(self.grid, SchedulersOwn):  # without what float32 does to them
            grid = self._log_snr(model.schedule)
            found = grid[(found[:, None] - grid).abs().argmin(1)]
        end = found.new_tensor([torch.inf])
        return Level.at(torch.cat([found, end]), model.process)

    def count_steps(self, model: Model) -> int:
        own = isinstance(self.grid, SchedulersOwn)
        return self.steps if own else len(self._log_snr(model.schedule))

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        path, levels = self.path(model, noise, cond), self.levels(model)
        self._check(model.schedule)
        z = path.start(z)
        yield Frame(z, 0)

        def predict(z: Tensor, log_snr: float) -> RealPrediction:
            lam = torch.full((len(z),), log_snr, dtype=torch.float64, device=z.device)
            found: RealPrediction = path.predict(z, Level.at(lam, path.process).over(z))
            return found

        for i, here in enumerate(walk(self.build(model.schedule), z, predict, path.noise)):
            yield Frame(here, i + 1)
        clear = levels.select(len(levels.log_snr) - 1).over(here, here.dtype)  # no noise is left
        x = path.process.decode(here, None, clear, path.noise)
        yield Frame(here, self.steps, x, path.calls)

    def _check(self, schedule: Schedule) -> None:
        """Whatever its convention, a scheduler must find data that is always the same point."""
        point, noisy = 0.25, torch.tensor([[-1.0, 0.0, 1.0]])

        def predict(z: Tensor, log_snr: float) -> RealPrediction:
            lam = torch.tensor(log_snr, dtype=z.dtype)
            level = Level(*[lam] * 5)  # only lambda is read
            return RealPrediction(z, level, given_x=torch.full_like(z, point))

        try:
            *_, last = walk(self.build(schedule), noisy, predict, Noise.of(0, 1))
        except (TypeError, AttributeError, NotImplementedError) as error:
            raise ElbowroomError(
                f"sampler.scheduler: {self.scheduler} cannot serve here: {error}"
            ) from error
        if not bool(((last - point).abs() < 0.1).all()):
            raise ElbowroomError(
                f"sampler.scheduler: {self.scheduler} with {self.steps} steps does not lead to the "
                f"data: for data that is always {point} it ends at "
                f"{', '.join(f'{value:.3g}' for value in last.flatten().tolist())}"
            )


def asked_levels(scheduler: Any) -> Tensor:
    """[calls] lambda at which it calls the network."""
    calls = range(len(scheduler.timesteps))
    return torch.tensor([coordinates(scheduler, i).log_snr for i in calls], dtype=torch.float64)


def walk(
    scheduler: Any, z: Tensor, predict: Callable[[Tensor, float], RealPrediction], noise: Noise
) -> Iterator[Tensor]:
    """z after each call of the network, from z at the scheduler's first level."""
    randomness = _randomness(scheduler, noise)
    here = coordinates(scheduler, 0)
    calls = len(scheduler.timesteps)
    sample = z * here.scale
    for i, timestep in enumerate(scheduler.timesteps):
        if hasattr(scheduler, "scale_model_input"):
            scheduler.scale_model_input(sample, timestep)  # some note here that a step begins
        output = output_for(scheduler, predict(z, here.log_snr), sample, i).to(sample.dtype)
        sample = scheduler.step(output, timestep, sample, **randomness).prev_sample
        if i + 1 == calls:
            yield sample.to(z.dtype)  # no noise is left
            return
        here = coordinates(scheduler, i + 1)
        z = (sample / here.scale).to(z.dtype)
        yield z


def find_scheduler(name: str) -> type[Any]:
    """The class of diffusers with this name; otherwise an error with the nearest names."""
    require_package("diffusers", "sampler 'diffusers'", "diffusers")
    import diffusers

    names = [n for n in dir(diffusers) if n.endswith("Scheduler") and not n.startswith("Flax")]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"; near are {', '.join(near)}" if near else ""
        raise ElbowroomError(f"sampler.scheduler: diffusers has no scheduler {name!r}{hint}")
    if name in _REFUSED:
        raise ElbowroomError(f"sampler.scheduler: {name} is not served: {_REFUSED[name]}")
    found: type[Any] = getattr(diffusers, name)
    return found


def made_scheduler(cls: type[Any], name: str, options: Mapping[str, Any]) -> Any:
    """The scheduler with these options; others are refused with the nearest name."""
    known = [key for key in inspect.signature(cls.__init__).parameters if key != "self"]
    strange = [key for key in options if key not in known]
    if strange:
        near = difflib.get_close_matches(strange[0], known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ElbowroomError(
            f"sampler.options: {name} has no option {strange[0]!r}{hint}; it has {', '.join(known)}"
        )
    changed = {key: value for key, value in _CHANGED.items() if key in known}
    try:
        return cls(**{**changed, **options})
    except Exception as error:
        raise ElbowroomError(f"sampler.options: {name} cannot be made: {error}") from error


def _randomness(scheduler: Any, noise: Noise) -> dict[str, Any]:
    if "generator" not in inspect.signature(scheduler.step).parameters:
        return {}
    return {"generator": generators(noise)}


def generators(noise: Noise) -> list[torch.Generator]:
    """One generator for each sample, so that its noise does not depend on the batch."""
    seeds = noise.integers("scheduler", 2**52)
    return [torch.Generator().manual_seed(seed) for seed in seeds.tolist()]


@attrs.frozen
class GivenScheduler(DiffusersSampler):
    """A scheduler that somebody made, walked as it is configured; it is left untouched."""

    grid: Grid = attrs.field(factory=SchedulersOwn, init=False)
    given: Any = attrs.field(default=None, kw_only=True)
    scheduler: str = attrs.field(init=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "scheduler", type(self.given).__name__)

    def build(self, schedule: Schedule | None = None) -> Any:
        return self._set(type(self.given).from_config(self.given.config), self.steps)
