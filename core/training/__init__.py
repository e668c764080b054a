"""Training: the run, its loop and its step."""
