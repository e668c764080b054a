"""Sampling: drawing, writing and showing samples."""
