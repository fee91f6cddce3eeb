"""Runs TensorFlow Estimator jobs on today's TensorFlow, on one machine or many."""
