from .classifier_free import Guided as Guided
from .diffusion import Conditioned as Conditioned, log_snr_range as log_snr_range
from .loss import (
    Bound as Bound,
    Predict as Predict,
    bound as bound,
    boundary_terms as boundary_terms,
)
