"""Benchmarks: our train step beside a bare loop."""
