"""Puts Estimators back on TensorFlow 2.16 and later.

The package tensorflow-estimator 2.15 is pure Python and still works. It misses four things there,
and each gets one answer:

1. `tensorflow.python.distribute.estimator_training`: our own module of that name takes its place.
2. Three modules for TPUs: stand-ins whose classes refuse to be made.
3. The API name 'estimator' in `tf_export`: added to TensorFlow's tables.
4. `tf.estimator` itself, in every copy of the namespace: lazily loaded attributes.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
import types

_OUR_MODULES = {
    'tensorflow.python.distribute.estimator_training': 'estimator_trainer.compat.estimator_training',
}
_TPU_MODULES = frozenset((
    'tensorflow.python.tpu.session_support',
    'tensorflow.python.tpu.tpu_embedding',
    'tensorflow.python.tpu.tpu_embedding_gradient',
))


def install() -> None:
    """Restores `tf.estimator`; a second call changes nothing."""
    if not any(isinstance(finder, _RemovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_RemovedModules())
    import tensorflow as tf
    import tensorflow.compat.v1  # both copies of the v1 namespace exist from here on
    import tensorflow.compat.v2
    if 'estimator' in vars(tf):
        return
    _add_api_name()
    _settle_keras(tf)
    _add_estimator()


class _TpuModule(types.ModuleType):
    """A removed TPU module: every name in it is a class that refuses to be made."""

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        full_name = f'{self.__name__}.{name}'

        def refuse(self, *args, **kwargs):
            raise NotImplementedError(f'{full_name} needs a TPU and was removed from TensorFlow 2.16.')

        stand_in = type(name, (), {'__init__': refuse, '__module__': self.__name__})
        setattr(self, name, stand_in)
        return stand_in


class _RemovedModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what TensorFlow no longer has. Last on sys.meta_path: TensorFlow's own module wins."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname in _OUR_MODULES:
            origin = importlib.util.find_spec(_OUR_MODULES[fullname]).origin
            return importlib.util.spec_from_file_location(fullname, origin)
        if fullname in _TPU_MODULES:
            return importlib.machinery.ModuleSpec(fullname, self)
        return None

    def create_module(self, spec):
        return _TpuModule(spec.name)

    def exec_module(self, module):
        pass


def _add_api_name() -> None:
    """Teaches `tf_export` the API name 'estimator', which tensorflow_estimator's modules export to."""
    from tensorflow.python.util import tf_export
    if hasattr(tf_export, 'ESTIMATOR_API_NAME'):
        return
    tf_export.ESTIMATOR_API_NAME = 'estimator'
    for table, suffix in ((tf_export.API_ATTRS_V1, '_v1'), (tf_export.API_ATTRS, '')):
        table['estimator'] = tf_export._Attributes(
            f'_estimator_api_names{suffix}', f'_estimator_api_constants{suffix}')


def _settle_keras(tf) -> None:
    """Resolves `tf.keras` to tf_keras now, in the main thread.

    TensorFlow's lazy loader is not thread-safe: replica threads that are the first to touch
    `tf.keras` recurse for ever.
    """
    try:
        legacy = tf.keras.Model.__module__.startswith('tf_keras')
    except ImportError as error:
        raise ImportError('Estimators need Keras 2: pip install "tf-keras~=%d.%d.0"' %
                          tuple(int(x) for x in tf.__version__.split('.')[:2])) from error
    if not legacy:
        raise ImportError(
            'tf.keras is Keras 3 in this process already, and Estimators need Keras 2. Set '
            'TF_USE_LEGACY_KERAS=1 in the environment, or install estimator_trainer.compat before '
            'anything touches tf.keras.')
    for namespace, version in _namespaces():
        for package, name in (('layers', 'Dense'), ('losses', 'Reduction'), ('metrics', 'Mean'),
                              ('optimizers', 'Adam'), ('initializers', 'zeros'), ('keras', 'Model')):
            getattr(getattr(namespace, package, None), name, None)
        if version == 1:
            namespace.nn.rnn_cell.LSTMCell


def _add_estimator() -> None:
    from tensorflow.python.util import lazy_loader
    root = os.path.dirname(importlib.util.find_spec('tensorflow_estimator').origin)
    for namespace, version in _namespaces():
        api = f'python/estimator/api/_v{version}'
        namespace.estimator = lazy_loader.LazyLoader(
            'estimator', vars(namespace), f'tensorflow_estimator.{api}.estimator'.replace('/', '.'))
        folder = os.path.join(root, *api.split('/'))
        if folder not in namespace.__path__:  # for `import tensorflow.estimator`
            namespace.__path__ = [folder, *namespace.__path__]


def _namespaces():
    """(module, API version) of tensorflow and of every copy of tf.compat.v1 and v2.

    `tensorflow.compat.v1` and `tensorflow._api.v2.compat.v1` are two module objects.
    """
    for name, module in list(sys.modules.items()):
        match = re.fullmatch(r'tensorflow(?:\._api\.v2)?((?:\.compat\.v[12])*)', name)
        if match and (match.group(1) or name == 'tensorflow'):
            yield module, int(match.group(1)[-1]) if match.group(1) else 2
