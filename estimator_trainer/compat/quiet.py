"""Hides messages of TensorFlow that do not help, such as those at its import and those about deprecated Estimators.

With TF_CPP_MIN_LOG_LEVEL=0 or 1 in the environment, `import_tensorflow` hides nothing, and `silence_deprecations` hides
only the messages about deprecation.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from types import ModuleType

_AT_IMPORT = re.compile(
    rb'All log messages before absl::InitializeLog|^[IWE]\d{4} .*(oneDNN custom operations'
    rb'|Could not find cuda drivers|Unable to register cu|TF-TRT|computation_placer|rebuild TensorFlow'
    rb'|failed call to cuInit'
    rb'|This TensorFlow binary is optimized)|^\d{4}-.*: [IWE] .*(oneDNN custom operations'
    rb'|Could not find cuda drivers|Unable to register cu|TF-TRT|This TensorFlow binary is optimized)'
)
# Lines that go on with the message above them. TensorFlow 2.22 tells where in its C++ a status comes from.
_GOES_ON = re.compile(rb'To enable the following instructions|=== Source Location Trace|external/\S+:\d+\s*$|\s*$')

_OF_NO_USE = re.compile(
    '`eval_strategy` is not passed in|No new checkpoint ready for evaluation|'
    'Estimator is not trained yet|No task of this cluster is an evaluator|Training with estimator made no steps|'
    # Of a SavedModel whose variables are those of TensorFlow 1. Who predicts with it trains none of them.
    'Unable to create a python object for variable'
)


def import_tensorflow() -> ModuleType:
    """Imports TensorFlow without the lines it writes about itself, and returns it.

    From 2.18 on its C++ logs at import before it reads TF_CPP_MIN_LOG_LEVEL.
    """
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
    if os.environ['TF_CPP_MIN_LOG_LEVEL'] in ('0', '1'):
        import tensorflow

        return tensorflow
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            import tensorflow

            tensorflow.config.list_physical_devices()  # it looks for a CUDA driver here
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            for line in of_use(held):
                sys.stderr.write(line.decode(errors='replace'))
    return tensorflow


def of_use(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Those of the lines that TensorFlow's import writes which its user should see."""
    hidden = False
    for line in lines:
        hidden = bool(_AT_IMPORT.search(line) or (hidden and _GOES_ON.match(line)))
        if not hidden:
            yield line


def silence_deprecations() -> None:
    """Every line of an Estimator is deprecated; TensorFlow's other warnings stay, and what a job logs."""
    import tensorflow as tf

    from estimator_trainer.compat.patches import log_lines

    log_lines.silence_deprecations()
    if os.environ['TF_CPP_MIN_LOG_LEVEL'] in ('0', '1'):
        return
    warnings.filterwarnings('ignore', category=UserWarning, module=r'(tf_keras|keras)\b')
    warnings.filterwarnings('ignore', 'To make it possible to preserve tf.data options')
    warnings.filterwarnings('ignore', r'`(tf\.(layers|nn\.rnn_cell)\.\w+|layer\.\w+)` is deprecated', UserWarning)
    tf.get_logger().setLevel('INFO')
    tf.get_logger().addFilter(log_lines.are_shown)
    tf.get_logger().addFilter(lambda record: helps(record.getMessage()))


def helps(message: str) -> bool:
    """Whether a message that TensorFlow logs is shown."""
    return not _OF_NO_USE.search(message)


@contextlib.contextmanager
def only_errors() -> Iterator[None]:
    """Holds TensorFlow's warnings back for a while."""
    import tensorflow as tf

    level = tf.get_logger().level
    tf.get_logger().setLevel('ERROR')
    try:
        yield
    finally:
        tf.get_logger().setLevel(level)
