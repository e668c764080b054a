"""Contracts: what a plugin can be, and the values that contracts exchange."""
