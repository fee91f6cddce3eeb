"""The folder that `compat run` puts on PYTHONPATH; see sitecustomize.py."""
