"""Measurements of estimator_trainer beside what people would use in its place: `python -m benchmarks --help`."""
