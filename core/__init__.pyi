from .api import (
    assemble as assemble,
    build_objective as build_objective,
    build_sampler as build_sampler,
    load as load,
    parts_of as parts_of,
    save as save,
)
from .config.sections import (
    Config as Config,
    dump_yaml as dump_yaml,
    load_config as load_config,
    named_component as named_component,
)
from .config.spec import ComponentSpec as ComponentSpec
from .contracts.adaptive import Adaptive as Adaptive
from .contracts.command import Command as Command, python_form as python_form
from .contracts.dataset import (
    Batch as Batch,
    Dataset as Dataset,
    DataSpec as DataSpec,
    Split as Split,
)
from .contracts.denoiser import Denoiser as Denoiser
from .contracts.grid import EvenGrid as EvenGrid, Grid as Grid
from .contracts.guidance import Guidance as Guidance
from .contracts.level import Level as Level
from .contracts.normaliser import Normaliser as Normaliser
from .contracts.observer import RunEvent as RunEvent
from .contracts.path import Path as Path
from .contracts.prediction import (
    CategoricalPrediction as CategoricalPrediction,
    RealPrediction as RealPrediction,
)
from .contracts.process import (
    Absorbing as Absorbing,
    Process as Process,
    Signature as Signature,
    Step as Step,
)
from .contracts.sampler import (
    Frame as Frame,
    Model as Model,
    Sampler as Sampler,
    Samples as Samples,
    SteppingSampler as SteppingSampler,
)
from .contracts.schedule import Schedule as Schedule
from .contracts.section import Section as Section
from .contracts.time_sampler import TimeSampler as TimeSampler, stratified as stratified
from .contracts.trajectory import Trajectory as Trajectory
from .contracts.weighting import Weighting as Weighting
from .errors import (
    ConfigError as ConfigError,
    ElbowroomError as ElbowroomError,
    IncompatibleError as IncompatibleError,
    PluginError as PluginError,
)
from .objective.diffusion import Diffusion as Diffusion
from .objective.loss import Losses as Losses, Objective as Objective
from .plugins.datasets.torch_data import TorchData as TorchData
from .plugins.evaluation.feature_network import FeatureNetwork as FeatureNetwork
from .plugins.evaluation.metric import (
    Display as Display,
    Measurement as Measurement,
    Metric as Metric,
    Subject as Subject,
)
from .plugins.evaluation.protocol import EvaluationProtocol as EvaluationProtocol
from .plugins.evaluation.verbs import evaluate as evaluate
from .plugins.export.exporter import Exporter as Exporter
from .plugins.launchers.launcher import Ended as Ended, Job as Job, Launcher as Launcher
from .plugins.paper.certificate import Certificate as Certificate, certify as certify
from .plugins.sampling.verbs import sample as sample
from .plugins.training.loop import InterruptedRun as InterruptedRun
from .plugins.training.optimiser import Optimiser as Optimiser, Rates as Rates, Weights as Weights
from .plugins.training.rate_schedule import RateSchedule as RateSchedule
from .plugins.training.verbs import resume as resume, train as train
from .randomness.categorical import draw_categorical as draw_categorical
from .randomness.noise import Noise as Noise
from .registry.components import installed as installed
from .registry.hooks import PLUGIN_API as PLUGIN_API, Components as Components, hookimpl as hookimpl
from .registry.kinds import Kind as Kind
from .runs.run_error import RunError as RunError

__version__: str
