"""Imports the package tf_config that came with this one. `python -m` looks into the current folder first, and a program
there may have a tf_config.py of its own, which its own process still gets."""

import importlib.machinery
import importlib.util
import os
import sys

_NAME = 'tf_config'
if _NAME not in sys.modules:
    _spec = importlib.machinery.PathFinder.find_spec(_NAME, [os.path.dirname(os.path.dirname(__file__))])
    if _spec and _spec.loader:
        sys.modules[_NAME] = importlib.util.module_from_spec(_spec)
        _spec.loader.exec_module(sys.modules[_NAME])
