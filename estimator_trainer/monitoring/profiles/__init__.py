"""Profiles of training steps: which steps are recorded, the recording, and what a recording says.

Only `profiler` imports TensorFlow. `read` runs in a process of its own, so that no training step waits for it.
"""
