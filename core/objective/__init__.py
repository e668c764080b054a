"""The objective: the mathematics, written once."""

from elbowroom.registry.moved import old_names

__getattr__ = old_names(__name__)
