"""A model in diffusers' classes only: ``UNet2DModel``, a scheduler, one of its pipelines.

A scheduler of diffusers has a table of N levels, and the network's input is the index i of a row;
our network's input is lambda, as the sinusoid of tau = 40 (12.5 - lambda). So the network is
exported with the time embedding "learned", and row i of that embedding is the sinusoid of
tau(lambda_i), for any schedule.

    ddim (eta 0)              DDIMScheduler
    ancestral, ddim (eta 1)   DDPMScheduler, variance "fixed_small"
    diffusers                 the scheduler it names

The table of the first two contains the grid of the run's sampler: T steps and a last call at the
end are S = T + 1 calls, and N is the smallest multiple k S of S that is at least 1000. With
``timestep_spacing: trailing``, S calls are at the rows k S - 1, k (S - 1) - 1, ..., k - 1, which
have the levels of the grid; between them t is linear. The last of the S steps goes to zero noise,
which is x_hat at the grid's end, as in elbowroom.

A scheduler stores its table as betas in float32 and multiplies 1 - beta; each beta is computed for
the product so far, so that errors do not accumulate.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import attrs
import torch
from elbowroom import (
    Diffusion,
    ElbowroomError,
    Level,
    Process,
    RealPrediction,
    Sampler,
    installed,
)
from torch import Tensor

from ..grid import SchedulerGrid
from ..noise_table import HIGHEST, betas
from ..sampler import DiffusersSampler, called_levels
from ..unet import UNet

_FEWEST = 1000  # rows of a table, the default of diffusers' pipelines
_BEYOND = 0.01  # rise of lambda per call in the rows after the grid's end
_LEVELS = (6.0, 0.5, -5.0)  # at which a process's parametrisation is identified


class NotNativeError(ElbowroomError):
    """A model that diffusers cannot sample without elbowroom."""


@attrs.frozen(eq=False)
class Native:
    """A pipeline of diffusers' classes."""

    pipeline: Any
    calls: int  # num_inference_steps that follow the run's grid


def native(model: Diffusion) -> Native:
    """The model in classes of diffusers; raises a NotNativeError with the reason if it has none."""
    from diffusers import ConsistencyModelPipeline, DDIMPipeline, DDIMScheduler, DDPMPipeline

    if not isinstance(model.denoiser, UNet):
        raise NotNativeError(
            f"its network is a {type(model.denoiser).__name__}; only 'unet' is a class of diffusers"
        )
    kind = prediction_type(model.process)
    scheduler, log_snr, calls = _scheduler(model, kind)
    unet = network(model.denoiser, log_snr)
    if model.denoiser.signature.classes is not None:
        if not isinstance(unet.config.sample_size, int):
            raise NotNativeError("diffusers' pipeline with labels draws square images only")
        make: Any = ConsistencyModelPipeline  # the one with labels for a U-Net
    else:
        make = DDIMPipeline if isinstance(scheduler, DDIMScheduler) else DDPMPipeline
    return Native(make(unet, scheduler), calls)


def prediction_type(process: Process) -> str:
    """diffusers' name for what the network predicts, found by evaluating the process."""
    if "real" in process.traits:
        level = Level.at(torch.tensor(_LEVELS, dtype=torch.float64), process)
        seeded = torch.Generator().manual_seed(0)
        z, output = torch.randn(
            2, 3, *process.data.shape, generator=seeded, dtype=torch.float64
        ).unbind()
        level = level.over(z)
        network_input = process.network_input(z, level)
        meanings = {
            "epsilon": RealPrediction(z, level, given_eps=output),
            "v_prediction": RealPrediction(z, level, given_v=output),
            "sample": RealPrediction(z, level, given_x=output),
        }
        if process.signature().out_states is None and torch.equal(network_input, z):
            x = process.read(output, z, level).x
            for kind, meaning in meanings.items():
                if torch.allclose(x, meaning.x):
                    return kind
    raise NotNativeError(
        "its parametrisation has no equivalent in diffusers; a Gaussian process with predict: eps, "
        "v and x has"
    )


def network(denoiser: UNet, log_snr: Tensor) -> Any:
    """The U-Net whose input is a row of the table of these lambdas [N], data first."""
    from diffusers import UNet2DModel

    ours, (height, width, _) = denoiser.unet, denoiser.signature.shape
    make: Any = UNet2DModel  # it has no types
    made = make.from_config(
        ours.config,
        time_embedding_type="learned",
        num_train_timesteps=len(log_snr),
        sample_size=height if height == width else (height, width),
    )
    tau = 40 * (12.5 - log_snr) if denoiser.uses_level else torch.zeros(len(log_snr))
    embedding = {"time_proj.weight": ours.time_proj(tau.float())}
    made.load_state_dict({**ours.state_dict(), **embedding})
    return made.eval()


