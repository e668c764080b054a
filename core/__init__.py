"""elbowroom: diffusion objectives as variational bounds, for every noise process.

The public names load on first use, so that importing the package does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import assemble, evaluate, load, sample, train
    from .config import Config, load_config
    from .dataset import Batch, Dataset, DataSpec, Split
    from .denoiser import Denoiser
    from .diffusion import Diffusion
    from .errors import ConfigError, ElbowroomError, IncompatibleError, PluginError
    from .exporter import Exporter
    from .hookspecs import PLUGIN_API, hookimpl
    from .launcher import Launcher
    from .level import Level
    from .metric import Figure, Metric
    from .noise import Noise
    from .observer import RunEvent
    from .prediction import CategoricalPrediction, RealPrediction
    from .process import Process, Signature, Step
    from .sampler import Frame, Sampler, Samples
    from .schedule import Schedule
    from .time_sampler import TimeSampler
    from .weighting import Weighting

_HOMES = {
    "Batch": "dataset",
    "CategoricalPrediction": "prediction",
    "Config": "config",
    "ConfigError": "errors",
    "DataSpec": "dataset",
    "Dataset": "dataset",
    "Denoiser": "denoiser",
    "ElbowroomError": "errors",
    "Diffusion": "diffusion",
    "Exporter": "exporter",
    "Figure": "metric",
    "Frame": "sampler",
    "IncompatibleError": "errors",
    "Launcher": "launcher",
    "Level": "level",
    "Metric": "metric",
    "Noise": "noise",
    "PLUGIN_API": "hookspecs",
    "PluginError": "errors",
    "Process": "process",
    "RealPrediction": "prediction",
    "RunEvent": "observer",
    "Sampler": "sampler",
    "Samples": "sampler",
    "Schedule": "schedule",
    "Signature": "process",
    "Split": "dataset",
    "Step": "process",
    "TimeSampler": "time_sampler",
    "Weighting": "weighting",
    "assemble": "api",
    "evaluate": "api",
    "hookimpl": "hookspecs",
    "load": "api",
    "load_config": "config",
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
