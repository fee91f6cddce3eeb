"""Evaluating and exporting a checkpoint of a run that is there, without training."""
