from .generators import (
    preserve_generators as preserve_generators,
    seed_generators as seed_generators,
)
from .shuffle import indices as indices, permute as permute, random_subset as random_subset
