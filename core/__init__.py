"""elbowroom: diffusion objectives as variational bounds, for every noise process.

Every name a user or a plugin's author needs is here. Names load on first use, so that importing the
package does not import torch.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import (
        assemble,
        build_objective,
        build_sampler,
        evaluate,
        load,
        parts_of,
        resume,
        sample,
        save,
        train,
    )
    from .certificate.certificate import END, Certificate, certify, isotonic_projection
    from .certificate.meaning import describe_weighting
    from .certificate.slack import LossCurve, Slack, cell_widths, minorant, slack_on_run
    from .certificate.survey import levels_at, look_closely, survey_steps
    from .config.assembly import Parts, build_model, build_parts, natural_schedule, settled
    from .config.schema import kind_of, options_of
    from .config.sections import (
        Config,
        dump_yaml,
        load_config,
        named_component,
        parse_spec,
    )
    from .config.spec import ComponentSpec, to_plain
    from .config.yaml_reader import write_yaml
    from .contracts.adaptive import Adaptive, sums_by_time
    from .contracts.command import Command, python_form
    from .contracts.dataset import SPLITS, Batch, Dataset, DataSpec, Split, check_split, listed
    from .contracts.denoiser import Denoiser
    from .contracts.exporter import Exporter
    from .contracts.feature_network import FeatureNetwork, weights_digest
    from .contracts.grid import EvenGrid, Grid
    from .contracts.guidance import Guidance
    from .contracts.launcher import ENDS_WITH_INPUT, Ended, Job, Launcher
    from .contracts.level import Level, broadcast_over
    from .contracts.metric import Display, Measurement, Metric, Subject, is_vacuous
    from .contracts.normaliser import BatchMean, Normaliser
    from .contracts.observer import RunEvent
    from .contracts.optimiser import Optimiser, Rates, Weights, layouts
    from .contracts.prediction import CategoricalPrediction, RealPrediction
    from .contracts.process import (
        Absorbing,
        Process,
        Signature,
        Step,
        check_examples,
        check_finite,
        check_range,
    )
    from .contracts.rate_schedule import RateSchedule
    from .contracts.sampler import Frame, Model, Sampler, Samples, SteppingSampler
    from .contracts.schedule import Schedule
    from .contracts.time_sampler import TimeSampler, stratified
    from .contracts.torch_data import TorchData
    from .contracts.trajectory import Trajectory, level_precision
    from .contracts.weighting import Weighting
    from .errors import ConfigError, ElbowroomError, IncompatibleError, PluginError, did_you_mean
    from .evaluation.details import details_file
    from .evaluation.protocol import EvaluationProtocol
    from .evaluation.run import evaluate_run, evaluation_folder, read_evaluation
    from .files.atomic import atomic_folder, replace_file, sweep, write_atomically
    from .files.cache_home import cache_folder
    from .files.json_file import JSONFileError, finite, is_count, is_number, parse_json, read_json
    from .files.lock import locked, take_lock
    from .objective.classifier_free import ClassifierFree, Guided
    from .objective.diffusion import Diffusion
    from .objective.looks import Looks, freed, standard_error
    from .objective.loss import Losses, Objective, Predict
    from .randomness.categorical import draw_categorical
    from .randomness.generators import kept_generators, seed_generators
    from .randomness.noise import Noise
    from .randomness.shuffle import indices, permute, some_of
    from .registry.component import Component, Owner
    from .registry.components import Registry, installed
    from .registry.discovery import normalised
    from .registry.hooks import PLUGIN_API, Components, hookimpl
    from .registry.kinds import KINDS, Kind
    from .registry.reference import find_reference, is_reference
    from .registry.trust import Origin, refuse_if_forbidden
    from .runs.changes import check_unchanged
    from .runs.checkpoint import Checkpoint
    from .runs.devices import check_device, place
    from .runs.folder import RunFolder
    from .runs.host_memory import kept_memory
    from .runs.lend import lend_training
    from .runs.load import Loaded, load_run
    from .runs.provenance import check_lasting, provenance, remember_code
    from .runs.ranks import Ranks, process_group
    from .runs.run_error import RunError
    from .sampling.drawing import Labels, draw
    from .sampling.filmstrip import Filmstrip, save_small_png
    from .sampling.picture import has_picture, pixels, save_png, tiled
    from .sampling.texts import readable
    from .sampling.write import sample_run
    from .training.run import reproduce
    from .training.signals import Interrupt
    from .training.step import Training

_PUBLIC = {
    "api": "assemble build_objective build_sampler evaluate load parts_of resume sample save train",
    "errors": "ConfigError ElbowroomError IncompatibleError PluginError did_you_mean",
    "files.atomic": "atomic_folder replace_file sweep write_atomically",
    "files.cache_home": "cache_folder",
    "files.json_file": "JSONFileError finite is_count is_number parse_json read_json",
    "files.lock": "locked take_lock",
    "randomness.categorical": "draw_categorical",
    "randomness.generators": "kept_generators seed_generators",
    "randomness.noise": "Noise",
    "randomness.shuffle": "indices permute some_of",
    "contracts.adaptive": "Adaptive sums_by_time",
    "contracts.command": "Command python_form",
    "contracts.dataset": "Batch DataSpec Dataset SPLITS Split check_split listed",
    "contracts.denoiser": "Denoiser",
    "contracts.exporter": "Exporter",
    "contracts.feature_network": "FeatureNetwork weights_digest",
    "contracts.normaliser": "BatchMean Normaliser",
    "contracts.grid": "EvenGrid Grid",
    "contracts.guidance": "Guidance",
    "contracts.optimiser": "Optimiser Rates Weights layouts",
    "contracts.rate_schedule": "RateSchedule",
    "objective.classifier_free": "ClassifierFree Guided",
    "contracts.launcher": "ENDS_WITH_INPUT Ended Job Launcher",
    "contracts.level": "Level broadcast_over",
    "contracts.metric": "Display Measurement Metric Subject is_vacuous",
    "contracts.observer": "RunEvent",
    "contracts.prediction": "CategoricalPrediction RealPrediction",
    "contracts.process": "Absorbing Process Signature Step check_examples check_finite check_range",
    "contracts.sampler": "Frame Model Sampler Samples SteppingSampler",
    "contracts.schedule": "Schedule",
    "contracts.time_sampler": "TimeSampler stratified",
    "contracts.torch_data": "TorchData",
    "contracts.trajectory": "Trajectory level_precision",
    "contracts.weighting": "Weighting",
    "objective.diffusion": "Diffusion",
    "objective.looks": "Looks freed standard_error",
    "objective.loss": "Losses Objective Predict",
    "certificate.certificate": "Certificate END certify isotonic_projection",
    "certificate.meaning": "describe_weighting",
    "certificate.slack": "LossCurve Slack cell_widths minorant slack_on_run",
    "certificate.survey": "levels_at look_closely survey_steps",
    "registry.component": "Component Owner",
    "registry.components": "Registry installed",
    "registry.discovery": "normalised",
    "registry.hooks": "Components PLUGIN_API hookimpl",
    "registry.kinds": "KINDS Kind",
    "registry.reference": "find_reference is_reference",
    "registry.trust": "Origin refuse_if_forbidden",
    "config.assembly": "Parts build_model build_parts natural_schedule settled",
    "config.sections": "Config named_component dump_yaml load_config parse_spec",
    "config.schema": "kind_of options_of",
    "config.spec": "ComponentSpec to_plain",
    "config.yaml_reader": "write_yaml",
    "runs.checkpoint": "Checkpoint",
    "runs.devices": "check_device place",
    "runs.changes": "check_unchanged",
    "runs.folder": "RunFolder",
    "runs.host_memory": "kept_memory",
    "runs.provenance": "check_lasting provenance remember_code",
    "runs.run_error": "RunError",
    "runs.lend": "lend_training",
    "runs.load": "Loaded load_run",
    "runs.ranks": "Ranks process_group",
    "sampling.drawing": "Labels draw",
    "sampling.filmstrip": "Filmstrip save_small_png",
    "sampling.picture": "has_picture pixels save_png tiled",
    "sampling.texts": "readable",
    "sampling.write": "sample_run",
    "training.run": "reproduce",
    "training.signals": "Interrupt",
    "training.step": "Training",
    "evaluation.details": "details_file",
    "evaluation.protocol": "EvaluationProtocol",
    "evaluation.run": "evaluate_run evaluation_folder read_evaluation",
}
"""Module -> the names in it that are public."""

_HOMES = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = [
    "END",
    "ENDS_WITH_INPUT",
    "KINDS",
    "PLUGIN_API",
    "SPLITS",
    "Absorbing",
    "Adaptive",
    "Batch",
    "BatchMean",
    "CategoricalPrediction",
    "Certificate",
    "Checkpoint",
    "ClassifierFree",
    "Command",
    "Component",
    "ComponentSpec",
    "Components",
    "Config",
    "ConfigError",
    "DataSpec",
    "Dataset",
    "Denoiser",
    "Diffusion",
    "Display",
    "ElbowroomError",
    "Ended",
    "EvaluationProtocol",
    "EvenGrid",
    "Exporter",
    "FeatureNetwork",
    "Filmstrip",
    "Frame",
    "Grid",
    "Guidance",
    "Guided",
    "IncompatibleError",
    "Interrupt",
    "JSONFileError",
    "Job",
    "Kind",
    "Labels",
    "Launcher",
    "Level",
    "Loaded",
    "Looks",
    "LossCurve",
    "Losses",
    "Measurement",
    "Metric",
    "Model",
    "Noise",
    "Normaliser",
    "Objective",
    "Optimiser",
    "Origin",
    "Owner",
    "Parts",
    "PluginError",
    "Predict",
    "Process",
    "Ranks",
    "RateSchedule",
    "Rates",
    "RealPrediction",
    "Registry",
    "RunError",
    "RunEvent",
    "RunFolder",
    "Sampler",
    "Samples",
    "Schedule",
    "Signature",
    "Slack",
    "Split",
    "Step",
    "SteppingSampler",
    "Subject",
    "TimeSampler",
    "TorchData",
    "Training",
    "Trajectory",
    "Weighting",
    "Weights",
    "__version__",
    "assemble",
    "atomic_folder",
    "broadcast_over",
    "build_model",
    "build_objective",
    "build_parts",
    "build_sampler",
    "cache_folder",
    "cell_widths",
    "certify",
    "check_device",
    "check_examples",
    "check_finite",
    "check_lasting",
    "check_range",
    "check_split",
    "check_unchanged",
    "describe_weighting",
    "details_file",
    "did_you_mean",
    "draw",
    "draw_categorical",
    "dump_yaml",
    "evaluate",
    "evaluate_run",
    "evaluation_folder",
    "find_reference",
    "finite",
    "freed",
    "has_picture",
    "hookimpl",
    "indices",
    "installed",
    "is_count",
    "is_number",
    "is_reference",
    "is_vacuous",
    "isotonic_projection",
    "kept_generators",
    "kept_memory",
    "kind_of",
    "layouts",
    "lend_training",
    "level_precision",
    "levels_at",
    "listed",
    "load",
    "load_config",
    "load_run",
    "locked",
    "look_closely",
    "minorant",
    "named_component",
    "natural_schedule",
    "normalised",
    "options_of",
    "parse_json",
    "parse_spec",
    "parts_of",
    "permute",
    "pixels",
    "place",
    "process_group",
    "provenance",
    "python_form",
    "read_evaluation",
    "read_json",
    "readable",
    "refuse_if_forbidden",
    "remember_code",
    "replace_file",
    "reproduce",
    "resume",
    "sample",
    "sample_run",
    "save",
    "save_png",
    "save_small_png",
    "seed_generators",
    "settled",
    "slack_on_run",
    "some_of",
    "standard_error",
    "stratified",
    "sums_by_time",
    "survey_steps",
    "sweep",
    "take_lock",
    "tiled",
    "to_plain",
    "train",
    "weights_digest",
    "write_atomically",
    "write_yaml",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("elbowroom")
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in _OLD_NAMES:
        return _renamed(name)
    if not name.startswith("_") and (found := _of_command(name)) is not None:
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


_OLD_NAMES = {"Figure": "Measurement"}
"""Public name of an earlier version -> that of now."""


def _renamed(name: str) -> Any:
    new = _OLD_NAMES[name]
    warnings.warn(f"elbowroom.{name} is elbowroom.{new} now", DeprecationWarning, stacklevel=3)
    return __getattr__(new)


def _of_command(name: str) -> Any:
    """What a plugin's command does, as a function: ``elbowroom.compare``."""
    from .registry.components import installed

    found = installed().commands().get(name.replace("_", "-"))
    return None if found is None else found.python_form()


class _Moved:
    """Modules that have moved are still found by their old names."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("elbowroom.") or name.startswith("elbowroom.registry"):
            return None
        from .registry.moved import Finder

        return Finder.find_spec(name, path, target)


if not any(getattr(finder, "__name__", "") == "_Moved" for finder in sys.meta_path):
    sys.meta_path.append(_Moved)  # it has the one function that is asked for
