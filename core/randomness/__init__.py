"""Randomness: keyed random numbers, shuffles, categorical draws."""
