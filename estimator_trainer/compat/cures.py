"""Says what to do, after the traceback of an exception that has ended a program, where the exception tells it.

The line begins with `error_lines.COMPAT`; `cluster` and `verify` find it in what the program has printed.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from types import FrameType, ModuleType, TracebackType
from typing import Any

from estimator_trainer import error_lines

_NO_CHIEF = re.compile(r'If "cluster" is set in TF_CONFIG, it must have one "\w+" node')
_ONE_BY_ONE = re.compile(r'Estimator\.\w+ cannot run in a cluster whose RunConfig has a strategy')


def install(tf1: bool) -> None:
    """Lets the line follow the traceback. `tf1`: the program runs under --tf1."""
    show_traceback = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        show_traceback(kind, error, where)
        cure = cure_of(error, tf1)
        if cure:
            print(f'{error_lines.COMPAT}{cure}', file=sys.stderr, flush=True)

    sys.excepthook = hook


def cure_of(error: BaseException, tf1: bool) -> str | None:
    """What to do about `error`; None where it does not tell."""
    if isinstance(error, ValueError) and _NO_CHIEF.search(str(error)):
        strategy = f'tf.distribute.{"experimental." if tf1 else ""}MultiWorkerMirroredStrategy()'
        return (
            'the Estimator has no strategy, and TF_CONFIG names workers alone, which need one: give '
            f'RunConfig(train_distribute={strategy}), or parameter servers, as in '
            '`cluster --program=PROGRAM --workers=2 --ps=1`'
        )
    if isinstance(error, ValueError) and _ONE_BY_ONE.search(str(error)):
        return (
            'a cluster with a strategy trains by tf.estimator.train_and_evaluate alone: call it, with a TrainSpec and '
            'an EvalSpec, in place of Estimator.train and Estimator.evaluate'
        )
    if isinstance(error, ModuleNotFoundError) and error.name == 'horovod':
        return (
            'the program imports Horovod, which is not installed: --horovod runs programs of horovod.tensorflow '
            'without it, as in `python -m estimator_trainer.compat run --horovod PROGRAM`; `cluster --program` takes '
            'it as well'
        )
    if _lacks_estimators(error):
        return 'the package tensorflow-estimator is not installed: pip install "tensorflow-estimator==2.15.*"'
    if _is_raised_by_keras_3(error):
        return (
            'the program imports keras, which is Keras 3 here, and Estimators and tf.keras are of Keras 2: if it is '
            'written for Keras 2, write `from tensorflow import keras` in place of `import keras`, and '
            '`from tensorflow.keras` in place of `from keras`'
        )
    name = old_name(error, sys.modules.get('tensorflow'))
    if not tf1:
        return name and advice(name)
    package = name and _package_of(error, sys.modules['tensorflow'])
    return package and (
        f'{name} is of TensorFlow 1, and the installed package {package} gets the names of TensorFlow 2: give '
        f'--tf1-packages={package} to `compat run`, or --tf1_packages={package} to `cluster --program`, as well'
    )


def _lacks_estimators(error: BaseException) -> bool:
    """Whether tf.estimator, or tf.compat.v1.estimator, is what is missing."""
    owner = str(getattr(getattr(error, 'obj', None), '__name__', ''))
    is_missing = isinstance(error, AttributeError) and error.name == 'estimator'
    return is_missing and owner.partition('.')[0] == 'tensorflow'


def _is_raised_by_keras_3(error: BaseException) -> bool:
    """Whether Keras 3 has raised the error, or it is about an object of it."""
    keras = sys.modules.get('keras')
    version = str(getattr(keras, '__version__', '')).partition('.')[0]
    if keras is None or not version.isdecimal() or int(version) < 3 or not getattr(keras, '__file__', None):
        return False
    owners = (base.__module__ for base in type(getattr(error, 'obj', None)).__mro__)
    folder = os.path.join(os.path.dirname(str(keras.__file__)), '')
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    is_its_own = any(owner.partition('.')[0] == 'keras' for owner in owners)
    return is_its_own or any(file.startswith(folder) for file in files)


def _package_of(error: BaseException, tensorflow: Any) -> str | None:
    """The installed package whose code has asked TensorFlow for what it lacks."""
    ours = os.path.dirname(tensorflow.__file__)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    asking = [frame for frame in frames if not frame.f_code.co_filename.startswith(ours)][-1:]
    is_installed = any(part in ('site-packages', 'dist-packages') for part in _parts_of_path(asking))
    return str(asking[0].f_globals.get('__name__', '')).partition('.')[0] or None if is_installed else None


def _parts_of_path(frames: Sequence[FrameType]) -> list[str]:
    return [part for frame in frames for part in frame.f_code.co_filename.split(os.sep)]


# What such a program asks of a data set, and arguments of TensorFlow 1's functions.
_OF_DATA_SETS = {
    'make_one_shot_iterator',
    'make_initializable_iterator',
    'output_shapes',
    'output_types',
    'output_classes',
}
_ARGUMENTS = {'keep_dims', 'reduction_indices', 'squeeze_dims', 'dim', 'keep_prob', 'name_or_scope'}
_NOT_EAGER = re.compile(r'(tf\.\w+)\(\) is not (?:compatible with|supported when) eager execution')


def advice(name: str) -> str:
    return (
        f'{name} is of TensorFlow 1, for which this program is written: use --tf1, as in '
        '`python -m estimator_trainer.compat run --tf1 PROGRAM`; `cluster --program` and `verify` take --tf1 as well'
    )


def advice_for_job(error: BaseException) -> str | None:
    """What to do about the module of a job that uses a name of TensorFlow 1; None: the error has another cause."""
    name = old_name(error, sys.modules.get('tensorflow'))
    return name and (
        f'{name} is of TensorFlow 1: put `import estimator_trainer.compat.tf1` above the first import of TensorFlow in '
        'the module of the job'
    )


def old_name(error: BaseException, tensorflow: ModuleType | None) -> str | None:
    """What `error` says is missing, if TensorFlow 1 had it: 'tf.app'. None: the error has another cause.

    Args:
        tensorflow: the module; None if it is not imported.
    """
    if tensorflow is None:
        return None
    if isinstance(error, AttributeError):
        owner, name = getattr(error, 'obj', None), getattr(error, 'name', None)
        if name in _OF_DATA_SETS and isinstance(owner, tensorflow.data.Dataset):
            return f'{name} of a data set'
        return _of_module(tensorflow, owner, name) if name else None
    if isinstance(error, ImportError):
        return _of_import(tensorflow, str(error))
    if isinstance(error, TypeError):
        match = re.search(r"[Gg]ot an unexpected keyword argument '(\w+)'", str(error))
        if match and match[1] in _ARGUMENTS and _is_raised_in(error, tensorflow):
            return f'the argument {match[1]}'
        return None
    match = _NOT_EAGER.search(str(error)) if isinstance(error, RuntimeError) else None
    return match[1] if match else None


def _is_raised_in(error: BaseException, tensorflow: Any) -> bool:
    """Whether TensorFlow's code has raised the error: a function of the program's own may take any argument."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_code.co_filename.startswith(os.path.dirname(tensorflow.__file__))


def _of_module(tensorflow: ModuleType, owner: object, name: str) -> str | None:
    """'tf.losses.x' of the module tf.losses and the name x."""
    if owner is tensorflow:
        return f'tf.{name}' if name in ('contrib', 'examples') or hasattr(tensorflow.compat.v1, name) else None
    part = str(getattr(owner, '__name__', '')).rpartition('.')[2]  # tf_keras.api._v2.keras.losses is tf.losses
    is_part = part and getattr(tensorflow, part, None) is owner
    return f'tf.{part}.{name}' if is_part and hasattr(getattr(tensorflow.compat.v1, part, None), name) else None


def _of_import(tensorflow: ModuleType, message: str) -> str | None:
    match = re.fullmatch(r"No module named 'tensorflow\.((?:contrib|examples)[\w.]*)'.*", message)
    if match:
        return f'tf.{match[1]}'
    match = re.match(r"cannot import name '(\w+)' from 'tensorflow'", message)
    return _of_module(tensorflow, tensorflow, match[1]) if match else None
