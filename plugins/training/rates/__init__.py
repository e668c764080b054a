"""Learning-rate schedules after the warm-up."""