def table(sampler: Sampler, model: Diffusion) -> Tensor:
    """lambda [N], data first: the sampler's grid with levels in between."""
    grid = sampler.levels(model)
    calls = len(grid.t)
    k = -(-_FEWEST // calls)
    place = torch.arange(k * calls - 1, -1, -1, dtype=torch.float64) / k  # 0: the noise
    left = place.long().clamp(max=calls - 2)
    part = (place - left).clamp(max=1)
    t = grid.t[left] * (1 - part) + grid.t[left + 1] * part
    return model.schedule.log_snr(t) + _BEYOND * (place - (calls - 1)).clamp(min=0)


def _scheduler(model: Diffusion, kind: str) -> tuple[Any, Tensor, int]:
    """The scheduler equivalent to the model's sampler, its lambdas [N] and its calls."""
    sampler = model.sampler
    if sampler is None:
        raise NotNativeError("it has no sampler")
    if sampler.is_guided:
        raise NotNativeError("its sampler is guided, but diffusers' pipelines of a U-Net are not")
    find = installed().find
    makers: dict[type[Any], Callable[[Any, Diffusion, str], tuple[Any, Tensor, int]]] = {
        find("sampler", "elbowroom/ddim").load(): _ddim,
        find("sampler", "elbowroom/ancestral").load(): _ddpm,
        DiffusersSampler: _its_own,
    }
    make = makers.get(type(sampler))
    if make is None:
        raise NotNativeError(
            f"its sampler {type(sampler).__name__} has no equivalent in diffusers; sampler=ddim "
            "and sampler=diffusers have"
        )
    return make(sampler, model, kind)


def _ddim(sampler: Any, model: Diffusion, kind: str) -> tuple[Any, Tensor, int]:
    from diffusers import DDIMScheduler

    if sampler.eta == 1:
        return _ddpm(sampler, model, kind)
    if sampler.eta:
        raise NotNativeError(
            f"its sampler has eta={sampler.eta:g}, which a scheduler of diffusers does not store; "
            "sampler.eta=0 and 1 have an equivalent"
        )
    if sampler.clip:
        raise NotNativeError(
            "its sampler clips, but diffusers' DDIM does not recompute eps then; "
            "sampler.clip=false has an equivalent"
        )
    return _of_table(DDIMScheduler, sampler, model, prediction_type=kind, clip_sample=False)


def _ddpm(sampler: Any, model: Diffusion, kind: str) -> tuple[Any, Tensor, int]:
    from diffusers import DDPMScheduler

    process = model.process
    ends = process.encode(torch.tensor([0, process.data.levels - 1])).tolist()
    return _of_table(
        DDPMScheduler,
        sampler,
        model,
        prediction_type=kind,
        variance_type="fixed_small",
        clip_sample=bool(sampler.clip),
        clip_sample_range=max(map(abs, ends)),
    )


def _of_table(
    cls: Any, sampler: Sampler, model: Diffusion, **options: Any
) -> tuple[Any, Tensor, int]:
    log_snr = table(sampler, model)
    if float(log_snr[0]) > HIGHEST:
        raise NotNativeError(
            f"its schedule ends at log-SNR {float(log_snr[0]):.4g}, but diffusers' float32 tables "
            f"end at {HIGHEST:g}: set schedule.log_snr_max={HIGHEST:g}"
        )
    made = cls(
        num_train_timesteps=len(log_snr),
        trained_betas=betas(log_snr),
        timestep_spacing="trailing",
        **options,
    )
    return made, log_snr, len(sampler.levels(model).t)


def _its_own(sampler: DiffusersSampler, _: Diffusion, kind: str) -> tuple[Any, Tensor, int]:
    if not isinstance(sampler.grid, SchedulerGrid):
        raise NotNativeError("a table made from a grid is valid for one number of steps only")
    scheduler = attrs.evolve(sampler, options={**sampler.options, "prediction_type": kind}).build()
    name, kept = sampler.scheduler, getattr(scheduler, "alphas_cumprod", None)
    if kept is None or scheduler.timesteps.is_floating_point():
        raise NotNativeError(f"{name} calls the network between the rows of a table")
    if "generator" not in inspect.signature(scheduler.step).parameters:
        raise NotNativeError(f"no pipeline of diffusers with a U-Net supports {name}")
    share = kept.double().clamp(1e-12, 1 - 1e-12)
    log_snr = share.logit()
    if not torch.allclose(called_levels(scheduler), log_snr[scheduler.timesteps.cpu()], atol=1e-3):
        raise NotNativeError(f"{name} calls the network between the rows of its table")
    return scheduler, log_snr, sampler.steps
