"""The Keras behind `tf.keras` on TensorFlow 2.16 and later: Keras 2 from the package tf-keras.

Touches: __path__ of the tensorflow package, and its lazy loader of Keras
Without it: tf.keras is Keras 3, which Estimators cannot train, or replica threads resolve it at once and recurse for
  ever
For: every program on TensorFlow 2.16 and later
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_PARTS = (
    ('layers', 'Dense'),
    ('losses', 'Reduction'),
    ('metrics', 'Mean'),
    ('optimizers', 'Adam'),
    ('initializers', 'zeros'),
    ('keras', 'Model'),
)

_settled = False


def is_settled() -> bool:
    return _settled


def settle_all(namespaces: Sequence[tuple[ModuleType, int]]) -> None:
    """Resolves `tf.keras` and what else is lazily loaded from Keras, now and in this thread.

    TensorFlow's lazy loader is not thread-safe: replica threads that are the first to touch
    `tf.keras` recurse for ever.

    Raises:
        ImportError: it is Keras 3 already, or tf-keras is not installed.
    """
    global _settled
    import tensorflow as tf

    refuse_keras_3(namespaces)
    try:
        tf.keras.Model
    except ImportError as error:
        major, minor = tf.__version__.split('.')[:2]
        raise ImportError(f'Estimators need Keras 2: pip install "tf-keras~={major}.{minor}.0"') from error
    _settled = True
    for namespace, version in namespaces:
        settle(namespace, version)


def settle(namespace: Any, version: int) -> None:
    """Resolves what is lazily loaded from Keras in one copy of the namespace."""
    for package, name in _PARTS:
        getattr(getattr(namespace, package, None), name, None)
    if version == 1:
        namespace.nn.rnn_cell.LSTMCell


def refuse_keras_3(namespaces: Sequence[tuple[ModuleType, int]]) -> None:
    """Raises ImportError if anything of `tf.keras` has been resolved to Keras 3 in this process."""
    if 'keras' not in sys.modules:
        return
    modules = [vars(namespace).get(part) for namespace, _ in namespaces for part, _ in _PARTS]
    if any(_is_keras_3(module) for module in [*modules, sys.modules.get('tensorflow.keras')]):
        raise ImportError(
            'tf.keras is Keras 3 in this process already, and Estimators need Keras 2. Put "import '
            'estimator_trainer.compat" above the first line that uses tf.keras, start the program with '
            '"python -m estimator_trainer.compat run", or set TF_USE_LEGACY_KERAS=1 in the environment.'
        )


def _is_keras_3(module: Any) -> bool:
    names = getattr(module, '__dict__', {})  # by name, a lazy loader would load
    keras = importlib.util.find_spec('keras')
    return (names.get('__name__') or '').startswith('keras.') or bool(
        keras and keras.origin and (names.get('__file__') or '').startswith(os.path.dirname(keras.origin) + os.sep)
    )


def set_paths(namespace: Any, version: int) -> None:
    """Makes `import tensorflow.keras` find Keras 2 where TensorFlow was imported before us."""
    spec = importlib.util.find_spec('tf_keras')
    if spec is None or spec.origin is None:
        return
    root = os.path.join(os.path.dirname(spec.origin), 'api', f'_v{version}')
    _first_in_path(namespace, root)
    if version == 1:
        legacy = os.path.join(root, 'keras', '__internal__', 'legacy')
        _first_in_path(namespace, legacy)
        _first_in_path(namespace.nn, legacy)


def _first_in_path(package: Any, folder: str) -> None:
    if folder not in package.__path__:
        package.__path__ = [folder, *package.__path__]
