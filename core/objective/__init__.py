"""The objective: the mathematics, written once."""
