"""How long the steps of a task have waited, for their batches and for other workers.

What counts is the time that a step really waits: reading that happens meanwhile, in tf.data's threads, does not.
"""

import math
from collections.abc import Callable, Iterator

import tensorflow as tf

v1 = tf.compat.v1
_OF_CALL = 'estimator_trainer/input_wait_of_call'


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
        secs_by_name = {'input_wait_secs': self._for_input, 'peer_wait_secs': self._for_peers and self._for_peers()}
        return {name: secs for name, secs in secs_by_name.items() if secs is not None}

    def since_last(self) -> dict[str, float]:
        """name -> seconds since the last call of this method."""
        before, self._reported = self._reported, self.totals()
        return {name: secs - before.get(name, 0.0) for name, secs in self._reported.items()}


def measured(batches: Iterator, waited: Callable[[float], None], clock: Callable[[], float]) -> Iterator:
    """Yields the batches. `waited` is told how long each of them had to be waited for."""
    while True:
        began = clock()
        try:
            batch = next(batches)
        except StopIteration:
            return
        waited(clock() - began)
        yield batch


def now_of_call(secs: tf.Tensor | None) -> None:
    """Says how long a call of the default graph's session has waited for its batches: `secs` are the waits of
    one step, or of several."""
    if secs is not None:
        v1.get_collection_ref(_OF_CALL)[:] = [tf.reduce_sum(secs)]


def of_call() -> list[tf.Tensor]:
    """What a session's call has to fetch to know; [] where it is not measured."""
    return v1.get_collection(_OF_CALL)
