"""How long the steps of a task have waited, for their batches and for other workers.

What counts is the time that a step really waits: reading that happens meanwhile, in tf.data's threads, does not.
"""

import math
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import determinism, graphs

v1 = tf.compat.v1
_OF_CALL = 'estimator_trainer/input_wait_of_call'
ASKS = ('IteratorGetNext', 'IteratorGetNextAsOptional')


class Waits:
    """Seconds that the steps of this process have waited, since it was started.

    Args:
        for_peers: () -> those for other workers; None: they are not measured.
    """

    def __init__(self, for_peers: Callable[[], float] | None = None):
        self._for_peers, self._for_input = for_peers, None
        self._reported: dict[str, float] = {}

    def for_input(self, secs: float) -> None:
        """Some steps have waited so long for their batches; NaN: nobody knows."""
        if math.isfinite(secs):
            self._for_input = (self._for_input or 0.0) + float(secs)

    def totals(self) -> dict[str, float]:
        """name -> seconds, of those that are measured."""
        found = {'input_wait_secs': self._for_input, 'peer_wait_secs': self._for_peers and self._for_peers()}
        return {name: secs for name, secs in found.items() if secs is not None}

    def since_last(self) -> dict[str, float]:
        """The same since the last call of this method."""
        before, self._reported = self._reported, self.totals()
        return {name: secs - before.get(name, 0.0) for name, secs in self._reported.items()}


def measured(batches: Iterator, waited: Callable[[float], None], clock: Callable[[], float]) -> Iterator:
    """The same batches. `waited` is told how long each of them had to be waited for."""
    while True:
        began = clock()
        try:
            batch = next(batches)
        except StopIteration:
            return
        waited(clock() - began)
        yield batch


def for_input_of_step(ops: Iterable[tf.Operation]) -> tf.Tensor | None:
    """How long a step waits for its iterators, in seconds, a float64 scalar.

    The operations are added when the step is complete: the seeds of a graph count its operations.

    Args:
        ops: those that the step runs, whether it is measured or not (`needed`). To measure any other one would run it.

    Returns:
        None where that cannot be measured: the step asks no iterator, asks one under a condition of TensorFlow 1, or
        may not read a clock (--deterministic).
    """
    with lacks.or_without(graphs.__file__):
        return _measured(ops)
    return None


def _measured(ops) -> tf.Tensor | None:
    asking = [op for op in ops if op.type in ASKS]
    if not asking or determinism.is_on() or any(graphs.is_in_control_flow(op) for op in asking):
        return None
    graph = asking[0].graph
    with graph.device(None), graph.colocate_with(None, ignore_existing=True), graph.control_dependencies(None):
        with tf.device(tf.DeviceSpec.from_string(asking[0].device).replace(device_type='CPU', device_index=0)):
            began = tf.timestamp()
            for op in asking:
                graphs.run_after(op, began.op)
            with tf.control_dependencies(asking):
                return tf.timestamp() - began


def needed(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    """The operations without which some operations cannot run, and these."""
    found: dict[tf.Operation, None] = {}
    left = list(ops)
    while left:
        op = left.pop()
        if op not in found:
            found[op] = None
            left += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return list(found)


def now_of_call(secs: tf.Tensor | None) -> None:
    """From here on a call of the default graph's session has waited so long for its batches: `secs` are the waits of
    one step, or of several."""
    if secs is not None:
        v1.get_collection_ref(_OF_CALL)[:] = [tf.reduce_sum(secs)]


def of_call() -> list[tf.Tensor]:
    """What a session's call has to fetch to know; [] where it is not measured."""
    return v1.get_collection(_OF_CALL)
