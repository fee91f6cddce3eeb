"""The functions for Python, which docs/api.md describes: each runs a command as a process, and reads what it wrote.

Nothing here imports TensorFlow, so the process of the caller stays as it is.
"""
