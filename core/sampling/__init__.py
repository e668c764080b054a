"""Sampling: drawing, writing and showing samples."""

from elbowroom.registry.moved import old_names

__getattr__ = old_names(__name__)
