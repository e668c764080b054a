from .adaptive import is_trained as is_trained, sums_by_time as sums_by_time
from .dataset import (
    SPLITS as SPLITS,
    Part as Part,
    check_split as check_split,
    join_names as join_names,
)
from .denoiser import hidden_weights as hidden_weights
from .level import broadcast_over as broadcast_over
from .path import Completion as Completion, Shared as Shared
from .process import (
    check_examples as check_examples,
    check_finite as check_finite,
    check_range as check_range,
)
from .trajectory import Given as Given, level_precision as level_precision
from .weighting import check_submodules as check_submodules, positions_of as positions_of
