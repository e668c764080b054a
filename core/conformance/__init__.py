"""What every component must satisfy, for plugin authors and for us.

    from elbowroom.conformance import check_weighting

    def test_min_snr():
        check_weighting(MinSNR())

Each check runs all laws of a contract and fails with one AssertionError whose sentences say which
laws are broken and how. The built-in components pass through the same calls.
"""

from __future__ import annotations

from .command import check_command
from .dataset import check_dataset
from .denoiser import check_denoiser
from .exporter import check_exporter
from .feature_network import check_feature_network
from .grid import check_grid
from .guidance import check_guidance
from .launcher import check_launcher
from .metric import check_metric
from .normaliser import check_normaliser
from .optimiser import check_optimiser
from .oracle import MixtureOracle, TableOracle, every_state
from .process import check_process
from .rate_schedule import check_rate_schedule
from .sampler import check_sampler
from .schedule import check_schedule
from .time_sampler import check_time_sampler
from .weighting import check_weighting

__all__ = [
    "MixtureOracle",
    "TableOracle",
    "check_command",
    "check_dataset",
    "check_denoiser",
    "check_exporter",
    "check_feature_network",
    "check_grid",
    "check_guidance",
    "check_launcher",
    "check_metric",
    "check_normaliser",
    "check_optimiser",
    "check_process",
    "check_rate_schedule",
    "check_sampler",
    "check_schedule",
    "check_time_sampler",
    "check_weighting",
    "every_state",
]
