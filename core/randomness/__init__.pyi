from .generators import kept_generators as kept_generators, seed_generators as seed_generators
from .shuffle import indices as indices, permute as permute, some_of as some_of
