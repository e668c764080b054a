"""elbowroom: diffusion objectives as variational bounds, for every noise process.

The public names load on first use, so that importing the package does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import assemble, evaluate, load, sample, train
    from .config.sections import Config, load_config
    from .contracts.dataset import Batch, Dataset, DataSpec, Split
    from .contracts.denoiser import Denoiser
    from .contracts.exporter import Exporter
    from .contracts.launcher import Launcher
    from .contracts.level import Level
    from .contracts.metric import Figure, Metric
    from .contracts.observer import RunEvent
    from .contracts.prediction import CategoricalPrediction, RealPrediction
    from .contracts.process import Process, Signature, Step
    from .contracts.sampler import Frame, Sampler, Samples
    from .contracts.schedule import Schedule
    from .contracts.time_sampler import TimeSampler
    from .contracts.weighting import Weighting
    from .errors import ConfigError, ElbowroomError, IncompatibleError, PluginError
    from .objective.diffusion import Diffusion
    from .randomness.noise import Noise
    from .registry.hooks import PLUGIN_API, hookimpl

_HOMES = {
    "Batch": "contracts.dataset",
    "CategoricalPrediction": "contracts.prediction",
    "Config": "config.sections",
    "ConfigError": "errors",
    "DataSpec": "contracts.dataset",
    "Dataset": "contracts.dataset",
    "Denoiser": "contracts.denoiser",
    "ElbowroomError": "errors",
    "Diffusion": "objective.diffusion",
    "Exporter": "contracts.exporter",
    "Figure": "contracts.metric",
    "Frame": "contracts.sampler",
    "IncompatibleError": "errors",
    "Launcher": "contracts.launcher",
    "Level": "contracts.level",
    "Metric": "contracts.metric",
    "Noise": "randomness.noise",
    "PLUGIN_API": "registry.hooks",
    "PluginError": "errors",
    "Process": "contracts.process",
    "RealPrediction": "contracts.prediction",
    "RunEvent": "contracts.observer",
    "Sampler": "contracts.sampler",
    "Samples": "contracts.sampler",
    "Schedule": "contracts.schedule",
    "Signature": "contracts.process",
    "Split": "contracts.dataset",
    "Step": "contracts.process",
    "TimeSampler": "contracts.time_sampler",
    "Weighting": "contracts.weighting",
    "assemble": "api",
    "evaluate": "api",
    "hookimpl": "registry.hooks",
    "load": "api",
    "load_config": "config.sections",
    "sample": "api",
    "train": "api",
}

__all__ = [
    "PLUGIN_API",
    "Batch",
    "CategoricalPrediction",
    "Config",
    "ConfigError",
    "DataSpec",
    "Dataset",
    "Denoiser",
    "Diffusion",
    "ElbowroomError",
    "Exporter",
    "Figure",
    "Frame",
    "IncompatibleError",
    "Launcher",
    "Level",
    "Metric",
    "Noise",
    "PluginError",
    "Process",
    "RealPrediction",
    "RunEvent",
    "Sampler",
    "Samples",
    "Schedule",
    "Signature",
    "Split",
    "Step",
    "TimeSampler",
    "Weighting",
    "__version__",
    "assemble",
    "evaluate",
    "hookimpl",
    "load",
    "load_config",
    "sample",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("elbowroom")
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
