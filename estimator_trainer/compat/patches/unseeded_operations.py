"""Which random operations of a graph have no seed of their own, so that TensorFlow has numbered them.

Touches: tensorflow.python.framework.random_seed.get_seed
Without it: nobody is told which variables begin with values that `--seed` does not decide alone
For: the trainer
"""

import functools
import weakref

from estimator_trainer.compat import lacks

_AFTER = 8  # an operation is made at most so many operations after its seed
_numbered: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # graph -> [(operations before it, its seed2)]


def install() -> None:
    """From here on they are noted."""
    with lacks.or_without():
        from tensorflow.python.framework import random_seed

        _note(random_seed)


def _note(random_seed) -> None:
    import tensorflow as tf

    original = random_seed.get_seed
    if hasattr(original, '__wrapped__') and original.__name__ == 'noted_seed':
        return

    @functools.wraps(original)
    def noted_seed(op_seed):
        seeds = original(op_seed)
        graph = tf.compat.v1.get_default_graph()
        if op_seed is None and type(graph) is tf.Graph:
            _numbered.setdefault(graph, []).append((len(graph.get_operations()), seeds[1] or 0))
        return seeds

    noted_seed.__name__ = 'noted_seed'
    random_seed.get_seed = noted_seed


def of(graph) -> set:
    """The operations of a graph of TensorFlow 1 that have been noted."""
    operations, found = graph.get_operations(), set()
    for place, seed2 in _numbered.get(graph, ()):
        for operation in operations[place : place + _AFTER]:
            if 'seed2' in operation.node_def.attr and operation.get_attr('seed2') == seed2:
                found.add(operation)
                break
    return found
