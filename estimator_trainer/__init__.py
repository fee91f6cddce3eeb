"""Runs TensorFlow Estimator jobs on today's TensorFlow, on one machine or many."""

__version__ = '0.1.0'
