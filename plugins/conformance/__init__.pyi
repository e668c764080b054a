from .command import check_command as check_command
from .dataset import check_dataset as check_dataset
from .denoiser import check_denoiser as check_denoiser
from .exporter import check_exporter as check_exporter
from .feature_network import check_feature_network as check_feature_network
from .grid import check_grid as check_grid
from .guidance import check_guidance as check_guidance
from .launcher import check_launcher as check_launcher
from .laws import check_component as check_component
from .metric import check_metric as check_metric
from .normaliser import check_normaliser as check_normaliser
from .optimiser import check_optimiser as check_optimiser
from .oracle import (
    MixtureOracle as MixtureOracle,
    TableOracle as TableOracle,
    every_state as every_state,
)
from .path import check_path as check_path
from .process import check_process as check_process
from .rate_schedule import check_rate_schedule as check_rate_schedule
from .sampler import check_sampler as check_sampler
from .schedule import check_schedule as check_schedule
from .time_sampler import check_time_sampler as check_time_sampler
from .weighting import check_weighting as check_weighting
