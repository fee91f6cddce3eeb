"""Which lines of a program run as they are under `compat run --tf1`. Imports no TensorFlow.

Under `--tf1` the names of the program are those of TensorFlow 1, so `findings.py` judges it as one that imports
tensorflow.compat.v1. What it would still find there may run all the same.
"""

from estimator_trainer.compat import internals
from estimator_trainer.compat.tf1_names import contrib

CONTRIB = 'tf.contrib.'
_DATA_SETS = 'tf.examples.tutorials.mnist'
_PRIVATE = 'tensorflow.python.'
_IN_GRAPHS = '.ProfilerHook'  # TensorFlow 1 computes in graphs everywhere


def runs(name: str) -> bool:
    """Whether a name that TensorFlow 2 lacks, or has in another way, runs with --tf1, such as 'tf.contrib.rnn.x'."""
    if name.startswith(CONTRIB):
        return contrib.is_listed(name.removeprefix(CONTRIB))
    if name.startswith(_PRIVATE):
        return _has_moved(name.removeprefix(_PRIVATE))
    return f'{name}.'.startswith(f'{_DATA_SETS}.') or name == CONTRIB.rstrip('.') or name.endswith(_IN_GRAPHS)


def _has_moved(name: str) -> bool:
    table = internals.table()
    module, _, last = name.rpartition('.')
    return name in table['*'] or module in table['*'] or last in table.get(module, ())
