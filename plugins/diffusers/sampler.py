"""Any Gaussian scheduler of diffusers as a sampler: DPM-Solver++, UniPC, DEIS, Euler, ...

    sampler: {name: diffusers, scheduler: DPMSolverMultistepScheduler, steps: 20}

A scheduler has its own levels: the network is called at the lambda of its sigmas or alphas_cumprod,
for any model trained over that range of lambda. ``options`` are the scheduler's. Two of its
defaults are changed: its first step is at the noisiest level (``timestep_spacing: trailing``) and
predicted data are not clipped.

With a ``grid`` it uses the grid's levels on the model's schedule instead: it is built from a table
with these levels only, and it is an error if it calls the network at any other. As for Heun, the
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
from .grid import SchedulerGrid
from .noise_table import HIGHEST, betas

_NEAR = 0.05  # tolerance of lambda, for float32
_CHANGED = {"timestep_spacing": "trailing", "clip_sample": False}
_REFUSED = {
    "DPMSolverSDEScheduler": "its noise is drawn for a whole batch, so a sample would depend on "
    "the batch size",
    "UnCLIPScheduler": "it needs the end of each step as an argument",
}


@attrs.frozen
class DiffusersSampler(Sampler):
    """A scheduler of diffusers by its class name."""

    needs: ClassVar[frozenset[str]] = frozenset({"real"})

    steps: int = attrs.field(default=20, validator=attrs.validators.ge(1))
    grid: Grid = attrs.field(factory=SchedulerGrid, validator=attrs.fields(Sampler).grid.validator)
    scheduler: str = attrs.field(default="DPMSolverMultistepScheduler", kw_only=True)
    options: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)

    def build(self, schedule: Schedule | None = None) -> Any:
        """The scheduler with its timesteps; a grid other than ``scheduler`` needs a schedule."""
        cls = find_scheduler(self.scheduler)
        if isinstance(self.grid, SchedulerGrid):
            return self._set(made_scheduler(cls, self.scheduler, self.options), self.steps)
        log_snr = self._log_snr(schedule)
        table = {"num_train_timesteps": len(log_snr), "trained_betas": betas(log_snr.flip(0))}
        known = inspect.signature(cls.__init__).parameters
        if not table.keys() <= known.keys():
            raise ElbowroomError(
                f"sampler.grid: {self.scheduler} takes no table of noise: remove the grid"
            )
        twice = sorted(table.keys() & self.options.keys())
        if twice:
            raise ElbowroomError(f"sampler.options: {twice[0]}: the table is made from the grid")
        made = made_scheduler(cls, self.scheduler, {**self.options, **table})
        return self._check_levels(self._set(made, len(log_snr)), log_snr)

    def _log_snr(self, schedule: Schedule | None) -> Tensor:
        """[calls] lambda of the grid's levels, from noise to data."""
        assert schedule is not None, "a grid needs a schedule"
        times = self.grid.times(max(self.steps - 1, 1), schedule)[: self.steps]
        log_snr = schedule.log_snr(times)
        if float(log_snr[-1]) > HIGHEST:
            raise ElbowroomError(
                f"sampler.grid: the schedule ends at log-SNR {float(log_snr[-1]):.4g}, but "
                f"diffusers' float32 tables end at {HIGHEST:g}: set "
                f"schedule.log_snr_max={HIGHEST:g}, or remove the grid"
            )
        return log_snr

    def _check_levels(self, scheduler: Any, log_snr: Tensor) -> Any:
        """The scheduler, if it calls the network at exactly these levels."""
        called = called_levels(scheduler).unique()
        if called.shape != log_snr.shape or not torch.allclose(called, log_snr, rtol=0, atol=_NEAR):
            raise ElbowroomError(
                f"sampler.grid: {self.scheduler} does not keep to {type(self.grid).__name__}: it "
                f"uses {len(called)} levels of log-SNR {float(called[0]):.2f} to "
                f"{float(called[-1]):.2f}, the grid has {len(log_snr)} of "
                f"{float(log_snr[0]):.2f} to {float(log_snr[-1]):.2f}. Options that choose levels, "
                "very many steps and schedulers that use intermediate levels need no grid"
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
        """The scheduler's levels: one for each call, and the data at the end."""
        found = called_levels(self.build(model.schedule))
        if not isinstance(self.grid, SchedulerGrid):  # exact, without float32's rounding
            grid = self._log_snr(model.schedule)
            found = grid[(found[:, None] - grid).abs().argmin(1)]
        end = found.new_tensor([torch.inf])
        return Level.at(torch.cat([found, end]), model.process)

    def count_steps(self, model: Model) -> int:
        own = isinstance(self.grid, SchedulerGrid)
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
        clear = levels.select(len(levels.log_snr) - 1).over(here, here.dtype)
        x = path.process.decode(here, None, clear, path.noise)
        yield Frame(here, self.steps, x, path.calls)

    def _check(self, schedule: Schedule) -> None:
        """Raise unless the scheduler reaches data that is always the same point."""
        point, noisy = 0.25, torch.tensor([[-1.0, 0.0, 1.0]])

        def predict(z: Tensor, log_snr: float) -> RealPrediction:
            lam = torch.tensor(log_snr, dtype=z.dtype)
            level = Level(*[lam] * 5)  # only lambda is read
            return RealPrediction(z, level, given_x=torch.full_like(z, point))

        try:
            *_, last = walk(self.build(schedule), noisy, predict, Noise.of(0, 1))
        except (TypeError, AttributeError, NotImplementedError) as error:
            raise ElbowroomError(
                f"sampler.scheduler: {self.scheduler} is not supported: {error}"
            ) from error
        if not bool(((last - point).abs() < 0.1).all()):
            raise ElbowroomError(
                f"sampler.scheduler: {self.scheduler} with {self.steps} steps does not lead to the "
                f"data: for data that is always {point} it ends at "
                f"{', '.join(f'{value:.3g}' for value in last.flatten().tolist())}"
            )


def called_levels(scheduler: Any) -> Tensor:
    """[calls] lambda at which it calls the network."""
    calls = range(len(scheduler.timesteps))
    return torch.tensor([coordinates(scheduler, i).log_snr for i in calls], dtype=torch.float64)


def walk(
    scheduler: Any, z: Tensor, predict: Callable[[Tensor, float], RealPrediction], noise: Noise
) -> Iterator[Tensor]:
    """z after each call of the network, from z at the scheduler's first level."""
    takes_generator = "generator" in inspect.signature(scheduler.step).parameters
    randomness = {"generator": generators(noise)} if takes_generator else {}
    here = coordinates(scheduler, 0)
    calls = len(scheduler.timesteps)
    sample = z * here.scale
    for i, timestep in enumerate(scheduler.timesteps):
        if hasattr(scheduler, "scale_model_input"):
            scheduler.scale_model_input(sample, timestep)  # some record here that a step begins
        output = output_for(scheduler, predict(z, here.log_snr), sample, i).to(sample.dtype)
        sample = scheduler.step(output, timestep, sample, **randomness).prev_sample
        if i + 1 == calls:
            yield sample.to(z.dtype)
            return
        here = coordinates(scheduler, i + 1)
        z = (sample / here.scale).to(z.dtype)
        yield z


def find_scheduler(name: str) -> type[Any]:
    """The scheduler class of diffusers with this name."""
    require_package("diffusers", "sampler 'diffusers'", "diffusers")
    import diffusers

    names = [n for n in dir(diffusers) if n.endswith("Scheduler") and not n.startswith("Flax")]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"; similar names: {', '.join(near)}" if near else ""
        raise ElbowroomError(f"sampler.scheduler: diffusers has no scheduler {name!r}{hint}")
    if name in _REFUSED:
        raise ElbowroomError(f"sampler.scheduler: {name} is not supported: {_REFUSED[name]}")
    found: type[Any] = getattr(diffusers, name)
    return found


def made_scheduler(cls: type[Any], name: str, options: Mapping[str, Any]) -> Any:
    """The scheduler with these options."""
    known = [key for key in inspect.signature(cls.__init__).parameters if key != "self"]
    unknown = [key for key in options if key not in known]
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ElbowroomError(
            f"sampler.options: {name} has no option {unknown[0]!r}{hint}; it has {', '.join(known)}"
        )
    changed = {key: value for key, value in _CHANGED.items() if key in known}
    try:
        return cls(**{**changed, **options})
    except Exception as error:
        raise ElbowroomError(f"sampler.options: {name} cannot be made: {error}") from error


def generators(noise: Noise) -> list[torch.Generator]:
    """One generator for each sample, so that its noise does not depend on the batch."""
    seeds = noise.integers("scheduler", 2**52)
    return [torch.Generator().manual_seed(seed) for seed in seeds.tolist()]


@attrs.frozen
class GivenScheduler(DiffusersSampler):
    """A scheduler object with its configuration; it is not modified."""

    grid: Grid = attrs.field(factory=SchedulerGrid, init=False)
    given: Any = attrs.field(default=None, kw_only=True)
    scheduler: str = attrs.field(init=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "scheduler", type(self.given).__name__)

    def build(self, schedule: Schedule | None = None) -> Any:
        return self._set(type(self.given).from_config(self.given.config), self.steps)
