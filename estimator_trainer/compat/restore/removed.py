"""Modules that TensorFlow 2.16 and later no longer has, for the code that imports them.

Touches: modules below tensorflow.python that TensorFlow has removed
Without it: tensorflow_estimator, and programs that import these modules, cannot be imported
For: every program on TensorFlow 2.16 and later
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_OURS = {'tensorflow.python.distribute.estimator_training': 'estimator_trainer.compat.restore.estimator_training'}
_TPU = frozenset(
    (
        'tensorflow.python.tpu.session_support',
        'tensorflow.python.tpu.tpu_embedding',
        'tensorflow.python.tpu.tpu_embedding_gradient',
    )
)
_ESTIMATOR = 'tensorflow.python.estimator'
# What TensorFlow 2.15 had there: each gave the names of tensorflow_estimator's module of that name.
_ESTIMATOR_PARTS = frozenset(
    """
    canned canned.baseline canned.dnn canned.dnn_linear_combined canned.head canned.linear
    canned.metric_keys canned.optimizers canned.parsing_utils canned.prediction_keys estimator
    estimator_lib export export.export export.export_lib export.export_output exporter gc inputs
    inputs.inputs inputs.numpy_io inputs.pandas_io inputs.queues inputs.queues.feeding_functions
    inputs.queues.feeding_queue_runner keras model_fn run_config training util""".split()
)
_PACKAGES = frozenset(('canned', 'export', 'inputs', 'inputs.queues'))
_TPU_PARTS = frozenset(('error_handling', 'tpu_config', 'tpu_context', 'tpu_estimator', 'util'))
_REAL_NAMES = {'keras': 'keras_lib'}


def install() -> None:
    """Lets these modules be imported; a second call changes nothing."""
    if not any(isinstance(finder, _RemovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_RemovedModules())  # last: TensorFlow's own module wins


class _RemovedModules(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith('tensorflow.python.'):
            return None
        if fullname in _OURS:
            ours = importlib.util.find_spec(_OURS[fullname])
            return ours and importlib.util.spec_from_file_location(fullname, ours.origin)
        if fullname in _TPU:
            return importlib.machinery.ModuleSpec(fullname, _TpuLoader())
        if fullname == _ESTIMATOR:
            return importlib.machinery.ModuleSpec(fullname, _OtherName(None), is_package=True)
        parent, _, part = fullname.partition(_ESTIMATOR + '.')
        if not parent and part in _ESTIMATOR_PARTS:
            real = f'tensorflow_estimator.python.estimator.{_REAL_NAMES.get(part, part)}'
            return importlib.machinery.ModuleSpec(fullname, _OtherName(real), is_package=part in _PACKAGES)
        parent, _, part = fullname.partition('tensorflow.python.tpu.')
        if not parent and part in _TPU_PARTS:
            return importlib.machinery.ModuleSpec(
                fullname, _OtherName(f'tensorflow_estimator.python.estimator.tpu.{part}')
            )
        return None


class _OtherName(importlib.abc.Loader):
    """Gives a module the names of another, those with one underscore as well."""

    def __init__(self, real: str | None) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: Any) -> None:
        if self._real is not None:
            real = vars(importlib.import_module(self._real))
            vars(module).update((k, v) for k, v in real.items() if not k.startswith('__'))


class _TpuModule(types.ModuleType):
    """A removed TPU module: every name in it is a class that refuses to be made."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        full_name = f'{self.__name__}.{name}'

        def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
            raise NotImplementedError(f'{full_name} needs a TPU and was removed from TensorFlow 2.16.')

        stand_in = type(name, (), {'__init__': refuse, '__module__': self.__name__})
        setattr(self, name, stand_in)
        return stand_in


class _TpuLoader(importlib.abc.Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return _TpuModule(spec.name)

    def exec_module(self, module: Any) -> None:
        pass
