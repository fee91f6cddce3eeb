"""Evaluates checkpoints exactly, decides when training stops early, and exports models."""
