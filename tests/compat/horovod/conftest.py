"""To import the package is meant to change the environment of what this process starts. Other tests start programs."""

import os

_before = dict(os.environ)
import estimator_trainer.compat.horovod  # noqa: E402, F401

for _name in set(os.environ) - set(_before):
    del os.environ[_name]
os.environ.update(_before)
