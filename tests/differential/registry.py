"""All jobs of the corpus: CASES, and each Job as an attribute, for `--job=tests.differential.registry:NAME`."""

import importlib
import pkgutil

import tensorflow as tf  # noqa: F401  the trainer loads this module once TensorFlow is there

from tests.differential import jobs
from tests.differential.case import CASES

for found in pkgutil.iter_modules(jobs.__path__):
    importlib.import_module(f'{jobs.__name__}.{found.name}')


def __getattr__(name):
    if name not in CASES:
        raise AttributeError(name)
    return CASES[name].make()
