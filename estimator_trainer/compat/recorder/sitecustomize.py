"""Starts the recorder of `verify` in every Python process of a program that `verify` runs.

`verify` puts this folder first on PYTHONPATH, and Python imports `sitecustomize` as it starts. Any other sitecustomize
is run first, as if this one were not there: that of `compat`, which brings tf.estimator back, and the user's. The
interpreter may have no estimator_trainer, and a Python as old as 3.8.
"""

import os
import sys


def _run_the_other():
    """Imports the sitecustomize that this one hides, if there is one."""
    ours = sys.modules.pop('sitecustomize', None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != 'sitecustomize':
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault('sitecustomize', ours)


_HERE = os.path.dirname(os.path.abspath(__file__))
import estimator_recorder  # noqa: E402

sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
_run_the_other()
estimator_recorder.install()
