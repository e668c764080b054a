"""Evaluation: what is measured of a model, and how."""

from elbowroom.registry.moved import old_names

__getattr__ = old_names(__name__)
