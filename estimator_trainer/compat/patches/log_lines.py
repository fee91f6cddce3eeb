"""What a job logs, by whatever logger, is shown once and among the lines of the trainer.

Touches: _log_tensors and _log_and_record in tensorflow.python.training.basic_session_run_hooks, and the files of
  tensorflow_estimator.python.estimator.early_stopping, tf_logging and autograph, as names of frames
Without it: no INFO line of a job is shown, nor what its LoggingTensorHook prints
For: the trainer and the commands that run a job

Libraries log much by INFO: of them only warnings are shown.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import sysconfig
from types import FrameType, ModuleType

from estimator_trainer.compat import lacks
from estimator_trainer.this_process import log

_HOOKS = {('basic_session_run_hooks.py', '_log_tensors'), ('basic_session_run_hooks.py', '_log_and_record')}
_FILES_OF_HOOKS = {'early_stopping.py'}
_BETWEEN = (  # a job and its logger: with several replicas autograph calls what the job calls
    os.path.join(os.path.dirname(logging.__file__), ''),
    os.path.join('absl', 'logging', ''),
    os.path.join('tensorflow', 'python', 'autograph', ''),
    'tf_logging.py',
    __file__,
)
_PACKAGES = ('site-packages', 'dist-packages')
_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), '')
_PYTHONS = tuple(os.path.join(sysconfig.get_path(name), '') for name in ('stdlib', 'platstdlib'))
_of_job = ''  # the package of --job
_shown_once: set[str] = set()


def show(job_name: str) -> None:
    """Lets INFO lines of the job and all warnings be shown. A job that has configured `logging` itself gets what it has
    configured.

    Args:
        job_name: of --job. Its package may be installed.
    """
    global _of_job
    _of_job = job_name.partition(':')[0].partition('.')[0]
    root = logging.getLogger()
    if not _is_as_python_leaves_it(root):
        return
    handler = log.Handler(sys.stderr)
    handler.setFormatter(_Formatter(log.FORMAT, log.TIME))
    handler.addFilter(are_shown)
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    absl_logging = sys.modules.get('absl.logging')
    if absl_logging and absl_logging.get_verbosity() == absl_logging.WARNING:  # absl's default
        absl_logging.set_verbosity(absl_logging.INFO)


def are_shown(record: logging.LogRecord) -> bool:
    """Whether a record is shown: a filter, which looks at who has called the logger.

    The record does not always know it: with several replicas autograph is in between, and a call of
    `tf.get_logger().info` gives it the caller of the caller.
    """
    if record.levelno >= logging.WARNING:
        return 'is deprecated' not in str(record.msg) or _is_new(record.getMessage())
    path, function = _caller()
    file = os.path.basename(path)
    return file in _FILES_OF_HOOKS or (file, function) in _HOOKS or is_of_job(path)


def _is_new(text: str) -> bool:
    """Whether a deprecation, of which each graph that is made warns anew, has not been shown yet."""
    is_new = text not in _shown_once
    _shown_once.add(text)
    return is_new


def is_of_job(path: str) -> bool:
    """Whether a file is the user's: not of Python, of an installed package other than the job's, or of ours."""
    path = os.path.abspath(path)
    parts = path.split(os.sep)
    for folder in _PACKAGES:
        if folder in parts[:-1]:
            top = parts[parts.index(folder) + 1]
            return bool(_of_job) and top in (_of_job, f'{_of_job}.py')
    return not path.startswith((*_PYTHONS, _OURS))


def _caller() -> tuple[str, str]:
    """The file and the name of the function that logs."""
    frame = inspect.currentframe()
    while frame and any(part in _file(frame) for part in _BETWEEN):
        frame = frame.f_back
    return (_file(frame), frame.f_code.co_name) if frame else (logging.__file__, '')


def _file(frame: FrameType) -> str:
    """The file of the code that a frame runs. What AutoGraph has made of a function keeps its globals."""
    path = frame.f_code.co_filename
    return str(frame.f_globals.get('__file__') or path) if '__autograph_generated_file' in path else path


def _is_as_python_leaves_it(root: logging.Logger) -> bool:
    """Whether nobody has configured `logging`. The first `logging.warning()` of a process adds a plain handler."""
    sample = logging.LogRecord('name', logging.INFO, '', 0, 'text', None, None)
    return root.level == logging.WARNING and all(
        type(each) is logging.StreamHandler and each.stream is sys.stderr and each.format(sample) == 'INFO:name:text'
        for each in root.handlers
    )


class _Formatter(logging.Formatter):
    """A warning says which logger it is of."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        if record.levelno >= logging.WARNING:
            record.message = f'{record.levelname}: {record.name}: {record.message}'
        return super().formatMessage(record)


def print_once(tensorflow: ModuleType) -> None:
    """Prints a line of `tf.logging` once.

    Touches: the handlers of tf.get_logger()
    Without it: once `logging` is configured after the import of TensorFlow, as absl.app, `logging.basicConfig` and the
      first `logging.warning` do, each line of `tf.logging` is printed twice
    For: every program
    """
    logger = tensorflow.get_logger()
    for handler in logger.handlers:
        handler.addFilter(lambda record: not (logger.propagate and _is_printed_by_root(record)))


def _is_printed_by_root(record: logging.LogRecord) -> bool:
    return any(record.levelno >= each.level and _prints(each) for each in logging.getLogger().handlers)


def _prints(handler: logging.Handler) -> bool:
    stream = getattr(getattr(handler, 'python_handler', handler), 'stream', None)  # absl's has one within
    return stream in (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)


def silence_deprecations() -> None:
    """Keeps TensorFlow's own messages of deprecation from being printed.

    Touches: tensorflow.python.util.deprecation._PRINT_DEPRECATION_WARNINGS
    Without it: nearly every call of an Estimator, and every line of a program of TensorFlow 1, prints several lines
    For: the trainer, and programs under `compat run --tf1`
    """
    with lacks.or_without():
        from tensorflow.python.util import deprecation

        if deprecation._PRINT_DEPRECATION_WARNINGS:
            deprecation._PRINT_DEPRECATION_WARNINGS = False
