"""Evaluation: what is measured of a model, and how."""
