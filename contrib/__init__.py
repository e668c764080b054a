"""Opt-in extras; they may lag behind the core."""
