"""A thread of a session for each operation of its graph that waits for other ranks.

Touches: Session.__init__
Without it: a program with more such operations than threads may wait for ever
For: programs that import Horovod

Nothing orders the operations of a graph that do not depend on each other. If there were fewer threads than operations,
one rank could wait with all its threads for operations for which another rank has no thread left.
"""

import functools
import os
import weakref

import tensorflow as tf

v1 = tf.compat.v1
_operations: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # {graph: how many of them it has}


def count() -> None:
    """The current graph gets one more operation. What runs at once runs in order, and needs no thread."""
    if tf.executing_eagerly():
        return
    graph = v1.get_default_graph()
    while getattr(graph, 'outer_graph', None) is not None:  # the body of a cond or a loop
        graph = graph.outer_graph
    _operations[graph] = _operations.get(graph, 0) + 1
    _install()


@functools.cache
def _install() -> None:
    plain = v1.Session.__init__

    @functools.wraps(plain)
    def init(self, target='', graph=None, config=None):
        of_graph = v1.get_default_graph() if graph is None else graph
        plain(self, target, graph, config if target else with_threads(of_graph, config))

    v1.Session.__init__ = init


def with_threads(graph, config):
    """The config of a session of `graph`: with several such operations, threads of its own, and one more for each."""
    needed = _operations.get(graph, 0)
    if needed < 2 or not isinstance(config, (v1.ConfigProto, type(None))):
        return config
    made = v1.ConfigProto()
    made.CopyFrom(config or made)
    if made.session_inter_op_thread_pool:
        return config
    # Without use_per_session_threads the first session of the process has decided how many threads there are.
    threads = max(made.inter_op_parallelism_threads, 0) or len(os.sched_getaffinity(0))
    made.inter_op_parallelism_threads, made.use_per_session_threads = threads + needed, True
    return made
