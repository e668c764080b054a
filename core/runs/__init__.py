"""Runs: their folders, checkpoints and processes."""
