"""The paper: its theorems checked, its plots, its table."""
