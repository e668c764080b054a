"""Comparisons: a grid of runs, their results and the report."""
