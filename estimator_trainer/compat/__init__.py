"""The only package that knows TensorFlow versions. It puts `tf.estimator` back where TensorFlow has dropped it.

    import estimator_trainer.compat   # before or after `import tensorflow`
    import tensorflow as tf
    tf.estimator.Estimator            # on TF 2.15 and on TF 2.21

    python -m estimator_trainer.compat run script.py args...   # a program that nobody wants to touch
    python -m estimator_trainer doctor                         # what is here, what is mended, and why

Importing this package imports no TensorFlow. It does its work when the program imports TensorFlow, and the slow part
when the program first touches `tf.estimator`. It edits nothing in site-packages. On a TensorFlow that has Estimators it
only mends the upstream defects that `compat.patches.AFTER` names.
"""

from __future__ import annotations

import functools
import os

from estimator_trainer.compat import hook

TYPE_CHECKING = False  # `typing` takes a while to import
if TYPE_CHECKING:
    from types import ModuleType

FIXES_VARIABLE = 'ESTIMATOR_TRAINER_FIXES'  # 0: upstream's defects stay
# What switches of `compat run` set for the program; its sitecustomize reads them.
TF1_VARIABLE = 'ESTIMATOR_TRAINER_TF1'  # --tf1: a `tf1_names.version_rule.VersionRule`
INTERNALS_VARIABLE = 'ESTIMATOR_TRAINER_INTERNALS'  # --internals
SEED_VARIABLE = 'ESTIMATOR_TRAINER_SEED'  # --stable-seeds: the seed
PYTHON_VARIABLE = 'ESTIMATOR_TRAINER_PYTHON'  # the interpreter of the program; in others nothing happens

# What pip calls TensorFlow and Keras 2. Two of a kind write over each other.
DISTRIBUTIONS = ('tensorflow', 'tensorflow-cpu', 'tf-nightly', 'tf-nightly-cpu', 'tensorflow-macos')
KERAS_DISTRIBUTIONS = ('tf-keras', 'tf-keras-nightly')


def install(fixes: bool | None = None) -> None:
    """Makes `tf.estimator` usable and mends upstream's defects. Safe to call twice.

    Importing this package does the same with the default.

    Args:
        fixes: whether to mend the defects that `compat.patches.AFTER` names. Unless given, the environment
            variable ESTIMATOR_TRAINER_FIXES says it; unless that is 0, they are mended.

    Raises:
        ImportError: `tf.keras` is already Keras 3 in this process; the message says what to do.
        RuntimeError: fixes=False comes after Estimators were imported and mended.
    """
    from estimator_trainer.compat import patches, restore

    if fixes is None:
        fixes = os.environ.get(FIXES_VARIABLE) != '0'
    hook.before('tensorflow', prepare)
    restore.install()
    if fixes:
        patches.apply()
    else:
        patches.withdraw()


def bring_up() -> ModuleType:
    """Imports TensorFlow as Estimators need it, and quietly; returns it. Safe to call twice."""
    from estimator_trainer.compat import quiet
    from estimator_trainer.this_process import gpus

    prepare()
    gpus.let_memory_grow(os.environ)
    tensorflow = quiet.import_tensorflow()
    install()
    quiet.silence_deprecations()
    return tensorflow


def prepare() -> None:
    """Chooses the Keras that Estimators need, and settings of gs://, unless the user has chosen those.

    Call it before TensorFlow is imported; imports next to nothing.

    Estimators are built on Keras 2. From 2.16 on TensorFlow has Keras 3 and takes Keras 2 from the
    package tf-keras if TF_USE_LEGACY_KERAS is set. TensorFlow 2.15 has Keras 2 itself, and the same
    variable breaks it where tf-keras is missing.
    """
    from estimator_trainer.compat import remote_files

    remote_files.prepare(os.environ)
    if has_estimators():
        os.environ.pop('TF_USE_LEGACY_KERAS', None)
    else:
        os.environ['TF_USE_LEGACY_KERAS'] = '1'


def has_estimators() -> bool:
    """Whether the installed TensorFlow still ships `tf.estimator` (up to 2.15), without importing it.

    Raises:
        ImportError: TensorFlow is not installed.
    """
    return tensorflow_version() < (2, 16)


@functools.cache
def tensorflow_version() -> tuple:
    """(major, minor) of the installed TensorFlow, from its metadata."""
    import importlib.metadata

    version = installed(*DISTRIBUTIONS)
    if version:
        return _numbers(version)
    for name in importlib.metadata.packages_distributions().get('tensorflow', ()):  # a vendor's; slow
        if '.' in importlib.metadata.version(name):
            return _numbers(importlib.metadata.version(name))
    raise ImportError('TensorFlow is not installed: pip install tensorflow')


def installed(*names: str) -> str | None:
    """The version of the first of these distributions that is installed."""
    import importlib.metadata

    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return None


def _numbers(version: str) -> tuple:
    return tuple(int(part) for part in version.split('.')[:2])


def versions() -> dict:
    """The versions that decide what a run computes, for config.json. A nightly build has the name of the release."""
    import platform

    packages = {
        'tensorflow': installed(*DISTRIBUTIONS),
        'tensorflow-estimator': installed('tensorflow-estimator'),
        'tf-keras': installed(*KERAS_DISTRIBUTIONS),
        'numpy': installed('numpy'),
        'tensorflow-datasets': installed('tensorflow-datasets'),
        'estimator-trainer': installed('estimator-trainer'),
    }
    return {'python': platform.python_version(), **{name: version for name, version in packages.items() if version}}


install()
