"""Puts Estimators back on TensorFlow 2.16 and later.

Touches: tf_export._Attributes and its tables, lazy_loader, TPUEstimator.__init__, tb_summary.TBNotInstalledError
Without it: there is no tf.estimator
For: every program on TensorFlow 2.16 and later

The package tensorflow-estimator 2.15 is pure Python and still works. It misses five things there,
and each gets one answer:

1. `tensorflow.python.distribute.estimator_training`: our own module of that name takes its place.
2. Three modules for TPUs: stand-ins whose classes refuse to be made (`removed`). TPUEstimator works
   with use_tpu=False and refuses anything else.
3. `tensorflow.python.estimator` and its parts, which were other names of its modules: so they are
   again (`removed`).
4. The API name 'estimator' in `tf_export`: added to TensorFlow's tables.
5. `tf.estimator` itself, in every copy of the namespace: lazily loaded attributes.

When what happens: as `tensorflow` is imported, 5; as `tensorflow_estimator` is imported, which is
when `tf.estimator` is first touched, Keras is settled (`keras_2`) and 4 is done.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys

from estimator_trainer.compat import hook, lacks

TYPE_CHECKING = False  # `typing` takes a while to import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

# tensorflow and the copies of tf.compat.v1 and v2: `tensorflow.compat.v1` and
# `tensorflow._api.v2.compat.v1` are two module objects, and each has both in it again.
_NAMESPACES = {
    root + outer + inner: int((inner or outer or 'v2')[-1])
    for root in ('tensorflow', 'tensorflow._api.v2')
    for outer in ('', '.compat.v1', '.compat.v2')
    for inner in ('', '.compat.v1', '.compat.v2')
    if (outer or not inner) and (root + outer != 'tensorflow._api.v2')
}


def install() -> None:
    """Restores `tf.estimator` now or when TensorFlow is imported; a second call changes nothing.

    Raises:
        ImportError: TensorFlow is imported, and its `tf.keras` is Keras 3 already.
    """
    hook.before('tensorflow', _find_removed_modules)
    if 'tensorflow' in sys.modules and _is_needed():
        from estimator_trainer.compat.restore import keras_2

        keras_2.refuse_keras_3(namespaces())
    hook.before('tensorflow_estimator', _before_estimators)
    hook.after('tensorflow_estimator.python.estimator.tpu.tpu_estimator', _refuse_tpu)
    hook.after('tensorflow.python.summary.tb_summary', _say_how_to_get_tensorboard)
    for name in _NAMESPACES:
        hook.after(name, _add_estimator)


def namespaces() -> list[tuple[ModuleType, int]]:
    """(module, API version) of tensorflow and of every copy of tf.compat.v1 and v2 that is imported."""
    return [(sys.modules[name], version) for name, version in _NAMESPACES.items() if name in sys.modules]


def _is_needed() -> bool:
    from estimator_trainer import compat

    return not compat.has_estimators()


def _find_removed_modules() -> None:
    if _is_needed():
        from estimator_trainer.compat.restore import removed

        removed.install()


def _add_estimator(namespace: Any) -> None:
    if 'estimator' in vars(namespace) or not _is_needed():
        return
    with lacks.refused():
        from tensorflow.python.util import lazy_loader

    from estimator_trainer.compat.restore import keras_2

    package = importlib.util.find_spec('tensorflow_estimator')
    if package is None or package.origin is None:  # without the package there is no tf.estimator, as TensorFlow has it
        return
    version = _NAMESPACES[namespace.__name__]
    api = f'python/estimator/api/_v{version}'
    namespace.estimator = lazy_loader.LazyLoader(
        'estimator', vars(namespace), f'tensorflow_estimator.{api}.estimator'.replace('/', '.')
    )
    folder = os.path.join(os.path.dirname(package.origin), *api.split('/'))
    namespace.__path__ = [folder, *namespace.__path__]  # for `import tensorflow.estimator`
    keras_2.set_paths(namespace, version)
    if keras_2.is_settled():
        keras_2.settle(namespace, version)


def _say_how_to_get_tensorboard(module: Any) -> None:
    """TensorFlow's own error says what is missing and not what to do."""
    error = getattr(module, 'TBNotInstalledError', None)
    if error is None:
        return

    def init(self: Any, summary_api: str) -> None:
        self.error_message = f'{summary_api} of TensorFlow 2 is part of TensorBoard: pip install tensorboard'
        Exception.__init__(self, self.error_message)

    error.__init__ = init


def _refuse_tpu(module: Any) -> None:
    if not _is_needed():
        return
    original = module.TPUEstimator.__init__

    @functools.wraps(original)
    def init(
        self: Any,
        model_fn: Any = None,
        model_dir: Any = None,
        config: Any = None,
        params: Any = None,
        use_tpu: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if use_tpu:
            raise NotImplementedError(
                'TensorFlow 2.16 removed what TPUEstimator needs of a TPU; with use_tpu=False it runs on CPU and GPU.'
            )
        original(self, model_fn, model_dir, config, params, use_tpu, *args, **kwargs)

    module.TPUEstimator.__init__ = init


def _before_estimators() -> None:
    import tensorflow  # noqa: F401

    if not _is_needed():
        return
    from estimator_trainer.compat.restore import keras_2

    _add_api_name()
    keras_2.settle_all(namespaces())


def _add_api_name() -> None:
    """Teaches `tf_export` the API name 'estimator', which tensorflow_estimator's modules export to."""
    with lacks.refused():
        from tensorflow.python.util import tf_export

        if not hasattr(tf_export, 'ESTIMATOR_API_NAME'):
            _teach(tf_export)


def _teach(tf_export: Any) -> None:
    tf_export.ESTIMATOR_API_NAME = 'estimator'
    for table, suffix, version in ((tf_export.API_ATTRS_V1, '_v1', 1), (tf_export.API_ATTRS, '', 2)):
        table['estimator'] = tf_export._Attributes(f'_estimator_api_names{suffix}', f'_estimator_api_constants{suffix}')
        for kind, attribute in (('names', table['estimator'].names), ('constants', table['estimator'].constants)):
            name = f'get_v{version}_{kind}'
            setattr(tf_export, name, _with_estimators(getattr(tf_export, name), attribute))


def _with_estimators(get_names: Callable[[Any], Sequence[str]], attribute: str) -> Callable[..., Any]:
    """TensorFlow's function that lists the API names of a symbol or module, those of Estimators as well."""

    @functools.wraps(get_names)
    def names(symbol: Any) -> list[str]:
        return [*get_names(symbol), *vars(symbol).get(attribute, ())] if hasattr(symbol, '__dict__') else []

    return names
