"""Starts the recorder of `verify` in every Python process of a program that `verify` runs.

`verify` puts this folder first on PYTHONPATH, and Python imports `sitecustomize` as it starts. Any other sitecustomize
is run first, as if this one were not there: that of `compat`, which brings tf.estimator back, and the user's. The
interpreter may have no estimator_trainer, and a Python as old as 3.8.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
import estimator_recorder  # noqa: E402

sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
_other = importlib.machinery.PathFinder.find_spec('sitecustomize')  # which this one hides
if _other and _other.origin and _other.loader:
    sys.modules['sitecustomize'] = importlib.util.module_from_spec(_other)
    _other.loader.exec_module(sys.modules['sitecustomize'])
estimator_recorder.install()
