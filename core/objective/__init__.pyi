from .classifier_free import Guided as Guided
from .diffusion import ends_of as ends_of
from .loss import (
    Bound as Bound,
    Predict as Predict,
    bound as bound,
    boundary_terms as boundary_terms,
)
