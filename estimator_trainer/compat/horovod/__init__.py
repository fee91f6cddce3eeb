"""`horovod.tensorflow` for programs that import it, where Horovod itself is not installed.

    import estimator_trainer.compat.horovod   # before the program imports horovod
    import horovod.tensorflow as hvd

    python -m estimator_trainer.compat run --horovod script.py   # in each task of an engine, or with TF_CONFIG
    python -m estimator_trainer cluster --program=script.py --horovod --workers=2   # on one machine

Horovod's last release is of 2023 and is not built for today's TensorFlow. The ranks are the tasks of the cluster that
train (`ranks`). They find each other at their addresses (`joining`), and exchange arrays in shared memory, or over TCP
(`socket_mesh`). An operation of a graph calls that from Python (`collectives`). The modules `hvd_*` have Horovod's
names; a real Horovod that is installed goes before them. Importing this imports no TensorFlow.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from estimator_trainer import compat
from estimator_trainer.compat.horovod import ranks

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_OURS = 'estimator_trainer.compat.horovod.'
_MODULES = {  # Horovod's module: ours; None where it has nothing itself
    'horovod': None,
    'horovod.common': None,
    'horovod.common.exceptions': 'world',
    'horovod.tensorflow': 'hvd_tensorflow',
    'horovod.tensorflow.compression': 'hvd_tensorflow',
    'horovod.tensorflow.functions': 'hvd_tensorflow',
    'horovod.tensorflow.mpi_ops': 'hvd_tensorflow',
    'horovod.tensorflow.keras': 'hvd_keras',
    'horovod.tensorflow.keras.callbacks': 'hvd_callbacks',
    'horovod.keras': 'hvd_keras',
    'horovod.keras.callbacks': 'hvd_callbacks',
}


def _install() -> None:
    """Lets these modules be imported; a second call changes nothing."""
    if not any(isinstance(finder, _Modules) for finder in sys.meta_path):
        sys.meta_path.append(_Modules())  # last: a Horovod that is installed wins


class _Modules(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith('horovod.') and fullname not in _MODULES:
            raise ModuleNotFoundError(f'{fullname} is not among what estimator_trainer has of Horovod.', name=fullname)
        if fullname not in _MODULES:
            return None
        is_package = any(name.startswith(f'{fullname}.') for name in _MODULES)
        return importlib.machinery.ModuleSpec(fullname, _Loader(_MODULES[fullname]), is_package=is_package)


class _Loader(importlib.abc.Loader):
    """Gives a module the public names of ours; any other name is an AttributeError of one sentence."""

    def __init__(self, ours: str | None) -> None:
        self._ours = ours

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        ours = importlib.import_module(_OURS + self._ours) if self._ours else None
        names = getattr(ours, '__all__', ())
        vars(module).update({name: getattr(ours, name) for name in names})

        def look_up(name: str) -> None:
            if name.startswith('__'):
                raise AttributeError(name)
            raise AttributeError(f'{module.__name__}.{name} is not among what estimator_trainer has of Horovod.')

        module.__getattr__ = look_up
        if '__version__' not in names:
            module.__version__ = '0.28.1'  # whose API these modules have


compat.install()
ranks.take(os.environ)
_install()
