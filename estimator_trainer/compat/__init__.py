"""The one room that knows TensorFlow versions: puts `tf.estimator` where TensorFlow has dropped it.

    from estimator_trainer import compat
    compat.install()          # before or after `import tensorflow`
    import tensorflow as tf
    tf.estimator.Estimator    # on TF 2.15 and on TF 2.21

Nothing in site-packages is edited, and on a TensorFlow that has Estimators nothing is replaced but
the upstream defects listed in `compat.fixes`.
"""

import importlib.metadata
import os


def prepare() -> None:
    """Chooses the Keras that Estimators need. Call it before TensorFlow is imported; imports nothing.

    Estimators are built on Keras 2. From 2.16 on TensorFlow has Keras 3 and takes Keras 2 from the
    package tf-keras if TF_USE_LEGACY_KERAS is set. TensorFlow 2.15 has Keras 2 itself, and the same
    variable breaks it where tf-keras is missing.
    """
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


def tensorflow_version() -> tuple:
    """(major, minor) of the installed TensorFlow, from its metadata."""
    for name in ('tensorflow', 'tensorflow-cpu', 'tf-nightly', 'tensorflow-macos'):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return tuple(int(part) for part in version.split('.')[:2])
    raise ImportError('TensorFlow is not installed: pip install estimator-trainer')


def versions() -> dict:
    """The versions that decide what a run computes, for config.json."""
    import platform
    found = {'python': platform.python_version()}
    for name in ('tensorflow', 'tensorflow-estimator', 'tf-keras', 'numpy', 'tensorflow-datasets'):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def install(fixes: bool = True) -> None:
    """Makes `tf.estimator` usable and mends upstream's defects. Safe to call twice.

    Args:
        fixes: whether to mend the defects listed in `compat.fixes`.

    Raises:
        ImportError: `tf.keras` is already Keras 3 in this process; the message says what to do.
    """
    prepare()
    if not has_estimators():
        from estimator_trainer.compat import restore
        restore.install()
    if fixes:
        from estimator_trainer.compat import fixes as mended
        mended.apply()
