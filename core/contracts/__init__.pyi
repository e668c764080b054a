from .adaptive import learns as learns, sums_by_time as sums_by_time
from .dataset import SPLITS as SPLITS, check_split as check_split, listed as listed
from .denoiser import hidden_weights as hidden_weights
from .process import (
    check_examples as check_examples,
    check_finite as check_finite,
    check_range as check_range,
)
from .trajectory import level_precision as level_precision
from .weighting import check_within_reach as check_within_reach, positions_of as positions_of
