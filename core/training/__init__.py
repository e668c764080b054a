"""Training: the run, its loop and its step."""

from elbowroom.registry.moved import old_names

__getattr__ = old_names(__name__)
