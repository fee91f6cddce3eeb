"""Imports estimator_trainer.compat at the start of every Python process of a program.

`python -m estimator_trainer.compat run` puts this folder first on PYTHONPATH. Python imports
`sitecustomize` as it starts, so that the program and all Python processes that inherit its
environment have Estimators: multiprocessing's, subprocess's, a launcher's. Any other sitecustomize is
run first, as if this one were not there, and the folder leaves sys.path.

In another interpreter than that of the program, such as a system tool with a Python of its own, nothing happens: it has
other packages. Such a Python may be as old as 2.7, so that this file has no newer syntax.

Processes started with `python -I`, `-E` or `-S`, or with an environment without PYTHONPATH, are not
reached.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_THIS = ':'.join(map(str, (sys.version_info[0], sys.version_info[1], os.path.realpath(sys.prefix))))

if os.environ.get('ESTIMATOR_TRAINER_PYTHON', _THIS) == _THIS:
    import bring_estimators  # noqa: F401

    del sys.modules['bring_estimators']
else:
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    _this_module = sys.modules.pop('sitecustomize')
    try:
        import sitecustomize  # noqa: F401  another one, which this one hides
    except ImportError:
        if 'sitecustomize' not in str(sys.exc_info()[1]):
            raise
    sys.modules.setdefault('sitecustomize', _this_module)
